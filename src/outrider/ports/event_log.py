"""The event-log port: the truth about a run, appended by one authority and read in order.

It is as small as possible, so that a log can live in a database that could not be the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from outrider.domain.ids import RunId
from outrider.domain.run_events import FIRST_LOGICAL_ATTEMPT, RunEvent, RunEventType


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event as its source reports it; the append authority assigns its sequence."""

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
        """Append the new ones among these, all or nothing; returns the appended, in order.

        Events whose key is already in the log are not written again. Sequences only grow within a
        run, in commit order; there may be gaps. After StoreUnavailable the outcome is unknown:
        append the same again, it is written once.
        """
        ...

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        """The events with a sequence above `after`, lowest first, at most this many."""
        ...
