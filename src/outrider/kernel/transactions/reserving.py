"""Reserving and opening: a window of drafts becomes open attempts, or opens again.

Both first verify that the job is still ours, in the same transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from outrider.domain.errors import StoreRefused
from outrider.domain.ids import (
    IdempotencyKey,
    OutboxId,
    RecipientId,
    skipped_key,
)
from outrider.domain.mailbox import USUAL_HEAD, MailHead
from outrider.domain.message_content import Enclosure
from outrider.domain.recipients import SkipReason
from outrider.domain.retry import Patience
from outrider.domain.screen_policies import FrequencyCap
from outrider.domain.states import ItemStatus
from outrider.domain.warm_up import WarmUp
from outrider.kernel.transactions import recovery, warm_ups
from outrider.kernel.transactions.claims import Claim
from outrider.kernel.transactions.frequency import CappedItem, admit
from outrider.kernel.transactions.jobs import Hold, hold
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.transactions.screening import HeldBack, hold_back_held
from outrider.kernel.transactions.warm_ups import Candidate
from outrider.ports.store import Rows, Transaction, Window, ask, ask_alone

QUEUED = ItemStatus.QUEUED


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
    """How long this item is retried, if not decided by its target alone."""
    payload_text: str | None = None
    head: MailHead = USUAL_HEAD


class Reopened(NamedTuple):
    id: OutboxId
    attempt: int
    maybe_received: bool
    submitted_at: datetime
    uncounted_calls: int
    repeats: int
    attempts_before: int = 0
    """Attempts from earlier logical attempts of its step: its contract counts from there."""


class RepeatWord(NamedTuple):
    """What allows a call to be repeated after a silence: a target, and how long it remembers."""

    target: str
    memory: str


BeyondCap = Callable[[Sequence["Draft"], Mapping[OutboxId, datetime]], Sequence["Draft"]]
"""What becomes of a window's drafts, given those beyond the frequency cap."""


class Capped(NamedTuple):
    """A cap, whether the message may exceed it, and what to do with the drafts beyond it."""

    cap: FrequencyCap
    may_exceed: bool
    beyond: BeyondCap


class Warming(NamedTuple):
    """The warm-up plans of each draft, and what becomes of those beyond a day's part."""

    plans: Mapping[OutboxId, Sequence[WarmUp]]
    beyond: Callable[[Sequence["Draft"]], None]


def reserve(
    context: JobContext,
    drafts: Sequence[Draft],
    lease_expires_at: datetime,
    now: datetime,
    capped: Capped | None = None,
    warming: Warming | None = None,
) -> Transaction[set[OutboxId] | Hold]:
    """Write the window's rows; returns the ids that may be called now. A `Hold`: nothing was
    written.

    If another item already holds a key, the draft is skipped with that reason.
    """
    held = yield from hold(context.job, lease_expires_at, now)
    if held is Hold.LOST or (held is Hold.SUSPENDED and _opens(drafts)):
        return held
    if warming is None:
        return (yield from _reserve_held(context, drafts, capped, now))
    opened: set[OutboxId] = set()
    by_id = {draft.id: draft for draft in drafts}

    def open_some(some: Sequence[OutboxId]) -> Transaction[set[OutboxId]]:
        got = yield from _reserve_held(context, [by_id[each] for each in some], capped, now)
        opened.update(got)
        return got

    recorded = [Candidate(draft.id, ()) for draft in drafts if draft.status is not QUEUED]
    to_call = [
        Candidate(draft.id, warming.plans[draft.id]) for draft in drafts if draft.status is QUEUED
    ]
    beyond = yield from warm_ups.open_within(recorded, to_call, open_some, now)
    warming.beyond([by_id[each] for each in beyond])
    return opened


def reserve_distrusted(
    context: JobContext, drafts: Sequence[Draft], lease_expires_at: datetime, now: datetime
) -> Transaction[Hold]:
    """Write the window's rows as messages that may have arrived, at any time since their run was
    due: they are called only if that is safe."""
    held = yield from hold(context.job, lease_expires_at, now)
    if held is Hold.OURS:
        opened = yield from _reserve_held(context, drafts, None, now)
        yield from recovery.distrust_reserved(sorted(opened), context.job.scheduled_for)
    return held


def _reserve_held(
    context: JobContext, drafts: Sequence[Draft], capped: Capped | None, now: datetime
) -> Transaction[set[OutboxId]]:
    """The same inside a script that holds the job already."""
    if capped is not None:
        beyond = yield from _beyond_cap(context, drafts, capped, now)
        drafts = capped.beyond(drafts, beyond) if beyond else drafts
    rows = yield from ask("reserve_window", _columns(drafts), **_shared(context, drafts, now))
    if len(rows) < len(drafts):
        written = {row[0] for row in rows}
        left = [draft for draft in drafts if draft.id not in written]
        yield from _skip_held_keys(context, left, now)
    return _opened(rows)


def _beyond_cap(
    context: JobContext, drafts: Sequence[Draft], capped: Capped, now: datetime
) -> Transaction[dict[OutboxId, datetime]]:
    channel = context.asset.message.channel.value
    items = [
        CappedItem(draft.id, channel, draft.address, capped.may_exceed)
        for draft in drafts
        if draft.status is ItemStatus.QUEUED
    ]
    return (yield from admit(context.job.scope, items, capped.cap, now))


def _skip_held_keys(
    context: JobContext, drafts: Sequence[Draft], now: datetime
) -> Transaction[None]:
    """No recipient is called twice under one key; the item still gets an outcome."""
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
    for unused in ("fence", "opens", "expires_at", "attempt_contract_id"):
        del shared[unused]
    yield from ask("skip_held_keys", window, **shared, reason=SkipReason.KEY_HELD)


def reserve_fresh(
    context: JobContext, drafts: Sequence[Draft], now: datetime
) -> Transaction[set[OutboxId] | None]:
    """The same in one statement, under the lease that the job has, for a job's first holder, when
    no key should exist: if one does, the store refuses all of them. None: nothing was written, and
    `reserve` says why."""
    rows = yield from ask_alone("reserve_fresh", _columns(drafts), **_shared(context, drafts, now))
    if rows and len(rows) < len(drafts):
        # SQLite's guard against REPLACE omits rows with the key of an item that has ended.
        raise StoreRefused(f"{len(drafts) - len(rows)} keys are held by other items")
    return _opened(rows) if rows else None


def _opens(drafts: Sequence[Draft]) -> bool:
    return any(draft.status is ItemStatus.QUEUED for draft in drafts)


def _opened(rows: Rows) -> set[OutboxId]:
    return {outbox_id for outbox_id, status in rows if status == ItemStatus.QUEUED}


def _columns(drafts: Sequence[Draft]) -> Window:
    """Rows without a status will be called: nearly all of them."""
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
        "attempt_contract_id": context.attempt_contract_id,
        "asset_id": context.asset.id,
        "asset_version": context.asset.version,
        "expires_at": context.contract.deadline(now),
        "topic": message.purpose.topic,
        "transactional": message.purpose.transactional,
        "now": now,
    }


class CappedWindow(NamedTuple):
    """Single messages under a cap, and how those beyond it are held back."""

    cap: FrequencyCap
    items: Sequence[CappedItem]
    held_back: Callable[[Mapping[OutboxId, datetime]], HeldBack]


class WarmingWindow(NamedTuple):
    """The warm-up plans of each message, and how those beyond a day's part are held back."""

    plans: Mapping[OutboxId, Sequence[WarmUp]]
    held_back: Callable[[Sequence[OutboxId]], HeldBack]


def reopen(
    job: Claim,
    outbox_ids: Sequence[OutboxId],
    attempt_contract_id: int | None,
    word: RepeatWord,
    lease_expires_at: datetime,
    now: datetime,
    *,
    abandoned: bool = True,
    capped: CappedWindow | None = None,
    warming: WarmingWindow | None = None,
) -> Transaction[list[Reopened] | Hold]:
    """Open the next attempt of waiting rows and, where applicable, repeat the attempt that a former
    holder abandoned. Those beyond the frequency cap or the warm-up plan are held back."""
    held = yield from hold(job, lease_expires_at, now)
    if held is not Hold.OURS:
        return held
    attempt = _NextAttempt(attempt_contract_id, word, abandoned)
    if warming is None:
        return (yield from _reopen_held(job, outbox_ids, attempt, capped, now))
    opened: list[Reopened] = []

    def open_some(some: Sequence[OutboxId]) -> Transaction[list[OutboxId]]:
        got = yield from _reopen_held(job, some, attempt, capped, now)
        opened.extend(got)
        return [row.id for row in got]

    candidates = [Candidate(each, warming.plans[each]) for each in outbox_ids]
    any_plan = next(plan for each in candidates for plan in each.warm_ups)
    settled = yield from warm_ups.settled(any_plan, outbox_ids, now)
    always = [each for each in candidates if each.id in settled]
    others = [each for each in candidates if each.id not in settled]
    beyond = yield from warm_ups.open_within(always, others, open_some, now)
    if beyond:
        yield from hold_back_held(warming.held_back(beyond), now)
    return opened


class _NextAttempt(NamedTuple):
    contract_id: int | None
    word: RepeatWord
    abandoned: bool


def _reopen_held(
    job: Claim,
    outbox_ids: Sequence[OutboxId],
    attempt: _NextAttempt,
    capped: CappedWindow | None,
    now: datetime,
) -> Transaction[list[Reopened]]:
    """The same inside a script that holds the job already."""
    if capped is not None:
        known = set(outbox_ids)
        items = [item for item in capped.items if item.id in known]
        beyond = yield from admit(job.scope, items, capped.cap, now)
        if beyond:
            yield from hold_back_held(capped.held_back(beyond), now)
            outbox_ids = [each for each in outbox_ids if each not in beyond]
    window = {"id": outbox_ids}
    if attempt.abandoned:
        yield from ask("archive_abandoned", window, fence=job.fence, now=now)
    rows = yield from ask(
        "reopen_window",
        window,
        fence=job.fence,
        attempt_contract_id=attempt.contract_id,
        **attempt.word._asdict(),
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
    """Open waiting items that are not open, if the job is ours and its phase is active: in one
    statement, under the lease that the job has. `reopen` says why an item was omitted."""
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
