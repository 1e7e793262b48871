"""Messages that follow from domain events: they enter the ledger in windows, into their lanes.

An item whose key already exists is unchanged; what cannot be sent is recorded with its reason, so
that every recipient has a record.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.batches import in_parts
from outrider.domain.ids import IdempotencyKey, JobId, OutboxId, RecipientId, Scope
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.texts import storable
from outrider.domain.workflows import DomainEventId, StepId
from outrider.kernel.transactions import digests
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.digests import ClosedDigest
from outrider.kernel.transactions.submissions import Lane, lane_in, places
from outrider.limits.workflows import NOTIFICATION_ROW_BYTES, NOTIFICATION_WINDOW_BYTES
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask

Snapshots = Callable[[set[str]], Mapping[str, ContractSnapshot]]
"""The contracts in force of these targets, and of their fallbacks."""


class NewNotification(NamedTuple):
    """A row to insert: `queued` until it is due, or ended before any call with its reason."""

    id: OutboxId
    submission_target: str
    fallback_target: str | None
    lane: int
    channel: Channel
    provider: str
    recipient_id: RecipientId
    address: str | None
    subject: str | None
    payload: str
    key: IdempotencyKey
    kind: str
    template: str
    due_at: datetime
    urgent: bool = False
    waits_for: str | None = None
    domain_event_id: DomainEventId | None = None
    step_id: StepId | None = None
    status: ItemStatus = ItemStatus.QUEUED
    reason: str | None = None
    error: str | None = None
    purpose: Purpose = UNSTATED


def insert(
    scope: Scope,
    items: Sequence[NewNotification],
    contracts: Mapping[str, ContractSnapshot],
    ids: IdSource,
    now: datetime,
) -> Transaction[set[OutboxId]]:
    """The ids of those that are new."""
    if not items:
        return set()
    items = [
        each._replace(lane=lane_in(contracts[each.submission_target].mode, each.lane))
        for each in items
    ]
    # The same order as for intents: two writers cannot deadlock.
    ordered = sorted(items, key=lambda item: (item.submission_target, item.lane, item.key))
    wanted = {(item.submission_target, item.lane) for item in ordered}
    contract_ids, lanes = yield from places(scope, contracts, wanted, ids, now)
    new: set[OutboxId] = set()
    for part in in_parts(
        ordered,
        lambda item: len(item.payload) + NOTIFICATION_ROW_BYTES,
        NOTIFICATION_WINDOW_BYTES,
    ):
        new |= yield from _insert(scope, part, lanes, contract_ids, contracts, now)
    woken = {
        lanes[item.submission_target, item.lane]
        for item in ordered
        if item.id in new and item.status is ItemStatus.QUEUED
    }
    if woken:
        yield from ask("wake_lanes", {"id": sorted(woken)}, now=now)
    return new


def _insert(
    scope: Scope,
    ordered: Sequence[NewNotification],
    lanes: Mapping[Lane, JobId],
    contract_ids: Mapping[str, int],
    contracts: Mapping[str, ContractSnapshot],
    now: datetime,
) -> Transaction[set[OutboxId]]:
    rows = yield from ask(
        "insert_notifications",
        {
            "id": [item.id for item in ordered],
            "job_id": [lanes[item.submission_target, item.lane] for item in ordered],
            "channel": [item.channel.value for item in ordered],
            "provider": [item.provider for item in ordered],
            "submission_target": [item.submission_target for item in ordered],
            "contract_id": [contract_ids[item.submission_target] for item in ordered],
            "fallback_contract_id": [
                contract_ids.get(item.fallback_target or "") for item in ordered
            ],
            "recipient_id": [item.recipient_id for item in ordered],
            "address": [item.address for item in ordered],
            "subject": [item.subject for item in ordered],
            "payload": [item.payload for item in ordered],
            "key": [item.key for item in ordered],
            "kind": [item.kind for item in ordered],
            "template": [item.template for item in ordered],
            "urgent": [item.urgent for item in ordered],
            "due_at": [item.due_at for item in ordered],
            "waits_for": [item.waits_for for item in ordered],
            "domain_event_id": [item.domain_event_id for item in ordered],
            "step_id": [item.step_id for item in ordered],
            "status": [item.status.value for item in ordered],
            "reason": [item.reason for item in ordered],
            "error": [storable(item.error) for item in ordered],
            "expires_at": [
                contracts[item.submission_target].deadline(item.due_at) for item in ordered
            ],
            "topic": [item.purpose.topic for item in ordered],
            "transactional": [item.purpose.transactional for item in ordered],
        },
        **scope._asdict(),
        now=now,
    )
    return {OutboxId(row[0]) for row in rows}


def of_digests(
    scope: Scope,
    closed: Sequence[ClosedDigest],
    rows: Sequence[NewNotification],
    snapshots: Snapshots,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """The rows of those digests that have not been closed by another process meanwhile."""
    ours = yield from digests.close(closed, now)
    outbox_ids = {each.outbox_id for each in closed if each.id in ours}
    mine = [row for row in rows if row.id in outbox_ids]
    contracts = snapshots({row.submission_target for row in mine})
    yield from insert(scope, mine, contracts, ids, now)
