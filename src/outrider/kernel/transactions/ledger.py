"""The ledger's transactions: read a job's items, reserve and open a window, reopen one, close many.

Reserving and reopening first prove that the job is still ours, in the same transaction. Closing
does not: whoever made a call may always say how it ended, and nobody else can.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from outrider.domain.campaigns import Asset
from outrider.domain.errors import StoreRefused
from outrider.domain.ids import (
    Fence,
    IdempotencyKey,
    JobId,
    OutboxId,
    RecipientId,
    Scope,
    skipped_key,
)
from outrider.domain.message_content import Enclosure
from outrider.domain.own_limits import OWN_LIMIT
from outrider.domain.recipients import AddressKind, SkipReason
from outrider.domain.retry import CALL_REPEATS_MAX, Patience
from outrider.domain.states import SUCCESSES, Channel, ItemStatus
from outrider.domain.submission import (
    TARGET_DOWN,
    TARGET_THROTTLED,
    Contract,
    Progress,
    Verdict,
)
from outrider.domain.texts import storable
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.jobs import Claim, ClaimedJob, Hold, hold
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask, ask_alone

LATE_ACTOR = "result closer"
LATE_TOLD = 10
"""Of items that were accepted late, so many are named in an alert."""


class Member(NamedTuple):
    recipient_id: RecipientId
    address: str | None
    attributes: str
    invalid: int
    duplicate: int
    accepted_late: bool = False
    """Of a retry: after it was begun, the provider accepted what the run before had settled."""


class LedgerRow(NamedTuple):
    """What an earlier claim of this job left behind for one item."""

    id: OutboxId
    recipient_id: RecipientId
    status: str
    is_open: bool
    next_attempt_at: datetime | None
    is_doubted: bool
    attempts: int
    attempt_contract_id: int | None
    maybe_received: bool
    created_at: datetime
    uncounted_calls: int
    repeats: int
    contract_id: int


class Draft(NamedTuple):
    """An item about to be reserved: to be called (`queued`), or terminal with its reason."""

    id: OutboxId
    recipient_id: RecipientId
    address: str | None
    subject: str | None
    body: str
    key: IdempotencyKey
    status: ItemStatus
    reason: str | None
    error: str | None
    payload: Mapping[str, Any] | None = None
    enclosures: Sequence[Enclosure] = ()
    unsubscribe_url: str | None = None
    html: bool = False
    patience: Patience | None = None
    """How long this one is tried, where not its target alone says so."""
    payload_text: str | None = None


class Reopened(NamedTuple):
    id: OutboxId
    attempt: int
    maybe_received: bool
    submitted_at: datetime
    uncounted_calls: int
    repeats: int
    attempts_before: int = 0
    """Those of earlier logical attempts of its step: its contract counts from there."""


class RepeatWord(NamedTuple):
    """On whose word a call may be repeated after a silence: a target, and how long it remembers."""

    target: str
    memory: str


class ClosedAttempt(NamedTuple):
    """The end of one call: which attempt it was, and what the contract made of the answer."""

    id: OutboxId
    attempt: int
    fence: Fence
    closed_at: datetime
    verdict: Verdict
    job_id: JobId | None = None
    call_by: datetime | None = None
    """The end of the lease under which it was opened: later, others may have judged it."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """What all items of a job share."""

    job: ClaimedJob
    asset: Asset
    contract: Contract


def members(context: JobContext, kind: AddressKind) -> Transaction[list[Member]]:
    job = context.job
    if job.retry_job_id is not None:
        rows = yield from ask(
            "load_remainder",
            campaign_id=job.campaign_id,
            kind=int(kind),
            previous_run_id=job.retry_of,
            previous_job_id=job.retry_job_id,
            run_id=job.run_id,
        )
        return [Member(*row) for row in rows]
    rows = yield from ask_alone(
        "load_members",
        campaign_id=job.campaign_id,
        kind=int(kind),
        first_position=job.first_position,
        last_position=job.last_position,
        message_id=context.asset.message.id,
    )
    if context.asset.message.channel is Channel.SOCIAL:
        # One of them stands for the audience in the ledger: a post has no recipient.
        rows = rows[: job.item_count]
    return list(map(Member._make, rows))


def job_rows(job: ClaimedJob) -> Transaction[list[LedgerRow]]:
    rows = yield from ask("load_job_rows", run_id=job.run_id, job_id=job.id)
    return [LedgerRow(*row) for row in rows]


def doubt_abandoned(
    job: ClaimedJob, now: datetime, *, broken_off: bool = False
) -> Transaction[int]:
    """What a former holder left open at a gateway that forgets is in doubt from now on; and what
    this one did, where its own calls were broken off."""
    fence = job.fence + 1 if broken_off else job.fence
    rows = yield from ask("doubt_abandoned", run_id=job.run_id, job_id=job.id, fence=fence, now=now)
    return len(rows)


def bury(
    job: ClaimedJob,
    reason: str,
    lease_expires_at: datetime,
    now: datetime,
    *,
    broken_off: bool = False,
    begun: Sequence[OutboxId] | None = None,
) -> Transaction[bool]:
    """Give up what waits; False: the job is no longer ours to give up. Of what was broken off,
    whatever is not among `begun`, where that is known, was never called."""
    if (yield from hold(job, lease_expires_at, now)) is Hold.LOST:
        return False
    if broken_off and begun is not None:
        yield from ask(
            "take_back_unbegun", {"id": begun}, run_id=job.run_id, job_id=job.id, fence=job.fence,
            now=now,
        )  # fmt: skip
    yield from doubt_abandoned(job, now, broken_off=broken_off)
    yield from ask("bury_waiting", run_id=job.run_id, job_id=job.id, reason=reason, now=now)
    return True


def skip_accepted_late(
    job: ClaimedJob, outbox_ids: Sequence[OutboxId], lease_expires_at: datetime, now: datetime
) -> Transaction[bool]:
    """End what waits in a retry, and was accepted in the run before; in doubt where an attempt of
    this run may have arrived too. False: the job is no longer ours."""
    if (yield from hold(job, lease_expires_at, now)) is Hold.LOST:
        return False
    window: Window = {
        "id": outbox_ids,
        "reason": [SkipReason.ACCEPTED_LATE] * len(outbox_ids),
        "error": [None] * len(outbox_ids),
    }
    yield from ask("skip_items", window, now=now)
    yield from doubt(job, outbox_ids, now)
    return True


def reserve(
    context: JobContext, drafts: Sequence[Draft], lease_expires_at: datetime, now: datetime
) -> Transaction[set[OutboxId] | Hold]:
    """Write the window's rows; the ids that may be called now. A `Hold`: nothing was written.

    Where another item holds a key already, the draft is skipped and says so.
    """
    held = yield from hold(context.job, lease_expires_at, now)
    if held is Hold.LOST or (held is Hold.SUSPENDED and _opens(drafts)):
        return held
    rows = yield from ask("reserve_window", _columns(drafts), **_shared(context, drafts, now))
    if len(rows) < len(drafts):
        written = {row[0] for row in rows}
        left = [draft for draft in drafts if draft.id not in written]
        yield from _skip_held_keys(context, left, now)
    return _opened(rows)


def _skip_held_keys(
    context: JobContext, drafts: Sequence[Draft], now: datetime
) -> Transaction[None]:
    """Nobody is called twice under one key; the item has an ending all the same."""
    job_id = context.job.id
    window: Window = {
        "id": [draft.id for draft in drafts],
        "recipient_id": [draft.recipient_id for draft in drafts],
        "address": [draft.address for draft in drafts],
        "subject": [draft.subject for draft in drafts],
        "key": [draft.key for draft in drafts],
        "own_key": [skipped_key(draft.key, job_id, draft.recipient_id) for draft in drafts],
    }
    shared = _shared(context, drafts, now)
    for unused in ("fence", "opens", "expires_at"):
        del shared[unused]
    yield from ask("skip_held_keys", window, **shared, reason=SkipReason.KEY_HELD)


def reserve_fresh(
    context: JobContext, drafts: Sequence[Draft], now: datetime
) -> Transaction[set[OutboxId] | None]:
    """The same in one statement, under the lease that the job has, where nobody held it before and
    no key should exist: if one does, the store refuses all of them. None: nothing was written,
    and `reserve` says why."""
    rows = yield from ask_alone("reserve_fresh", _columns(drafts), **_shared(context, drafts, now))
    if rows and len(rows) < len(drafts):
        # SQLite's guard against REPLACE leaves out what has a key of an item that has ended.
        raise StoreRefused(f"{len(drafts) - len(rows)} keys are held by other items")
    return _opened(rows) if rows else None


def _opens(drafts: Sequence[Draft]) -> bool:
    return any(draft.status is ItemStatus.QUEUED for draft in drafts)


def _opened(rows: Rows) -> set[OutboxId]:
    return {outbox_id for outbox_id, status in rows if status == ItemStatus.QUEUED}


def _columns(drafts: Sequence[Draft]) -> Window:
    """What is to be called is told by the absence of a status: nearly everything is."""
    if not drafts:
        return {}
    ids, recipients, addresses, subjects, _, keys, statuses, reasons, errors, *_ = zip(
        *drafts, strict=True
    )
    return {
        "id": ids,
        "recipient_id": recipients,
        "address": addresses,
        "subject": subjects,
        "key": keys,
        "status": [None if each is ItemStatus.QUEUED else each for each in statuses],
        "reason": reasons,
        "error": errors,
    }


def _shared(context: JobContext, drafts: Sequence[Draft], now: datetime) -> dict[str, object]:
    job, message = context.job, context.asset.message
    return {
        "tenant_id": job.tenant_id,
        "workspace_id": job.workspace_id,
        "run_id": job.run_id,
        "job_id": job.id,
        "fence": job.fence,
        "opens": _opens(drafts),
        "channel": message.channel.value,
        "provider": context.contract.gateway_type,
        "submission_target": message.submission_target,
        "contract_id": job.contract_id,
        "asset_id": context.asset.id,
        "asset_version": context.asset.version,
        "expires_at": context.contract.deadline(now),
        "topic": message.purpose.topic,
        "transactional": message.purpose.transactional,
        "now": now,
    }


def doubt(job: Claim, outbox_ids: Sequence[OutboxId], now: datetime) -> Transaction[None]:
    """Put items in doubt that may have arrived and cannot safely be called again."""
    yield from ask(
        "doubt_items",
        {"id": outbox_ids},
        fence=job.fence,
        repeats_max=CALL_REPEATS_MAX,
        now=now,
    )


def reopen(
    job: Claim,
    outbox_ids: Sequence[OutboxId],
    attempt_contract_id: int | None,
    word: RepeatWord,
    lease_expires_at: datetime,
    now: datetime,
    *,
    abandoned: bool = True,
) -> Transaction[list[Reopened] | Hold]:
    """Open the next attempt of waiting rows and, where some of these may be such, once more the
    attempt that a former holder abandoned."""
    held = yield from hold(job, lease_expires_at, now)
    if held is not Hold.OURS:
        return held
    window = {"id": outbox_ids}
    if abandoned:
        yield from ask("archive_abandoned", window, fence=job.fence, now=now)
    rows = yield from ask(
        "reopen_window",
        window,
        fence=job.fence,
        attempt_contract_id=attempt_contract_id,
        **word._asdict(),
        now=now,
    )
    if len(rows) < len(outbox_ids):
        yield from ask("skip_suppressed", window, now=now)
        yield from ask("doubt_suppressed", window, fence=job.fence, now=now)
    return [Reopened(*row) for row in rows]


def open_due(
    job: Claim,
    outbox_ids: Sequence[OutboxId],
    attempt_contract_id: int | None,
    word: RepeatWord,
    now: datetime,
) -> Transaction[list[Reopened]]:
    """Open what waits and nobody has open, if the job is ours and its phase goes on: in one
    statement, under the lease that the job has. What it leaves out, `reopen` says why."""
    rows = yield from ask_alone(
        "open_due",
        {"id": outbox_ids},
        job_id=job.id,
        fence=job.fence,
        attempt_contract_id=attempt_contract_id,
        **word._asdict(),
        now=now,
    )
    return [Reopened(*row) for row in rows]


def close(closed: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    """Write how a group of calls ended: at most one statement a kind of ending."""
    # One order of rows for everybody, so that two writers cannot wait for each other.
    ordered = sorted(closed, key=itemgetter(0))
    accepted: dict[ItemStatus, list[ClosedAttempt]] = {}
    proven: dict[ItemStatus, list[ClosedAttempt]] = {}
    failed, retried, doubted, given_back = [], [], [], []
    for attempt in ordered:
        verdict = attempt.verdict
        if verdict.given_back:
            given_back.append(attempt)
        elif verdict.status in SUCCESSES:
            group = accepted if verdict.reason is None else proven
            group.setdefault(verdict.status, []).append(attempt)
        elif verdict.status is ItemStatus.FAILED:
            failed.append(attempt)
        elif verdict.in_doubt:
            doubted.append(attempt)
        else:
            retried.append(attempt)
    alone = len(accepted) == 1 and not (proven or failed or retried or doubted or given_back)
    for status, attempts in accepted.items():
        yield from _close_accepted(status, attempts, now, ask_alone if alone else ask)
    for status, attempts in proven.items():
        yield from _close_proven(status, attempts, now)
    if failed:
        yield from _close_failed(failed, now)
    if retried:
        yield from _close_retried(retried, now)
    if doubted:
        yield from _close_doubted(doubted, now)
    if given_back:
        yield from _give_back(given_back, now)


def note_late(late: Sequence[ClosedAttempt], ids: IdSource, now: datetime) -> Transaction[None]:
    """What a provider took stays on record, where somebody has said otherwise of it meanwhile; and
    whoever did hears of it. `late` are those of which that may be so."""
    ids_of, attempts, fences, closed_at, *_ = zip(*late, strict=True)
    window = {
        "id": ids_of,
        "attempt": attempts,
        "fence": fences,
        "closed_at": closed_at,
        "message_id": [storable(each.verdict.provider_message_id) for each in late],
    }
    noted = yield from ask("note_late_acceptances", window, now=now)
    if not noted:
        return
    places = yield from ask("places_of_items", {"id": [row[0] for row in noted]})
    yield from record(
        [
            AuditEntry(
                Scope(tenant, workspace), "item.accepted_late", LATE_ACTOR, campaign_id, run_id,
                job_id, item, {"reason": reason},
            )
            for item, tenant, workspace, run_id, job_id, campaign_id, reason in places
        ],
        ids,
        now,
    )  # fmt: skip
    # One alert for each run, and for each item that has none.
    by_subject: dict[str, list[Any]] = {}
    for row in places:
        by_subject.setdefault(row[3] or row[0], []).append(row)
    for subject, rows in by_subject.items():
        message = (
            f"the provider accepted {len(rows)} items that already had another outcome, after their"
            " worker was considered lost; they may have been sent twice"
        )
        detail = {"outboxIds": [row[0] for row in rows[:LATE_TOLD]], "runId": rows[0][3]}
        scope = Scope(rows[0][1], rows[0][2])
        alert = Alert(scope, AlertCode.LATE_ACCEPTANCE, subject, message, detail)
        yield from raise_alert(alert, ids, now)


def _identity(group: Sequence[ClosedAttempt]) -> dict[str, Sequence[object]]:
    ids, attempts, fences, closed_at, *_ = zip(*group, strict=True)
    return {"id": ids, "attempt": attempts, "fence": fences, "closed_at": closed_at}


def _close_accepted(
    status: ItemStatus,
    group: Sequence[ClosedAttempt],
    now: datetime,
    ask: Callable[..., Transaction[Rows]],
) -> Transaction[None]:
    yield from ask(
        "close_accepted",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "message_id": [storable(attempt.verdict.provider_message_id) for attempt in group],
        },
        status=status.value,
        now=now,
    )


def _close_proven(
    status: ItemStatus, group: Sequence[ClosedAttempt], now: datetime
) -> Transaction[None]:
    yield from ask(
        "close_proven",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
        },
        status=status.value,
        now=now,
    )


def _close_failed(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "close_failed",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "progress": [attempt.verdict.progress for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
        },
        now=now,
    )


def _close_retried(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    window = {
        **_identity(group),
        "progress": [attempt.verdict.progress for attempt in group],
        "outcome": [_outcome(attempt.verdict) for attempt in group],
        "reason": [storable(attempt.verdict.reason) for attempt in group],
        "error": [storable(attempt.verdict.error) for attempt in group],
        "next_attempt_at": [attempt.verdict.next_attempt_at for attempt in group],
        "maybe_received": [attempt.verdict.maybe_received for attempt in group],
    }
    yield from ask("archive_retried", window)
    yield from ask("close_retried", window, now=now)


def _close_doubted(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "close_doubted",
        {
            **_identity(group),
            "progress": [attempt.verdict.progress for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
        },
        now=now,
    )


def _give_back(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "give_back",
        {
            **_identity(group),
            "next_attempt_at": [attempt.verdict.next_attempt_at for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
            "waits_for": [_waits_for(attempt.verdict) for attempt in group],
            "calls": [int(attempt.verdict.counts_as_call) for attempt in group],
        },
        now=now,
    )


def _waits_for(verdict: Verdict) -> str | None:
    if verdict.reason is None:
        return None
    return verdict.reason if verdict.reason in (TARGET_THROTTLED, OWN_LIMIT) else TARGET_DOWN


def is_any_expired(now: datetime) -> Transaction[bool]:
    """A look, which costs less than a write that changes nothing."""
    rows = yield from ask_alone("any_expired", now=now)
    return bool(rows)


class Expired(NamedTuple):
    """An item whose deadline ended it. Single messages have no job that waits for them."""

    job_id: JobId | None
    id: OutboxId
    origin: str
    attempts: int
    reason: str


def expire(most: int, now: datetime) -> Transaction[list[Expired]]:
    """End what waits and could only be accepted too late, and wake the jobs that waited for it."""
    rows = yield from ask("expire_items", most=most, now=now)
    expired = [Expired(*row) for row in rows]
    of_runs = sorted({each.job_id for each in expired if each.job_id is not None})
    if of_runs:
        yield from ask("wake_jobs", {"id": of_runs}, call_again=False, now=now)
    return expired


def _outcome(verdict: Verdict) -> str:
    return "rejected" if verdict.progress is Progress.ANSWERED else "error"
