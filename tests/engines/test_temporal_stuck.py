"""An execution that today's code cannot go on with, on a real Temporal server: it is restarted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.engines.temporal.messages import STEER, WORKFLOW, Steer
from outrider.kernel.transactions.alerts import LAST, AlertRecord, alerts_page
from outrider.limits.engines import TEMPORAL_TASK_FAILURES
from outrider.ports.engine import Stalled, Work, WorkKind
from outrider.testing.engine_suite import EngineBench, engine_bench
from tests.support.eventually import eventually, observed_for
from tests.support.temporal_server import TemporalServer, on_temporal

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
PATIENCE_SECONDS = 90.0
TIMER_STARTED = EventType.EVENT_TYPE_TIMER_STARTED


@pytest.fixture
async def bench(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[EngineBench]:
    async with engine_bench(on_temporal(temporal_server, database), tmp_path) as bench:
        yield bench


@workflow.defn(name=WORKFLOW)
class OlderWorkflow:
    """What an earlier release did: it started with a timer."""

    @workflow.signal(name=STEER)
    def steer(self, _steer: Steer) -> None:
        pass

    @workflow.run
    async def run(self, _order: dict[str, Any]) -> None:
        await asyncio.sleep(3_600)


async def client_of(bench: EngineBench) -> Client:
    engine = bench.outrider.engine
    assert isinstance(engine, TemporalEngine)
    return await engine.client()


async def begun_by_an_older_release(
    bench: EngineBench, run_id: RunId, argument: object
) -> WorkflowHandle[Any, Any]:
    client = await client_of(bench)
    work = Work(WorkKind.RUN, DEFAULT_SCOPE.tenant_id, run_id)
    queue = bench.outrider.settings.temporal_task_queue
    return await client.start_workflow(WORKFLOW, argument, id=workflow_id(work), task_queue=queue)


async def told(bench: EngineBench, *, only_open: bool) -> list[AlertRecord]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=only_open)
    found = await bench.outrider.store.read(page)
    return [alert for alert in found if alert.code == "WORKFLOW_STUCK"]


async def ends_well(bench: EngineBench, run_id: RunId, first: WorkflowHandle[Any, Any]) -> None:
    async with bench.at_work(), asyncio.timeout(PATIENCE_SECONDS):
        while (await bench.types(run_id))[-1] != "RunCompleted":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert bench.sandbox.requests == 5
    (alert,) = await told(bench, only_open=False)
    assert (alert.subject, alert.severity) == (run_id, "P2")
    assert "restarted" in alert.message
    ended = await first.describe()
    assert ended.status is not None
    assert ended.status.name == "TERMINATED"
    client = await client_of(bench)
    latest = await client.get_workflow_handle(first.id).describe()
    assert latest.run_id != ended.run_id
    await bench.outrider.watcher.look_once()
    assert await told(bench, only_open=True) == [], "its jobs have moved"


async def test_an_execution_with_an_older_payload_is_ended_and_restarted(
    bench: EngineBench,
) -> None:
    """R4: its workflow task failed again and again, and held its run for ever, in silence."""
    run_id = await bench.unreachable().launched(5)
    first = await begun_by_an_older_release(bench, run_id, "not an order")
    pinned = (await client_of(bench)).get_workflow_handle(first.id, run_id=first.result_run_id)
    await ends_well(bench, run_id, pinned)


async def test_a_workflow_that_cannot_be_reported_is_still_ended_and_restarted(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: it was told of when it had ended, so that nobody told of it if that went wrong."""
    run_id = await bench.unreachable().launched(5)
    first = await begun_by_an_older_release(bench, run_id, "not an order")
    pinned = (await client_of(bench)).get_workflow_handle(first.id, run_id=first.result_run_id)
    seen = []

    async def tell(stalled: Stalled, failed: int) -> None:
        found = await pinned.describe()
        seen.append((stalled.work.id, failed >= TEMPORAL_TASK_FAILURES, found.status))
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(bench.outrider.engine, "_report_stuck", tell)
    async with bench.at_work(), asyncio.timeout(PATIENCE_SECONDS):
        while (await bench.types(run_id))[-1] != "RunCompleted":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert seen == [(run_id, True, WorkflowExecutionStatus.RUNNING)]


async def test_an_execution_with_another_history_is_ended_and_restarted(
    bench: EngineBench,
) -> None:
    """R4: non-determinism, after a release that changed what the workflow does."""
    run_id = await bench.unreachable().launched(5)
    client = await client_of(bench)
    queue = bench.outrider.settings.temporal_task_queue
    first = await begun_by_an_older_release(bench, run_id, {})
    pinned = client.get_workflow_handle(first.id, run_id=first.result_run_id)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[OlderWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):

        async def is_so() -> bool:
            return bool(await has_begun(pinned))

        await eventually(is_so, seconds=PATIENCE_SECONDS)
    await ends_well(bench, run_id, pinned)


async def has_begun(handle: WorkflowHandle[Any, Any]) -> bool:
    history = await handle.fetch_history()
    return any(event.event_type == TIMER_STARTED for event in history.events)


async def test_an_execution_whose_tasks_are_not_polled_is_not_touched(bench: EngineBench) -> None:
    """A workflow task that waits has not failed, however long it waits."""
    run_id = await bench.launched(5)
    for _ in range(TEMPORAL_TASK_FAILURES + 2):
        await bench.outrider.engine_notifier.recover_once()
        await observed_for(0.1)
    assert await told(bench, only_open=False) == []
    async with bench.at_work():
        assert (await bench.ended(run_id)).sent == 5
