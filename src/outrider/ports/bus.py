"""The event bus as the kernel sees it: a sink is sent a window of events and reports on each."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from outrider.domain.ids import Scope
from outrider.domain.message_events import CallbackAddress
from outrider.domain.run_events import RunEvent


@dataclass(frozen=True, slots=True)
class BusEvent:
    """`content` is the event as CloudEvents JSON; `id` is the same on every redelivery.

    For a message event, `run_id` is the stream that keeps its order and `outbox_id` its item."""

    id: str
    run_id: str
    run_seq: int
    content: bytes
    outbox_id: str | None = None
    scope: Scope | None = None
    address: CallbackAddress | None = None
    """Whither, where events of one sink go to many addresses."""
    event: RunEvent | None = None
    """The run event itself, whose payload `content` may leave out."""


class BusVerdict(StrEnum):
    """`held`: not tried, because an earlier event of its run failed. `gone`: do not retry.
    `address_gone`: the sink continues, but not the event's own address. `away`: the sink cannot be
    reached, and its events wait for it however long that takes."""

    DELIVERED = "delivered"
    FAILED = "failed"
    AWAY = "away"
    HELD = "held"
    GONE = "gone"
    ADDRESS_GONE = "address_gone"


@dataclass(frozen=True, slots=True)
class BusDelivery:
    """The outcome of sending one event. `error` is a short code: other tenants may see it."""

    verdict: BusVerdict
    error: str = ""
    retry_after_seconds: float | None = None


DELIVERED = BusDelivery(BusVerdict.DELIVERED)
HELD = BusDelivery(BusVerdict.HELD)


def first_fails(runs: Sequence[str], failed: BusDelivery) -> list[BusDelivery]:
    """No event of a window could be sent: the first of each run failed, the rest are held.

    `runs` are the runs of the window's events, event by event.
    """
    first = {run: place for place, run in reversed(list(enumerate(runs)))}
    return [failed if first[run] == place else HELD for place, run in enumerate(runs)]


class Sink(Protocol):
    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        """Send these, each run's in order; returns a verdict for each, in the window's order.

        Once an event of a run has failed, the later ones of that run are held.
        """
        ...

    async def close(self) -> None: ...
