"""The engine: what makes work move, on one machine or on many.

What is due stands in the job queue and what was decided stands in the run's log, both committed
before an engine hears of it. So an engine may be told late, twice or never: it always looks before
it acts, and whatever it was not told of is found by whoever looks for work that stands still.

An engine is a class that subclasses `Engine`, a function that makes one, and a line in the table
`outrider.engines.table`. Nothing else asks which engine it is: what differs is a callback here.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from outrider.domain.ids import JobId, RunId, TenantId
from outrider.domain.signals import Signal
from outrider.domain.states import JobStatus


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


class JobView(Protocol):
    """How a job stands after it was processed; `run_at` None: somebody has to make it due."""

    @property
    def status(self) -> JobStatus: ...
    @property
    def run_at(self) -> datetime | None: ...
    @property
    def paused(self) -> bool: ...


class Jobs(Protocol):
    """What this process can do with jobs. When it does so is for its engine's worker to decide.

    Either the worker takes whatever is due (`take_due`), or it is told by its engine which job is
    next (`process`). Both claim, do and settle a job under the same lease and fence.
    """

    async def process(self, job_id: JobId) -> JobView | None:
        """Do this one, if it is due and free. How it stands then; None: there is no such job."""
        ...

    async def take_due(self, *, told: bool, rested: bool = False) -> tuple[int, float | None]:
        """Claim what is due and begin it: how many jobs, and in how many seconds there are more.
        `told`: somebody said that it is worth looking; `rested`: nobody has for a while."""
        ...

    def when_there_is_room(self, tell: Callable[[], None]) -> None:
        """Tell when a job has ended or is being settled, so that another may begin."""

    def wake_lanes(self) -> None:
        """There may be a new message in a lane that is held here."""

    def look_at_controls(self) -> None:
        """A job that is held here may have been paused or stopped."""


class Worker(Protocol):
    """One process's share of the work."""

    async def run(self) -> None:
        """Work until `stop` is called, and then finish what is held."""

    def stop(self) -> None: ...


class Engine(Protocol):
    """Each call may raise EngineUnavailable, and nothing is lost by it.

    Those with a body are optional for a class that subclasses this one.
    """

    polls_queue: bool
    """Whether its workers look into the queue for what is due. Where they do not, every process
    looks for work that stands still, and has it recovered."""

    async def start(self, run: Work) -> None:
        """The run was let go. Asked again, it is still one execution."""

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:
        """Somebody steered the run; its jobs and its log know already."""

    async def recover(self, stalled: Sequence[Stalled]) -> Collection[Stalled]:
        """Begin these, or have them looked at. Returns those of which the engine did not know;
        the others it has given out already, and waits for a worker to take them."""
        ...

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        """Under which name the engine knows the run, for the run's log."""
        ...

    def worker(self, jobs: Jobs) -> AbstractAsyncContextManager[Worker]:
        """This process's worker of the engine, which has these jobs done. Whoever asks for it runs
        it inside the block; several may be asked for in one process."""
        ...

    def wake(self) -> None:
        """A single message was submitted in this process, and its lane is due. Only a hint to
        those who work here; by default nobody is told."""
        return

    async def check(self) -> None:
        """Raise EngineUnavailable where its server does not answer, or InvalidInput where a
        setting is wrong. Asked by `outrider check`, and before anything is served or worked on."""
        return

    async def close(self) -> None:
        """The process leaves: give back connections. It may be called where nothing was opened."""
        return
