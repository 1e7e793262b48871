"""What follows from domain events, written with their own record: messages, digests, alerts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from outrider.domain.batches import in_parts
from outrider.domain.event_people import Reached, named_without_message
from outrider.domain.ids import Scope
from outrider.domain.workflows import DomainEvent, EventStatus
from outrider.kernel.transactions import (
    digests,
    domain_events,
    event_people,
    failed_events,
    notifications,
)
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.transactions.domain_events import SettledEvent
from outrider.kernel.transactions.notifications import NewNotification, Snapshots
from outrider.limits.workflows import NOTIFICATION_WINDOW_BYTES
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction


class RoutedEvent(Protocol):
    """An event, and what was decided about it."""

    @property
    def event(self) -> DomainEvent: ...

    @property
    def rows(self) -> list[NewNotification]: ...

    @property
    def entries(self) -> list[DigestEntry]: ...

    @property
    def status(self) -> EventStatus: ...

    @property
    def problem(self) -> str | None: ...

    @property
    def logged_problem(self) -> str: ...

    @property
    def was_tried(self) -> bool: ...

    def document(self) -> str: ...


def settle(
    scope: Scope,
    routed: Sequence[RoutedEvent],
    snapshots: Snapshots,
    most_counted: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """Settle those that another router has not settled meanwhile."""
    fresh = yield from domain_events.still_received([each.event.id for each in routed])
    mine = [each for each in routed if each.event.id in fresh]
    rows = [row for each in mine for row in each.rows]
    contracts = snapshots({row.submission_target for row in rows})
    yield from notifications.insert(scope, rows, contracts, ids, now)
    entries = [entry for each in mine for entry in each.entries]
    for part in in_parts(entries, lambda entry: len(entry.variables), NOTIFICATION_WINDOW_BYTES):
        yield from digests.collect(scope, part, ids, now)
    settled = [
        SettledEvent(each.event.id, each.status, each.document(), each.problem) for each in mine
    ]
    yield from domain_events.settle(settled, now)
    yield from event_people.note(scope, [named for each in mine for named in _named(each)])
    yield from _update_alerts(scope, mine, most_counted, ids, now)


def _named(routed: RoutedEvent) -> list[event_people.Named]:
    """Whom the event names that get no message of their own: a digest is one of many events."""
    reached = [Reached(row.channel, row.recipient_id, row.address) for row in routed.rows]
    event = routed.event
    return [(event.id, address) for address in named_without_message(event, reached)]


def _update_alerts(
    scope: Scope,
    routed: Sequence[RoutedEvent],
    most_counted: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """One alert for each trigger with a failure; most windows need none."""
    failed = {
        each.event.trigger: (each.event.event_id, each.logged_problem)
        for each in routed
        if each.status is EventStatus.FAILED
    }
    recovered = {
        each.event.trigger
        for each in routed
        if each.was_tried and each.status is EventStatus.ROUTED
    }
    if failed or recovered:
        yield from failed_events.update_alerts(scope, failed, recovered, most_counted, ids, now)
