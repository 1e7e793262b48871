"""Reading the ledger's items, with their attempts."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import NotFound
from outrider.domain.ids import OutboxId, RunId, Scope, is_uuid
from outrider.domain.receipts import UNREPORTED, Delivery
from outrider.domain.workflows import DomainEventId, StepId
from outrider.kernel.transactions import deliveries
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.ports.store import Rows, Transaction, ask


def engine_attempt(attempts: int, repeats: int) -> int:
    """Which call of the last attempt it was; 0 before the first. Contracts count attempts only."""
    return repeats + 1 if attempts else 0


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
    repeats: int
    """How often the last attempt's call was repeated after its worker was lost."""
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
    """Set for items that followed from a domain event, not for campaign items or intents."""
    domain_event_id: DomainEventId | None
    step_id: StepId | None
    event_id: str | None
    trigger: str | None
    step_order: int | None
    variant: str | None = None
    """Of its message, where that has variants."""
    topic: str | None = None
    """Set when single items are read, as is whether they are transactional."""
    transactional: bool = False
    called_target: str | None = None
    """If the last attempt went to a fallback: which."""
    delivery: Delivery = UNREPORTED
    """Its delivery, as reported by receipts."""

    @property
    def engine_attempt(self) -> int:
        return engine_attempt(self.attempts, self.repeats)


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

    @property
    def engine_attempt(self) -> int:
        return self.repeat + 1


class LateAcceptance(NamedTuple):
    """The provider accepted it, and said so after the item had been settled otherwise."""

    attempt: int
    answered_at: datetime
    provider_message_id: str | None
    recorded_at: datetime


def item(scope: Scope, outbox_id: OutboxId) -> Transaction[Item]:
    found: list[Item] = []
    if is_uuid(outbox_id):
        found = yield from items(scope, [outbox_id])
    if not found:
        raise NotFound(f"there is no item {outbox_id}")
    return found[0]


def items(scope: Scope, outbox_ids: Sequence[OutboxId]) -> Transaction[list[Item]]:
    rows = yield from ask("items_by_id", {"id": outbox_ids}, **scope._asdict())
    return (yield from _complete(rows))


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
    return (yield from _complete(rows))


def _complete(rows: Rows) -> Transaction[list[Item]]:
    """With their deliveries, and the repeats of what ended without being the last attempt."""
    found = [Item(*row) for row in rows]
    known = yield from deliveries.of_items([each.id for each in found])
    between = [each.id for each in found if each.attempts and each.opened_at is None]
    repeats = yield from last_repeats(between)
    return [
        each._replace(
            delivery=known.get(each.id, UNREPORTED),
            # A repeat that is due is counted in the row already.
            repeats=each.repeats or repeats.get(each.id, 0),
        )
        for each in found
    ]


def last_repeats(between: Sequence[OutboxId]) -> Transaction[dict[OutboxId, int]]:
    """For items between two attempts, whose rows no longer say anything about the last one."""
    if not between:
        return {}
    rows = yield from ask("last_repeats", {"id": between})
    return {row[0]: row[1] for row in rows}


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


class WholeItem(NamedTuple):
    """An item with all its attempts and late answers."""

    item: Item
    attempts: list[Attempt]
    late: list[LateAcceptance]


def whole(scope: Scope, outbox_id: OutboxId) -> Transaction[WholeItem]:
    return (yield from _whole((yield from item(scope, outbox_id))))


def whole_if_any(scope: Scope, outbox_id: OutboxId) -> Transaction[WholeItem | None]:
    """None if it is not the id of an item."""
    try:
        found = yield from item(scope, outbox_id)
    except NotFound:
        return None
    return (yield from _whole(found))


def whole_of_recipient(
    scope: Scope, run_id: RunId, recipient_id: str, most: int
) -> Transaction[list[WholeItem]]:
    """Those of one recipient in a run."""
    wholes = []
    found = yield from items_of_run(scope, run_id, recipient_id=recipient_id, most=most)
    for each in found:
        wholes.append((yield from _whole(each)))
    return wholes


def _whole(found: Item) -> Transaction[WholeItem]:
    attempts = yield from attempts_of(found.id)
    return WholeItem(found, attempts, (yield from late_acceptances_of(found.id)))
