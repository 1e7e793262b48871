"""The workflow and its tasks, as they are registered with Conductor.

An execution looks at the queue and does one window of jobs, or waits until the next is due; then it
starts its successor. So an execution stays as small as its window, however long the run is.
"""

from typing import Any

from outrider.engines.conductor.messages import (
    LOOK,
    LOOK_REFERENCE,
    PARKED_REFERENCE,
    PROCESS,
    VERSION,
    WAIT,
    WORK,
    WORKFLOW,
    whole_seconds,
)
from outrider.limits.engines import CONDUCTOR_LOOK_SECONDS, CONDUCTOR_TASK_RETRIES

OWNER = "outrider@localhost"
"""Some servers require an address; nothing is sent to it."""
ORDER = "${workflow.input}"


def task_definition(name: str, response_seconds: float) -> dict[str, Any]:
    """A worker that is silent for that long has lost the task, and another gets it. Nothing else
    ends a task: the job's row says how often it may be tried."""
    return {
        "name": name,
        "ownerEmail": OWNER,
        "retryCount": CONDUCTOR_TASK_RETRIES,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 0,
        "timeoutPolicy": "RETRY",
        "timeoutSeconds": 0,
        "responseTimeoutSeconds": whole_seconds(response_seconds),
    }


def task_definitions() -> list[dict[str, Any]]:
    """A job's task has its own copy with the run's lease; this one is for who looks it up."""
    return [task_definition(name, CONDUCTOR_LOOK_SECONDS) for name in (LOOK, PROCESS)]


def _successor(reference: str) -> dict[str, Any]:
    """It inherits the correlation id and the domains."""
    return _task(
        "START_WORKFLOW",
        reference,
        startWorkflow={"name": WORKFLOW, "version": VERSION, "input": ORDER},
    )


def _task(kind: str, reference: str, name: str | None = None, **given: Any) -> dict[str, Any]:
    return {
        "name": name or reference,
        "taskReferenceName": reference,
        "type": kind,
        "inputParameters": given,
    }


def workflow_definition() -> dict[str, Any]:
    look = f"${{{LOOK_REFERENCE}.output."
    window = _task(
        "FORK_JOIN_DYNAMIC", "window", tasks=f"{look}tasks}}", inputs=f"{look}inputs}}"
    ) | {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    joined = _task("JOIN", "joined") | {"joinMode": "SYNC"}
    parked = _task("WAIT", PARKED_REFERENCE, duration=f"{look}wait}}")
    choice = _task("SWITCH", "next", next=f"{look}next}}") | {
        "evaluatorType": "value-param",
        "expression": "next",
        "decisionCases": {
            WORK: [window, joined, _successor("after_window")],
            WAIT: [parked, _successor("after_wait")],
        },
        "defaultCase": [],
    }
    return {
        "name": WORKFLOW,
        "version": VERSION,
        "schemaVersion": 2,
        "description": "The jobs of an Outrider run, or of a lane, one window of them.",
        "ownerEmail": OWNER,
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        "restartable": False,
        "tasks": [_task("SIMPLE", LOOK_REFERENCE, LOOK, order=ORDER), choice],
    }
