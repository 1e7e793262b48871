"""The engine: what drives the work, on one machine or on many.

Due work is in the job queue and decisions are in the run's log, both committed before an engine is
notified. So a notification may be late, repeated or lost: an engine always checks before it acts,
and a periodic search finds due work that no engine knows about.

An engine is a subclass of `Engine`, a function that makes one, and an entry in the table
`outrider.engines.table`. Nothing else asks which engine it is: every difference is a callback here.
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
    """What an engine drives: the jobs of a run, or one lane. `id` is the run's or the lane's."""

    kind: WorkKind
    tenant_id: TenantId
    id: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """A job of the work that has been due since then and has no holder."""

    work: Work
    job_id: JobId
    due_at: datetime


class JobView(Protocol):
    """A job's state after it was processed; `run_at` None: it waits to be made due."""

    @property
    def status(self) -> JobStatus: ...
    @property
    def run_at(self) -> datetime | None: ...
    @property
    def paused(self) -> bool: ...


class Jobs(Protocol):
    """What this process can do with jobs. Its engine's worker decides when.

    Either the worker takes whatever is due (`take_due`), or its engine says which job is next
    (`process`). Both claim, do and settle a job under the same lease and fence.
    """

    async def process(self, job_id: JobId) -> JobView | None:
        """Do this one, if it is due and free. Returns its new state; None if there is no such
        job."""
        ...

    async def take_due(self, *, woken: bool, rested: bool = False) -> tuple[int, float | None]:
        """Claim due jobs and start them: how many, and in how many seconds more are due. `woken`: a
        notification says that work may be due; `rested`: there was none for a while."""
        ...

    def when_there_is_room(self, notify: Callable[[], None]) -> None:
        """Notify when a job has ended or is being settled, so that another may begin."""

    def wake_lanes(self) -> None:
        """A lane held here may have a new message."""

    def look_at_controls(self) -> None:
        """A job held here may have been paused or stopped."""


class Worker(Protocol):
    """One process's share of the work."""

    async def run(self) -> None:
        """Work until `stop` is called, then finish what is held."""

    def stop(self) -> None: ...


class Engine(Protocol):
    """Any call may raise EngineUnavailable; nothing is lost by it.

    Callbacks with a body are optional for subclasses.
    """

    polls_queue: bool
    """Whether its workers poll the queue for due work. If not, every process searches for due work
    that no worker holds, and has it recovered."""

    async def start(self, run: Work) -> None:
        """The run was released. Repeated calls still mean one execution."""

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:
        """An operator steered the run; its jobs and its log already reflect that."""

    async def recover(self, stalled: Sequence[Stalled]) -> Collection[Stalled]:
        """Start these, or have them checked. Returns those the engine did not know about; the
        others are already dispatched and wait for a worker."""
        ...

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        """The engine's name for the run, for the run's log."""
        ...

    def worker(self, jobs: Jobs) -> AbstractAsyncContextManager[Worker]:
        """This process's worker of the engine, which has these jobs done. The caller runs it inside
        the block; a process may ask for several."""
        ...

    def wake(self) -> None:
        """A single message was submitted in this process, and its lane is due. Only a hint to local
        workers; by default it is ignored."""
        return

    async def check(self) -> None:
        """Raise EngineUnavailable if its server does not answer, or InvalidInput if a setting is
        wrong. Called by `outrider check`, and before serving or working."""
        return

    async def register(self) -> Sequence[str]:
        """Give its server the definitions of this release, and return their names. Called by
        `outrider migrate`; by default there are none."""
        return ()

    async def close(self) -> None:
        """The process is exiting: close connections. It may be called when nothing was opened."""
        return
