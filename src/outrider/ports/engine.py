"""The engine: what makes work move, on one machine or on many.

What is due stands in the job queue and what was decided stands in the run's log, both committed
before an engine hears of it. So an engine may be told late, twice or never: it always looks before
it acts, and whatever it was not told of is found by whoever looks for work that stands still.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from outrider.domain.ids import JobId, RunId, TenantId
from outrider.domain.signals import Signal


class WorkKind(StrEnum):
    RUN = "run"
    LANE = "lane"


@dataclass(frozen=True, slots=True)
class Work:
    """What an engine moves: the jobs of a run, or one lane. `id` is the run's, or the lane's."""

    kind: WorkKind
    tenant_id: TenantId
    id: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """A job of the work that has been due since then, and that nobody holds."""

    work: Work
    job_id: JobId
    due_at: datetime


class Engine(Protocol):
    """Each call may raise EngineUnavailable, and nothing is lost by it."""

    async def start(self, run: Work) -> None:
        """The run was let go. Asked again, it is still one execution."""

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:
        """Somebody steered the run; its jobs and its log know already."""

    async def recover(self, stalled: Sequence[Stalled]) -> Collection[Stalled]:
        """Begin these, or have them looked at. Returns those of which the engine did not know;
        the others it has given out already, and waits for a worker to take them."""

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        """Under which name the engine knows the run, for the run's log."""


class Worker(Protocol):
    """One process's share of the work."""

    async def run(self) -> None:
        """Work until `stop` is called, and then finish what is held."""

    def stop(self) -> None: ...
