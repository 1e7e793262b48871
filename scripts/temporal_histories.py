"""Rewrites tests/histories: real runs on a real Temporal server, with today's workflow.

Run it as `python -m scripts.temporal_histories` after a change that histories in flight need not
survive; any other change has to replay the existing ones, using `workflow.patched`.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowHistory
from tests.support.temporal_server import TemporalServer, running_temporal

from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, RunId
from outrider.domain.phases import Action
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.engines.temporal.messages import WORKFLOW, WorkOrder
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import work
from outrider.ports.engine import Work, WorkKind
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.settings import Settings
from outrider.testing.engine_suite.bench import SMS, EngineBench, engine_bench

FOLDER = Path(__file__).parent.parent / "tests" / "histories"
SHORT_EVENTS = 25
"""An execution of this length is continued as a new one."""
SCRUBBED = {"identity": "worker", "stackTrace": ""}
"""What differs between machines, and decides nothing."""

Scene = Callable[[EngineBench], Awaitable[Work]]


def run_work(run_id: RunId) -> Work:
    return Work(WorkKind.RUN, DEFAULT_TENANT, run_id)


async def plain(bench: EngineBench) -> Work:
    run_id = await bench.launched(30)
    async with bench.at_work():
        await bench.ended(run_id)
    return run_work(run_id)


async def paused_and_resumed(bench: EngineBench) -> Work:
    campaign_id, run_id = await bench.launched_slowly(80)
    async with bench.at_work():
        await bench.paused_after(10, campaign_id, run_id)
        await bench.control(campaign_id, Action.RESUME)
        await bench.ended(run_id)
    return run_work(run_id)


async def parked(bench: EngineBench) -> Work:
    bench.sandbox.faults.throttle_rate = 1.0
    run_id = await bench.launched(30)
    async with bench.at_work():
        await bench.until_requests(1)
        bench.sandbox.faults.throttle_rate = 0.0
        await bench.ended(run_id)
    return run_work(run_id)


async def continued_as_new(bench: EngineBench) -> Work:
    run_id = await bench.unreachable().launched(120)
    engine = bench.outrider.engine
    assert isinstance(engine, TemporalEngine)
    client = await engine.client()
    await client.start_workflow(
        WORKFLOW,
        WorkOrder("run", run_id, 3, SHORT_EVENTS, bench.outrider.limits.lease_seconds),
        id=workflow_id(run_work(run_id)),
        task_queue=bench.outrider.settings.temporal_task_queue,
    )
    async with bench.at_work():
        await bench.ended(run_id)
    return run_work(run_id)


async def lane(bench: EngineBench) -> Work:
    payload = {"to": "+447700900123", "message": "Hello"}
    await bench.outrider.submissions.submit(DEFAULT_SCOPE, Submission("a", SMS, payload))
    now = bench.outrider.clock.now()
    (found,) = await bench.outrider.store.read(work.stalled(now, 10, now))
    async with bench.at_work():
        await bench.until_requests(1)
    return found.work


class FailsOnce:
    name = "fails_once"

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    async def plan(self, _desk: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(1)]

    async def process(self, _desk: PhaseContext, job: PhaseJob) -> PhaseResult:
        self._tries[job.id] += 1
        if self._tries[job.id] == 1:
            raise RuntimeError("once")
        return PhaseResult(1)


async def failed_and_retried(bench: EngineBench) -> Work:
    bench.outrider.handlers[FailsOnce.name] = FailsOnce()
    campaign_id = await bench.campaign(5, order=(FailsOnce.name, LAUNCH))
    run_id = await bench.started(campaign_id, FailsOnce.name)
    async with bench.at_work():
        await bench.ended(run_id)
    return run_work(run_id)


SCENES: tuple[Scene, ...] = (
    plain, paused_and_resumed, parked, continued_as_new, lane, failed_and_retried
)  # fmt: skip


async def histories(client: Client, found: Work) -> list[WorkflowHistory]:
    """Of every execution in turn, once the last of them has ended."""
    handle = client.get_workflow_handle(workflow_id(found))
    await handle.result()
    description = await handle.describe()
    run_id = description.raw_description.workflow_execution_info.first_run_id
    chain = []
    while run_id:
        handle = client.get_workflow_handle(workflow_id(found), run_id=run_id)
        chain.append(await handle.fetch_history())
        last = chain[-1].events[-1]
        run_id = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return chain


def scrubbed(document: Any) -> Any:
    match document:
        case {"kind": "TASK_QUEUE_KIND_STICKY"}:
            return {**document, "name": "sticky"}
        case dict():
            return {name: SCRUBBED.get(name, scrubbed(value)) for name, value in document.items()}
        case list():
            return [scrubbed(each) for each in document]
        case _:
            return document


async def record(server: TemporalServer, scene: Scene, folder: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{folder}/{scene.__name__}.db",
        engine="temporal",
        temporal_address=server.address,
        temporal_task_queue=f"histories-{uuid4()}",
    )
    async with engine_bench(settings, folder) as bench:
        found = await scene(bench)
        engine = bench.outrider.engine
        assert isinstance(engine, TemporalEngine)
        async with bench.at_work():
            recorded = await histories(await engine.client(), found)
    for number, history in enumerate(recorded, start=1):
        suffix = f"_{number}" if len(recorded) > 1 else ""
        text = json.dumps(scrubbed(history.to_json_dict()), indent=1)
        (FOLDER / f"{scene.__name__}{suffix}.json").write_text(text + "\n")


async def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    with running_temporal() as server, tempfile.TemporaryDirectory() as folder:
        await server.until_ready()
        for scene in SCENES:
            await record(server, scene, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
