"""A history: the log of runs and their snapshots, mirrored in a database for analysis.

Nothing in Outrider reads it but `outrider history`; each event is in it once, however often and in
whatever order it is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent


class RunContext(NamedTuple):
    """Whose run it is and of what: kept with each row, so that analysts need no join."""

    tenant_id: str
    tenant: str
    workspace_id: str
    project: str
    environment: str
    campaign_id: str
    campaign: str
    phase: str
    channel: str
    intended: int


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    event: RunEvent
    context: RunContext


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """The run right after the event with this sequence."""

    run_id: RunId
    run_seq: int
    status: str
    occurred_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    steps: int
    failed_steps: int
    document: str
    context: RunContext


class EventKey(NamedTuple):
    """By what an event is known, and the order of the whole history."""

    run_id: RunId
    run_seq: int


class History(Protocol):
    """Calls raise HistoryUnavailable where trying again may help, HistoryRefused where not."""

    async def reach(self) -> None:
        """Connect and ask; raises where that fails."""
        ...

    async def set_up(self) -> None:
        """Make the tables that are missing; those that are there stay as they are."""
        ...

    async def merge(
        self, events: Sequence[HistoryEvent], snapshots: Sequence[HistorySnapshot]
    ) -> None:
        """Write those that are not there yet, all or nothing."""
        ...

    async def counts(self, runs: Sequence[RunId]) -> Mapping[RunId, int]:
        """How many events it has of each of these runs."""
        ...

    async def events_after(self, after: EventKey, last: RunId, most: int) -> Sequence[RunEvent]:
        """Events behind this place, up to and including this run, by run and sequence."""
        ...

    async def close(self) -> None: ...
