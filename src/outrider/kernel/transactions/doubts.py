"""In-doubt items: reading them, and recording a verdict with its evidence."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, assert_never

from outrider.domain.ids import CampaignId, IdempotencyKey, OutboxId, RunId, Scope, is_uuid
from outrider.domain.jobs import CANCELLED, JOB_DEAD
from outrider.domain.states import Channel, success_status
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.campaigns import campaign
from outrider.kernel.transactions.run_records import run
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask


class DoubtVerdict(StrEnum):
    """What evidence can say about an item in doubt. `resubmit`: it never arrived, call again."""

    SENT = "sent"
    FAILED = "failed"
    RESUBMIT = "resubmit"


class Doubt(NamedTuple):
    id: OutboxId
    run_id: str | None
    job_id: str | None
    recipient_id: str
    address: str | None
    channel: str
    provider: str
    contract_id: int
    reference: IdempotencyKey
    attempts: int
    progress: str | None
    reason: str | None
    error: str | None
    opened_at: datetime | None
    doubted_at: datetime
    submitted_at: datetime
    campaign_id: str | None = None
    is_exhausted: bool = False
    """Its contract allows no more attempts: it can be settled, and is not called again."""


def doubts_page(
    scope: Scope, run_id: str | None, after: str, most: int, campaign_id: str | None = None
) -> Transaction[list[Doubt]]:
    """Of the workspace, or of one run or campaign in it."""
    yield from _require_found(scope, run_id, campaign_id)
    rows = yield from ask(
        "doubts_page",
        **scope._asdict(),
        run_id=run_id,
        campaign_id=campaign_id,
        after=after,
        most=most,
    )
    return [Doubt(*row) for row in rows]


def count_doubts(
    scope: Scope, run_id: str | None, campaign_id: str | None, most: int
) -> Transaction[int]:
    """Counts at most `most`."""
    yield from _require_found(scope, run_id, campaign_id)
    rows = yield from ask(
        "count_doubts", **scope._asdict(), run_id=run_id, campaign_id=campaign_id, most=most
    )
    count: int = rows[0][0]
    return count


def _require_found(scope: Scope, run_id: str | None, campaign_id: str | None) -> Transaction[None]:
    """NotFound if it does not exist or belongs to another workspace."""
    if run_id is not None:
        yield from run(scope, RunId(run_id))
    if campaign_id is not None:
        yield from campaign(scope, CampaignId(campaign_id))


def doubts_among(scope: Scope, outbox_ids: Sequence[OutboxId]) -> Transaction[list[OutboxId]]:
    """Those of the items that are in doubt, and belong to the workspace."""
    window = {"id": [outbox_id for outbox_id in outbox_ids if is_uuid(outbox_id)]}
    rows = yield from ask("doubts_among", window, **scope._asdict())
    return [row[0] for row in rows]


class LostHolder(NamedTuple):
    """Who called an item in doubt, and when that worker's lease was found to have expired."""

    outbox_id: OutboxId
    worker_id: str
    lost_at: datetime


def lost_holders(scope: Scope, outbox_ids: Sequence[OutboxId]) -> Transaction[list[LostHolder]]:
    """Of the items whose worker, as far as is known, did not exit but lost its lease."""
    window = {"id": [outbox_id for outbox_id in outbox_ids if is_uuid(outbox_id)]}
    rows = yield from ask("lost_holders", window, **scope._asdict())
    return [LostHolder(*row) for row in rows]


def resolve(
    scope: Scope,
    outbox_ids: Sequence[OutboxId],
    verdict: DoubtVerdict,
    evidence: str,
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[list[OutboxId]]:
    """Settle those of the items that are still in doubt; returns which they were.

    Exhausted items are never called again, whatever the evidence says.
    """
    window = {"id": [outbox_id for outbox_id in outbox_ids if is_uuid(outbox_id)]}
    ended = yield from _ended_jobs(window)
    locked = yield from ask("lock_doubts", window, **scope._asdict())
    if verdict is DoubtVerdict.RESUBMIT:
        locked = [row for row in locked if not row[6]]
    if not locked:
        return []
    found = [row[0] for row in locked]
    match verdict:
        case DoubtVerdict.SENT:
            statuses = [success_status(Channel(row[3])).value for row in locked]
            yield from ask("resolve_sent", {"id": found, "status": statuses}, now=now)
        case DoubtVerdict.FAILED:
            yield from ask("resolve_failed", {"id": found}, now=now)
        case DoubtVerdict.RESUBMIT:
            yield from _end_unsent([row for row in locked if row[2] in ended], now)
            left = [row[0] for row in locked if row[2] not in ended]
            yield from _call_again(left, arrived_for_all_we_know=False, now=now)
        case other:
            assert_never(other)
    call_again = verdict is DoubtVerdict.RESUBMIT
    yield from _recorded(scope, locked, verdict.value, evidence, actor, call_again, ids, now)
    return found


def _ended_jobs(window: Window) -> Transaction[set[str]]:
    """Those of the items' jobs that make no more calls. They are locked, so that none of them ends
    while the verdict is written."""
    rows = yield from ask("lock_jobs_of_doubts", window)
    return {job_id for job_id, has_ended in rows if has_ended}


def _end_unsent(locked: Rows, now: datetime) -> Transaction[None]:
    """It never arrived, and its job has ended: a retry of the phase takes it up."""
    if locked:
        reasons = [CANCELLED if row[5] else JOB_DEAD for row in locked]
        window: Window = {"id": [row[0] for row in locked], "reason": reasons}
        yield from ask("end_unsent", window, now=now)


def ask_again(
    scope: Scope, outbox_ids: Sequence[OutboxId], actor: str, ids: IdSource, now: datetime
) -> Transaction[list[OutboxId]]:
    """Call again under the same reference, at gateways that recognise it if they have it.

    Not if the job was cancelled by a stop, or has ended: no calls are made any more, whatever the
    answer would be. For an exhausted item, only the open attempt may be repeated, because no other
    is made.
    """
    ended = yield from _ended_jobs({"id": outbox_ids})
    found_doubts = yield from ask("lock_doubts", {"id": outbox_ids}, **scope._asdict())
    locked = [
        row for row in found_doubts if not row[5] and row[2] not in ended and (row[7] or not row[6])
    ]
    if not locked:
        return []
    found = [row[0] for row in locked]
    yield from _call_again(found, arrived_for_all_we_know=True, now=now)
    evidence = "the target remembers references"
    yield from _recorded(scope, locked, "ask_again", evidence, actor, True, ids, now)
    return found


def _call_again(
    outbox_ids: Sequence[OutboxId], *, arrived_for_all_we_know: bool, now: datetime
) -> Transaction[None]:
    if not outbox_ids:
        return
    window = {"id": outbox_ids}
    outcome = "abandoned" if arrived_for_all_we_know else "disproved"
    yield from ask("archive_doubted", window, outcome=outcome, now=now)
    yield from ask(
        "resolve_resubmit",
        window,
        maybe_received=arrived_for_all_we_know,
        reason="asked_again" if arrived_for_all_we_know else "resolved_resubmit",
        now=now,
    )


def _recorded(
    scope: Scope,
    locked: Rows,
    verdict: str,
    evidence: str,
    actor: str,
    call_again: bool,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """Wake the jobs of these items, and record who gave which verdict, and why."""
    job_ids = sorted({row[2] for row in locked if row[2]})
    yield from ask("wake_jobs", {"id": job_ids}, call_again=call_again, now=now)
    detail: dict[str, object] = {"verdict": verdict, "evidence": evidence}
    yield from record(
        [
            AuditEntry(scope, "doubt.resolved", actor, campaign_id, run_id, job_id, item, detail)
            for item, run_id, job_id, _, campaign_id, *_ in locked
        ],
        ids,
        now,
    )
