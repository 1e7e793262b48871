"""Single messages: intents enter the ledger in windows, and lanes take out what is due.

A repeat of an intent is found by its key and changes nothing; terminal intents never change.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import NotFound
from outrider.domain.ids import IdempotencyKey, JobId, OutboxId, Scope
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.receipts import UNREPORTED, Delivery
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import REALTIME
from outrider.kernel.transactions import callbacks, deliveries, ledger_items
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.deployment import ContractSnapshot, snapshot_contracts
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.limits.campaigns import LANES_PER_TARGET
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, Window, ask, ask_alone

Lane = tuple[str, int]
"""A submission target and a number: the place of a lane within its workspace."""


def lane_in(mode: str, number: int) -> int:
    """Which of a target's lanes: those of each mode are its own, for a target may change modes."""
    return number + (LANES_PER_TARGET if mode == REALTIME else 0)


class LaneTargets(NamedTuple):
    """Contracts' ids by target, and lanes' jobs. Neither ever changes or goes away."""

    contract_ids: dict[str, int]
    lanes: dict[Lane, JobId]


class NewIntent(NamedTuple):
    intent_id: str
    submission_target: str
    fallback_target: str | None
    lane: int
    channel: str
    provider: str
    payload: str
    key: IdempotencyKey
    address: str | None = None
    """Whom it is for, as far as its payload says; what opt-outs are looked up by."""
    purpose: Purpose = UNSTATED
    callback_url: str | None = None
    time_zone: str | None = None
    """The recipient's; hours of the workspace's policy are judged by it."""


class Intent(NamedTuple):
    """An intent as the ledger has it, in contract 001's words."""

    key: IdempotencyKey
    intent_id: str
    submission_target: str
    payload: str
    status: str
    final_outcome: str | None
    exhausted_reason: str | None
    attempts: int
    item_status: str
    doubted_at: datetime | None
    created_at: datetime
    updated_at: datetime
    outbox_id: OutboxId
    contract_id: int
    topic: str | None = None
    transactional: bool = False
    reason: str | None = None
    error: str | None = None
    waits_for: str | None = None
    callback_url: str | None = None
    time_zone: str | None = None
    delivery: Delivery = UNREPORTED


class DueItem(NamedTuple):
    """A single message that is due: an intent, or what followed from a domain event."""

    id: OutboxId
    recipient_id: str
    key: IdempotencyKey
    contract_id: int
    payload: str
    attempts: int
    fallback_contract_id: int | None
    attempt_contract_id: int | None
    maybe_received: bool
    is_open: bool
    created_at: datetime
    origin: str
    channel: str
    address: str | None
    kind: str | None
    template: str | None
    urgent: bool
    uncounted_calls: int
    expires_at: datetime | None
    repeats: int
    topic: str | None = None
    transactional: bool = False
    time_zone: str | None = None

    def deadline_from(self, due_at: datetime) -> datetime | None:
        """Its contract's deadline if it may first go then."""
        return None if self.expires_at is None else due_at + (self.expires_at - self.created_at)


def submit(
    scope: Scope,
    intents: Sequence[NewIntent],
    contracts: Mapping[str, ContractSnapshot],
    ids: IdSource,
    now: datetime,
    known: LaneTargets | None = None,
) -> Transaction[tuple[dict[IdempotencyKey, Intent], LaneTargets]]:
    """Returns those that are new, as they stand now, and their places. Where these are known, one
    statement is all it takes, or two where a store cannot wake lanes by the same."""
    wanted = {(intent.submission_target, intent.lane) for intent in intents}
    found = known or (yield from places(scope, contracts, wanted, ids, now))
    contract_ids, lanes = found
    urls = {intent.callback_url for intent in intents if intent.callback_url is not None}
    endpoints = (yield from callbacks.endpoints_of(scope, urls, ids, now)) if urls else {}
    # Ids as they were given: of one batch, too, the first is the first to go. Rows in one order for
    # everybody, so that two batches with the same intents cannot block each other.
    placed = sorted(
        zip(ids.batch(len(intents)), intents, strict=True),
        key=lambda each: (each[1].submission_target, each[1].lane, each[1].key),
    )
    outbox_ids, intents = [each[0] for each in placed], [each[1] for each in placed]
    window: Window = {
        "id": outbox_ids,
        "job_id": [lanes[intent.submission_target, intent.lane] for intent in intents],
        "channel": [intent.channel for intent in intents],
        "provider": [intent.provider for intent in intents],
        "submission_target": [intent.submission_target for intent in intents],
        "contract_id": [contract_ids[intent.submission_target] for intent in intents],
        "fallback_contract_id": [
            contract_ids.get(intent.fallback_target or "") for intent in intents
        ],
        "intent_id": [intent.intent_id for intent in intents],
        "payload": [intent.payload for intent in intents],
        "key": [intent.key for intent in intents],
        "expires_at": [contracts[each.submission_target].deadline(now) for each in intents],
        "address": [intent.address for intent in intents],
        "topic": [intent.purpose.topic for intent in intents],
        "transactional": [intent.purpose.transactional for intent in intents],
        "callback_id": [endpoints.get(intent.callback_url or "") for intent in intents],
        "time_zone": [intent.time_zone for intent in intents],
    }
    if known is None or urls:
        rows = yield from ask("insert_intents", window, **scope._asdict(), now=now)
    else:
        rows = yield from ask_alone("insert_intents", window, **scope._asdict(), now=now)
    new = {row[0] for row in rows}
    if not all(row[1] for row in rows):
        woken = {lanes[each.submission_target, each.lane] for each in intents}
        yield from ask("wake_lanes", {"id": sorted(woken)}, now=now)
    created: dict[IdempotencyKey, Intent] = {}
    for outbox_id, intent in zip(outbox_ids, intents, strict=True):
        if intent.intent_id in new:
            contract_id = contract_ids[intent.submission_target]
            created.setdefault(intent.key, _as_new(OutboxId(outbox_id), intent, contract_id, now))
    return created, found


def _as_new(outbox_id: OutboxId, intent: NewIntent, contract_id: int, now: datetime) -> Intent:
    """The same as reading it back."""
    return Intent(
        intent.key, intent.intent_id, intent.submission_target, intent.payload,
        IntentStatus.PENDING.value, None, None, 0, ItemStatus.QUEUED.value, None, now, now,
        outbox_id, contract_id, *intent.purpose, callback_url=intent.callback_url,
        time_zone=intent.time_zone,
    )  # fmt: skip


def intents_by_key(
    scope: Scope, keys: Sequence[IdempotencyKey]
) -> Transaction[dict[IdempotencyKey, Intent]]:
    rows = yield from ask("intents_by_key", {"key": keys}, **scope._asdict())
    return {row[0]: Intent(*row) for row in rows}


def places(
    scope: Scope,
    contracts: Mapping[str, ContractSnapshot],
    wanted: Collection[Lane],
    ids: IdSource,
    now: datetime,
) -> Transaction[LaneTargets]:
    """Those that were missing are made."""
    found = yield from _found(scope, contracts, wanted)
    if len(found[0]) < len(contracts):
        yield from snapshot_contracts(contracts, now)
    missing = sorted(set(wanted) - set(found[1]))
    for target, lane in missing:
        place = {**scope._asdict(), "submission_target": target, "lane": lane}
        mode = contracts[target].mode
        yield from ask("insert_lane", id=ids.new(), **place, mode=mode, now=now)
    if missing or len(found[0]) < len(contracts):
        found = yield from _found(scope, contracts, wanted)
    return found


def _found(
    scope: Scope, contracts: Mapping[str, ContractSnapshot], wanted: Collection[Lane]
) -> Transaction[LaneTargets]:
    """One statement, because a client is waiting for it."""
    shas = [snapshot.sha256 for snapshot in contracts.values()]
    rows = yield from ask(
        "places",
        {
            "name": [*shas, *(target for target, _ in wanted)],
            "lane": [*(None for _ in shas), *(lane for _, lane in wanted)],
        },
        **scope._asdict(),
    )
    by_sha256 = {name: int(found) for name, lane, found in rows if lane is None}
    contract_ids = {
        target: by_sha256[snapshot.sha256]
        for target, snapshot in contracts.items()
        if snapshot.sha256 in by_sha256
    }
    lanes = {(name, lane): JobId(id_) for name, lane, id_ in rows if lane is not None}
    return LaneTargets(contract_ids, lanes)


def due(lane: ClaimedLane, most: int, now: datetime) -> Transaction[list[DueItem]]:
    """What is due and nobody has open; and what a former holder of the lane left open."""
    rows = yield from ask_alone("due_in_lane", job_id=lane.id, fence=lane.fence, most=most, now=now)
    return [DueItem(*row) for row in rows]


def release(lane: ClaimedLane, not_before: datetime, now: datetime) -> Transaction[bool]:
    """Give the lane back; it is due again with its next item."""
    rows = yield from ask_alone(
        "release_lane", job_id=lane.id, fence=lane.fence, not_before=not_before, now=now
    )
    return bool(rows)


def with_attempts(
    scope: Scope, intent_id: str, key: IdempotencyKey
) -> Transaction[tuple[Intent, list[Attempt]]]:
    found = yield from intents_by_key(scope, [key])
    if key not in found:
        raise NotFound(f"there is no intent '{intent_id}'")
    intent = found[key]
    known = yield from deliveries.of_items([intent.outbox_id])
    attempts = yield from ledger_items.attempts_of(OutboxId(intent.outbox_id))
    return intent._replace(delivery=known.get(intent.outbox_id, UNREPORTED)), attempts
