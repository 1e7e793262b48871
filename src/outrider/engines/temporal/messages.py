"""What is sent to Temporal, and its names there: ids and numbers, never personal data.

Workflow code imports this, so it contains only data.
"""

from dataclasses import dataclass, field

WORKFLOW = "OutriderWork"
LOOK = "outrider.look"
PROCESS = "outrider.process"
STEER = "steer"
JOB_FAILED = "JobFailed"
"""The type of an activity failure whose one detail says when the job is due again."""


@dataclass(frozen=True)
class WorkOrder:
    """A workflow's one argument, the same for each of its successive executions."""

    kind: str
    work_id: str
    window_jobs: int
    history_events: int
    lease_seconds: float


@dataclass(frozen=True)
class LookOrder:
    kind: str
    work_id: str
    most: int


@dataclass(frozen=True)
class QueueView:
    """The result of a queue check: jobs to start now, and in how many seconds there are more."""

    due: list[str] = field(default_factory=list)
    next_in_seconds: float | None = None
    over: bool = False


@dataclass(frozen=True)
class JobOrder:
    job_id: str


@dataclass(frozen=True)
class JobResult:
    """In how many seconds the job is due again; None: it has ended, or waits to be woken."""

    due_in_seconds: float | None = None


@dataclass(frozen=True)
class Steer:
    """The run was steered, or its due work had no worker. The queue has the consequences."""

    signal: str
    step_id: str | None = None
