"""Stored Temporal histories, replayed: today's workflow does what yesterday's did, step by step.

`python -m scripts.temporal_histories` recorded them on a real server.
"""

import ast
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from outrider.engines.temporal import messages, workflows
from outrider.engines.temporal.messages import WORKFLOW, WorkOrder
from outrider.engines.temporal.workflows import WorkWorkflow

FOLDER = Path(__file__).parents[1] / "histories"
FILES = sorted(FOLDER.glob("*.json"))
KINDS = {
    "plain", "paused_and_resumed", "parked", "continued_as_new_1", "lane", "failed_and_retried"
}  # fmt: skip
NEEDED_BY_WORKFLOWS = {
    "asyncio", "datetime", "temporalio", "temporalio.common", "temporalio.exceptions",
    messages.__name__,
}  # fmt: skip
LOADED = """
import sys
import outrider.engines.temporal.workflows
print(*(name for name in sys.modules if name.partition(".")[0] == "outrider"))
"""


@workflow.defn(name=WORKFLOW)
class WithoutALook(WorkWorkflow):
    """As somebody may change it without a thought: it takes the queue for empty."""

    async def _look(self, order: WorkOrder) -> bool:  # noqa: ARG002
        self._is_notified = False
        return True

    @workflow.run
    async def run(self, order: WorkOrder) -> None:
        await super().run(order)


@workflow.defn(name=WORKFLOW)
class WithARest(WorkWorkflow):
    """A pause before it begins."""

    @workflow.run
    async def run(self, order: WorkOrder) -> None:
        await workflow.sleep(timedelta(seconds=1))
        await super().run(order)


@pytest.fixture(params=FILES, ids=[file.stem for file in FILES])
def history(request: pytest.FixtureRequest) -> WorkflowHistory:
    return WorkflowHistory.from_json("outrider/test", request.param.read_text())


def imports_of(module: Any) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_there_is_a_history_of_every_kind() -> None:
    assert {file.stem for file in FILES} >= KINDS
    events = {
        file.stem: {event["eventType"] for event in json.loads(file.read_text())["events"]}
        for file in FILES
    }
    assert "EVENT_TYPE_TIMER_FIRED" in events["parked"]
    assert "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED" in events["paused_and_resumed"]
    assert "EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in events["continued_as_new_1"]


async def test_a_stored_history_is_replayed_in_the_sandbox(history: WorkflowHistory) -> None:
    replayer = Replayer(workflows=[WorkWorkflow], workflow_runner=SandboxedWorkflowRunner())
    result = await replayer.replay_workflow(history)
    assert result.replay_failure is None


@pytest.mark.parametrize("changed", [WithoutALook, WithARest])
async def test_a_workflow_that_was_changed_in_passing_is_refused(
    history: WorkflowHistory, changed: type
) -> None:
    runner = UnsandboxedWorkflowRunner()
    replayer = Replayer(workflows=[changed], workflow_runner=runner)
    with pytest.raises(NondeterminismError):
        await replayer.replay_workflow(history)


def test_the_workflow_imports_nothing_that_could_make_it_differ() -> None:
    assert imports_of(workflows) <= NEEDED_BY_WORKFLOWS
    assert imports_of(messages) == {"dataclasses"}
    assert "unsafe" not in Path(workflows.__file__).read_text()


def test_the_workflow_loads_nothing_else_of_outrider() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert set(loaded.stdout.split()) == {
        "outrider", "outrider.engines", "outrider.engines.temporal", messages.__name__,
        workflows.__name__,
    }  # fmt: skip
