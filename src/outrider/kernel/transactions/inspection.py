"""Reading: runs with their accounting, items with their attempts, and pages of the ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, OutboxId, RunId, Scope, is_uuid
from outrider.domain.outbox import Accounting
from outrider.domain.run_events import RunEventType
from outrider.domain.runs import run_status
from outrider.domain.states import JobOutcome
from outrider.domain.workflows import DomainEventId, StepId
from outrider.ports.store import Rows, Transaction, ask

FIRST = "00000000-0000-0000-0000-000000000000"
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
TERMINAL_RUN_EVENTS = frozenset(
    {RunEventType.RUN_COMPLETED, RunEventType.RUN_FAILED, RunEventType.RUN_CANCELLED}
)


class RunRecord(NamedTuple):
    id: RunId
    campaign_id: CampaignId
    phase: str
    channel: str
    status: str
    intended: int
    scheduled_for: datetime
    retry_of: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stopped_at: datetime | None
    waits_for: str | None
    """`approval` or `room`, of a run that was not let go yet."""


class JobLine(NamedTuple):
    """One job of a run, as a list shows it."""

    id: str
    job_type: str
    submission_target: str
    status: str
    outcome: str | None
    attempts: int
    items: int
    sent: int
    failed: int
    skipped: int
    paused: bool
    cancelled: bool
    last_error: str | None
    run_at: datetime | None
    result: str | None
    updated_at: datetime


class JobCount(NamedTuple):
    status: str
    outcome: str | None
    jobs: int
    attempts: int
    last_error: str | None


class Settlings(NamedTuple):
    sent: int = 0
    failed: int = 0
    skipped: int = 0


class ReasonCount(NamedTuple):
    status: str
    reason: str
    items: int


class Item(NamedTuple):
    id: OutboxId
    recipient_id: str
    address: str | None
    channel: str
    provider: str
    submission_target: str
    status: str
    intent_status: str | None
    exhausted_reason: str | None
    reason: str | None
    error: str | None
    attempts: int
    opened_at: datetime | None
    closed_at: datetime | None
    progress: str | None
    maybe_received: bool
    provider_message_id: str | None
    next_attempt_at: datetime | None
    doubted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    reference: str
    run_id: str | None
    job_id: str | None
    subject: str | None
    waits_for: str | None
    template: str | None
    """Of an item that followed from a domain event; those of campaigns and intents have none."""
    domain_event_id: DomainEventId | None
    step_id: StepId | None
    event_id: str | None
    trigger: str | None
    step_order: int | None
    topic: str | None = None
    """Told of single items only, as is whether they are transactional."""
    transactional: bool = False


class Attempt(NamedTuple):
    number: int
    opened_at: datetime
    closed_at: datetime | None
    progress: str | None
    outcome: str | None
    reason: str | None
    error: str | None
    provider_message_id: str | None
    repeat: int
    """Which repeat of the attempt's call it was, after a crash; 0 is the call itself."""


class LateAcceptance(NamedTuple):
    """The provider took it, and said so after somebody had settled the item otherwise."""

    attempt: int
    answered_at: datetime
    provider_message_id: str | None
    recorded_at: datetime


class AuditRecord(NamedTuple):
    id: str
    created_at: datetime
    actor: str
    event: str
    run_id: str | None
    job_id: str | None
    outbox_id: str | None
    detail: str


class LedgerLine(NamedTuple):
    """What the certificate checks of one row."""

    job_id: str
    id: OutboxId
    reference: str
    status: str
    submission_target: str
    repeat_target: str | None
    """Where it was called again after a silence, and on which declared memory."""
    repeat_memory: str | None
    was_repeated_before: bool
    """Called again after a silence by a version that did not yet say on whose word."""
    was_disproved: bool


class LedgerPosition(NamedTuple):
    """Where a page of a run's rows ended: they come in the order of job and id."""

    job_id: str = FIRST
    outbox_id: str = FIRST


def run(scope: Scope, run_id: RunId) -> Transaction[RunRecord]:
    found: Rows = []
    if is_uuid(run_id):
        found = yield from ask("run_by_id", **scope._asdict(), run_id=run_id)
    if not found:
        raise NotFound(
            f"there is no run {run_id}", hint="`outrider campaign status ID` shows a campaign's run"
        )
    return RunRecord(*found[0])


def runs_of(campaign_id: CampaignId) -> Transaction[list[RunRecord]]:
    rows = yield from ask("runs_of_campaign", campaign_id=campaign_id)
    return [RunRecord(*row) for row in rows]


def run_anywhere(run_id: RunId) -> Transaction[RunRecord]:
    """For the kernel's own loops, which serve every tenant."""
    rows = yield from ask("run_by_id_anywhere", run_id=run_id)
    return RunRecord(*rows[0])


def left_in_doubt(campaign_id: CampaignId) -> Transaction[int]:
    """How many items earlier launches left in doubt, which the later ones do not count."""
    rows = yield from ask("count_left_in_doubt", campaign_id=campaign_id)
    count: int = rows[0][0]
    return count


def runs_page(campaign_id: CampaignId, before: str, most: int) -> Transaction[list[RunRecord]]:
    """The newest first."""
    rows = yield from ask("runs_page", campaign_id=campaign_id, before=before, most=most)
    return [RunRecord(*row) for row in rows]


def jobs_page(run_id: RunId, after: str, most: int) -> Transaction[list[JobLine]]:
    rows = yield from ask("jobs_page", run_id=run_id, after=after, most=most)
    return [JobLine(*row) for row in rows]


def accounting(record: RunRecord) -> Transaction[Accounting]:
    """Jobs carry their counts once all their items have ended; the rows of others are counted."""
    finished = yield from ask("count_finished_jobs", run_id=record.id)
    unfinished = yield from ask("count_unfinished_jobs", run_id=record.id)
    rows = yield from ask("count_unfinished_rows", run_id=record.id)
    _, sent, failed, skipped = (int(number) for number in finished[0])
    reserved, queued, in_doubt, live_sent, live_failed, live_skipped = rows[0]
    unreserved = int(unfinished[0][0]) - reserved
    return Accounting(
        intended=record.intended,
        waiting=unreserved + queued,
        in_doubt=in_doubt,
        sent=sent + live_sent,
        failed=failed + live_failed,
        skipped=skipped + live_skipped,
    )


def accountings(intended: Mapping[RunId, int]) -> Transaction[dict[RunId, Accounting]]:
    """Of several runs at once, by what each intends."""
    if not intended:
        return {}
    window = {"id": list(intended)}
    jobs = {row[0]: row[1:] for row in (yield from ask("sum_jobs_of_runs", window))}
    rows = {row[0]: row[1:] for row in (yield from ask("count_unfinished_rows_of_runs", window))}
    counted = {}
    for run_id, whole in intended.items():
        unsettled, sent, failed, skipped = jobs.get(run_id, (0, 0, 0, 0))
        reserved, queued, in_doubt, *live = rows.get(run_id, (0, 0, 0, 0, 0, 0))
        counted[run_id] = Accounting(
            intended=whole,
            waiting=unsettled - reserved + queued,
            in_doubt=in_doubt,
            sent=sent + live[0],
            failed=failed + live[1],
            skipped=skipped + live[2],
        )
    return counted


def run_accounting(run_id: RunId) -> Transaction[Accounting]:
    return (yield from accounting((yield from run_anywhere(run_id))))


def run_with_accounting(scope: Scope, run_id: RunId) -> Transaction[tuple[RunRecord, Accounting]]:
    record = yield from run(scope, run_id)
    return record, (yield from accounting(record))


def throughput(
    run_id: RunId, begin: datetime, bucket_seconds: float, buckets: int
) -> Transaction[dict[int, Settlings]]:
    """By bucket since the beginning, what the jobs came to that settled in it."""
    rows = yield from ask(
        "run_throughput",
        run_id=run_id,
        begin=begin,
        bucket_seconds=bucket_seconds,
        last_bucket=buckets - 1,
    )
    return {row[0]: Settlings(*row[1:]) for row in rows}


def unsettled_items(run_id: RunId) -> Transaction[int]:
    """How many items are in jobs that have not settled."""
    rows = yield from ask("count_unfinished_jobs", run_id=run_id)
    return int(rows[0][0])


def job_counts(run_id: RunId) -> Transaction[list[JobCount]]:
    rows = yield from ask("count_jobs", run_id=run_id)
    return [JobCount(*row) for row in rows]


def reason_counts(run_id: RunId) -> Transaction[list[ReasonCount]]:
    rows = yield from ask("count_reasons", run_id=run_id)
    return [ReasonCount(*row) for row in rows]


def ledger_page(run_id: RunId, after: LedgerPosition, most: int) -> Transaction[list[LedgerLine]]:
    rows = yield from ask(
        "ledger_page",
        run_id=run_id,
        after_job=after.job_id,
        after_id=after.outbox_id,
        most=most,
    )
    return [LedgerLine(*row) for row in rows]


class RunEnding(NamedTuple):
    """How a run ended, by what its row does not say itself: its log and its jobs."""

    logged: str | None
    """The status that its last event brought; None of a run that has not ended."""
    outcomes: list[str | None]
    is_adopted: bool
    """It ended before runs had a log, and its last event is no witness."""

    def agrees_with(self, status: str) -> bool:
        if None in self.outcomes or not (self.is_adopted or self.logged == status):
            return False
        computed = run_status([JobOutcome(each) for each in self.outcomes if each is not None])
        return computed.value == status


def run_ending(run_id: RunId) -> Transaction[RunEnding]:
    told = yield from ask("run_ending", run_id=run_id)
    outcomes = yield from ask("run_outcomes", run_id=run_id)
    payload = {}
    if told and told[0][0] in TERMINAL_RUN_EVENTS:
        payload = msgspec.json.decode(told[0][1])
    return RunEnding(
        payload.get("status"), [row[0] for row in outcomes], bool(payload.get("adopted"))
    )


def key_is_unique_in_schema() -> Transaction[bool]:
    rows = yield from ask("key_is_unique_in_schema")
    return bool(rows[0][0])


def item(scope: Scope, outbox_id: OutboxId) -> Transaction[Item]:
    found: list[Item] = []
    if is_uuid(outbox_id):
        found = yield from items(scope, [outbox_id])
    if not found:
        raise NotFound(f"there is no item {outbox_id}")
    return found[0]


def items(scope: Scope, outbox_ids: Sequence[OutboxId]) -> Transaction[list[Item]]:
    rows = yield from ask("items_by_id", {"id": outbox_ids}, **scope._asdict())
    return [Item(*row) for row in rows]


def items_of_run(
    scope: Scope,
    run_id: RunId,
    *,
    most: int,
    recipient_id: str | None = None,
    status: str | None = None,
    after: LedgerPosition | None = None,
) -> Transaction[list[Item]]:
    begin = after or LedgerPosition()
    page: dict[str, object] = {
        **scope._asdict(), "run_id": run_id, "after_job": begin.job_id,
        "after_id": begin.outbox_id, "most": most,
    }  # fmt: skip
    if recipient_id is None and status is None:
        rows = yield from ask("items_of_run", **page)
    else:
        rows = yield from ask(
            "items_of_run_filtered", **page, recipient_id=recipient_id, status=status
        )
    return [Item(*row) for row in rows]


def attempts_of(outbox_id: OutboxId) -> Transaction[list[Attempt]]:
    return (yield from attempts_of_all([outbox_id]))[outbox_id]


def late_acceptances_of(outbox_id: OutboxId) -> Transaction[list[LateAcceptance]]:
    rows = yield from ask("late_acceptances_of", outbox_id=outbox_id)
    return [LateAcceptance(*row) for row in rows]


def attempts_of_all(outbox_ids: Sequence[OutboxId]) -> Transaction[dict[OutboxId, list[Attempt]]]:
    rows = yield from ask("attempts_of_items", {"id": outbox_ids})
    attempts: dict[OutboxId, list[Attempt]] = {outbox_id: [] for outbox_id in outbox_ids}
    for outbox_id, *attempt in rows:
        attempts[outbox_id].append(Attempt(*attempt))
    return attempts


def contract_document(contract_id: int) -> Transaction[str]:
    rows = yield from ask("contract_by_id", contract_id=contract_id)
    document: str = rows[0][0]
    return document


def audit_of_run(
    scope: Scope, run_id: RunId, after: str, most: int
) -> Transaction[list[AuditRecord]]:
    rows = yield from ask("audit_of_run", **scope._asdict(), run_id=run_id, after=after, most=most)
    return [AuditRecord(*row) for row in rows]


def audit_of_workspace(scope: Scope, after: str, most: int) -> Transaction[list[AuditRecord]]:
    rows = yield from ask("audit_of_workspace", **scope._asdict(), after=after, most=most)
    return [AuditRecord(*row) for row in rows]


def audit_of_campaign(
    scope: Scope, campaign_id: CampaignId, after: str, most: int
) -> Transaction[list[AuditRecord]]:
    rows = yield from ask(
        "audit_of_campaign", **scope._asdict(), campaign_id=campaign_id, after=after, most=most
    )
    return [AuditRecord(*row) for row in rows]
