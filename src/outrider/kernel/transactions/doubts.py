"""In-doubt items: reading them, and recording a verdict with its evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, assert_never

from outrider.domain.evidence import EvidenceKind
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


ASK_AGAIN = "ask_again"


class DoubtHold(NamedTuple):
    """A resolver's hold on a doubt: of exactly this doubt, under this fence."""

    doubted_at: datetime
    fence: int


NOT_HELD = DoubtHold(datetime.min.replace(tzinfo=UTC), -1)


@dataclass(frozen=True, slots=True)
class Basis:
    """What verdicts rely on, and whose word it is: a target's, a person's."""

    kind: EvidenceKind
    source: str
    held: Mapping[OutboxId, DoubtHold] | None = None
    """Given by a resolver: items it no longer holds are left alone."""
    messages: Mapping[OutboxId, str] = field(default_factory=dict)
    """The provider's ids of the messages that were found."""
    next_attempts: Mapping[OutboxId, datetime] = field(default_factory=dict)
    """Of those that never arrived: when their contract lets them go as another attempt. The others
    repeat the attempt that was abandoned."""

    details: Mapping[OutboxId, Mapping[str, object]] = field(default_factory=dict)
    """What else the audit log says of each item."""

    def found(self, outbox_id: OutboxId) -> dict[str, object]:
        known = self.messages.get(outbox_id)
        message = {} if known is None else {"providerMessageId": known}
        return {**message, **self.details.get(outbox_id, {})}


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
    """Its contract allows no more attempts: it can be settled, but is not called again."""


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
    basis: Basis | None = None,
) -> Transaction[list[OutboxId]]:
    """Settle those of the items that are still in doubt; returns which they were.

    Exhausted items are never called again, whatever the evidence says. Without a basis, it is the
    actor's own statement.
    """
    basis = basis or Basis(EvidenceKind.PERSON, actor)
    window = {"id": [outbox_id for outbox_id in outbox_ids if is_uuid(outbox_id)]}
    ended = yield from _ended_jobs(window)
    locked = yield from _locked(scope, window, basis)
    if verdict is DoubtVerdict.RESUBMIT:
        locked = [row for row in locked if not row[6] or row[0] in basis.next_attempts]
    locked = yield from _given(locked, verdict.value, basis, ids, now)
    if not locked:
        return []
    found = [row[0] for row in locked]
    match verdict:
        case DoubtVerdict.SENT:
            settled: Window = {
                "id": found,
                "status": [success_status(Channel(row[3])).value for row in locked],
                "message_id": [basis.messages.get(each) for each in found],
            }
            yield from ask("resolve_sent", settled, now=now)
        case DoubtVerdict.FAILED:
            yield from ask("resolve_failed", {"id": found}, now=now)
        case DoubtVerdict.RESUBMIT:
            yield from _end_unsent([row for row in locked if row[2] in ended], now)
            left = [row[0] for row in locked if row[2] not in ended]
            later = [each for each in left if each in basis.next_attempts]
            yield from _attempt_again(later, basis, now)
            same = [each for each in left if each not in basis.next_attempts]
            yield from _call_again(same, arrived_for_all_we_know=False, now=now)
        case other:
            assert_never(other)
    call_again = verdict is DoubtVerdict.RESUBMIT
    yield from _recorded(scope, locked, verdict.value, evidence, actor, basis, call_again, ids, now)
    return found


def _locked(scope: Scope, window: Window, basis: Basis) -> Transaction[Rows]:
    """Those still in doubt; of a resolver's items only those that it still holds."""
    rows = yield from ask("lock_doubts", window, **scope._asdict())
    if basis.held is None or not rows:
        return rows
    checks = yield from ask("held_checks", {"id": [row[0] for row in rows]})
    current = {row[0]: DoubtHold(row[1], row[2]) for row in checks}
    return [row for row in rows if basis.held.get(row[0]) == current.get(row[0], NOT_HELD)]


def _given(
    locked: Rows, verdict: str, basis: Basis, ids: IdSource, now: datetime
) -> Transaction[Rows]:
    """Record the verdicts; those whose evidence has settled another doubt get none."""
    if not locked:
        return locked
    window: Window = {
        "id": ids.batch(len(locked)),
        "outbox_id": [row[0] for row in locked],
        "doubted_at": [row[8] for row in locked],
        "run_id": [row[1] for row in locked],
        "message_id": [basis.messages.get(row[0]) for row in locked],
    }
    rows = yield from ask(
        "record_verdicts", window, verdict=verdict, kind=basis.kind.value, source=basis.source,
        now=now,
    )  # fmt: skip
    given = {row[0] for row in rows}
    return [row for row in locked if row[0] in given]


def _attempt_again(
    outbox_ids: Sequence[OutboxId], basis: Basis, now: datetime
) -> Transaction[None]:
    """As the next attempt that its contract allows."""
    if outbox_ids:
        yield from ask("archive_doubted", {"id": outbox_ids}, outcome="disproved", now=now)
        due = [basis.next_attempts[each] for each in outbox_ids]
        window: Window = {"id": outbox_ids, "next_attempt_at": due}
        yield from ask("resolve_next_attempt", window, now=now)


class Settled(NamedTuple):
    """How many doubts of a run were settled by what."""

    kind: EvidenceKind
    verdict: str
    source: str
    items: int


def verdicts_of_run(run_id: str) -> Transaction[list[Settled]]:
    rows = yield from ask("verdicts_of_run", run_id=run_id)
    return [Settled(EvidenceKind(kind), *rest) for kind, *rest in rows]


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
    scope: Scope,
    outbox_ids: Sequence[OutboxId],
    actor: str,
    ids: IdSource,
    now: datetime,
    basis: Basis | None = None,
) -> Transaction[list[OutboxId]]:
    """Call again under the same reference, at gateways that recognise it if they have it.

    Not if the job was cancelled by a stop, or has ended: no calls are made any more, whatever the
    answer would be. For an exhausted item, only the open attempt may be repeated, because no other
    is made.
    """
    basis = basis or Basis(EvidenceKind.KEY, actor)
    ended = yield from _ended_jobs({"id": outbox_ids})
    found_doubts = yield from _locked(scope, {"id": outbox_ids}, basis)
    repeatable = [
        row for row in found_doubts if not row[5] and row[2] not in ended and (row[7] or not row[6])
    ]
    locked = yield from _given(repeatable, ASK_AGAIN, basis, ids, now)
    if not locked:
        return []
    found = [row[0] for row in locked]
    yield from _call_again(found, arrived_for_all_we_know=True, now=now)
    evidence = "the target remembers references"
    yield from _recorded(scope, locked, ASK_AGAIN, evidence, actor, basis, True, ids, now)
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
    basis: Basis,
    call_again: bool,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """Wake the jobs of these items, and record who gave which verdict, and why."""
    job_ids = sorted({row[2] for row in locked if row[2]})
    yield from ask("wake_jobs", {"id": job_ids}, call_again=call_again, now=now)
    detail: dict[str, object] = {
        "verdict": verdict, "evidence": evidence, "kind": basis.kind.value, "source": basis.source,
    }  # fmt: skip
    yield from record(
        [
            AuditEntry(
                scope,
                "doubt.resolved",
                actor,
                campaign_id,
                run_id,
                job_id,
                item,
                detail | basis.found(item),
            )
            for item, run_id, job_id, _, campaign_id, *_ in locked
        ],
        ids,
        now,
    )
