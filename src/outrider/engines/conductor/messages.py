"""What is sent to Conductor and read from it: ids and numbers, never personal data."""

import math
from typing import Any, Final

import msgspec

from outrider.ports.engine import Work, WorkKind

VERSION: Final = 1
"""The version of the definitions. A change takes the next number and new names: executions and
workers of the previous version continue unchanged."""
WORKFLOW: Final = "OutriderWork"
LOOK: Final = f"outrider_look_v{VERSION}"
PROCESS: Final = f"outrider_process_v{VERSION}"
LOOK_REFERENCE: Final = "look"
PARKED_REFERENCE: Final = "parked"

WORK, WAIT, OVER = "work", "wait", "over"
"""How an execution continues after its look at the queue."""
OPEN: Final = frozenset({"SCHEDULED", "IN_PROGRESS"})
INVALID_ORDER: Final = "InvalidOrder"
"""Why a task is given back whose input this release cannot read."""


def correlation_id(work: Work) -> str:
    """Made of ids alone: the list of workflows reveals nothing about a person."""
    return f"outrider/{work.tenant_id}/{work.kind.value}/{work.id}"


def domain_of(domain: str, kind: WorkKind) -> str:
    """Lanes have their own, so that single messages wait behind no campaign."""
    return f"{domain}-lanes" if kind is WorkKind.LANE else domain


class WorkOrder(msgspec.Struct, frozen=True, rename="camel"):
    """A workflow's input, the same for each of its successive executions. `beside`: it takes what
    is due while the first one waits for a slow job, and then ends."""

    kind: WorkKind
    work_id: str
    window_jobs: int
    lease_seconds: float
    beside: bool = False


class JobOrder(msgspec.Struct, frozen=True, rename="camel"):
    job_id: str


class TaskRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A task as Conductor shows it; times in milliseconds of its own clock."""

    task_id: str
    task_type: str
    status: str
    reference_task_name: str
    workflow_instance_id: str
    input_data: dict[str, Any] = {}
    poll_count: int = 0
    update_time: int = 0
    end_time: int = 0
    response_timeout_seconds: int = 0
    domain: str | None = None
    reason_for_incompletion: str | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


class Execution(msgspec.Struct, frozen=True, rename="camel"):
    """One execution of the workflow; a run has several of them, one after the other."""

    workflow_id: str
    status: str
    create_time: int = 0
    update_time: int = 0
    workflow_version: int = VERSION
    tasks: list[TaskRecord] = []

    @property
    def open_tasks(self) -> list[TaskRecord]:
        return [task for task in self.tasks if task.is_open]

    @property
    def is_parked(self) -> bool:
        return any(task.reference_task_name == PARKED_REFERENCE for task in self.open_tasks)

    @property
    def look(self) -> TaskRecord | None:
        """If it is about to look, or looks."""
        return next((task for task in self.open_tasks if task.task_type == LOOK), None)

    @property
    def jobs(self) -> dict[str, TaskRecord]:
        """Those dispatched, by job: a retry has another task id, but the same reference."""
        return {
            task.reference_task_name: task for task in self.open_tasks if task.task_type == PROCESS
        }


def whole_seconds(seconds: float) -> int:
    """Conductor counts in whole seconds, of which it needs at least one."""
    return max(1, math.ceil(seconds))
