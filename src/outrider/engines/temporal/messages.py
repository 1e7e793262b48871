"""What crosses the line to Temporal, and the names it has there: ids and numbers, never a person.

Workflow code imports this, so there is nothing in it but data.
"""

from dataclasses import dataclass, field

WORKFLOW = "OutriderWork"
LOOK = "outrider.look"
PROCESS = "outrider.process"
STEER = "steer"
JOB_FAILED = "JobFailed"
"""The kind of an activity's failure that says, as its one detail, when the job is due again."""


@dataclass(frozen=True)
class WorkOrder:
    """A workflow's one argument, the same for each of its executions in turn."""

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
    """What a look into the queue saw: jobs to begin now, and in how many seconds there are more."""

    due: list[str] = field(default_factory=list)
    next_in_seconds: float | None = None
    over: bool = False


@dataclass(frozen=True)
class JobOrder:
    job_id: str


@dataclass(frozen=True)
class JobResult:
    """In how many seconds the job is due again; None: it has ended, or somebody has to wake it."""

    due_in_seconds: float | None = None


@dataclass(frozen=True)
class Steer:
    """Somebody steered the run, or found it standing still. The queue has the consequences."""

    signal: str
    step_id: str | None = None
