"""The event-log port: the truth about a run, appended by one authority and read in its order.

It is as small as it can be, so that a log may live in a database that could never be the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from outrider.domain.ids import RunId
from outrider.domain.run_events import FIRST_LOGICAL_ATTEMPT, RunEvent, RunEventType


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event as whoever saw it tells it; the append authority gives it its sequence."""

    type: RunEventType
    step_id: str | None = None
    logical_attempt: int = FIRST_LOGICAL_ATTEMPT
    engine_attempt: int | None = None
    payload: Mapping[str, object] = field(default_factory=dict)
    signal_id: str | None = None
    occurred_at: datetime | None = None


class Appended(NamedTuple):
    run_seq: int
    type: str
    step_id: str | None


class EventLog(Protocol):
    async def append(
        self, run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
    ) -> Sequence[Appended]:
        """Append what is new of these, all of it or nothing; what was appended, in its order.

        What the log has already, by its key, is not written again. Sequences only grow within a
        run, in the order of the commits; there may be gaps. StoreUnavailable leaves it open
        whether anything was written: tell the same again, it is written once.
        """
        ...

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        """The events whose sequence is above `after`, the lowest first, at most so many."""
        ...
