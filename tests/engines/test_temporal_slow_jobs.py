"""A job that is slow, on Temporal: nobody ends it by hand, and nothing else waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, JobId, RunId
from outrider.domain.states import Channel
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.gateways.sandbox import Outcome, Sandbox
from outrider.gateways.sandbox_files import ReceivedFile
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.jobs import JobState
from outrider.kernel.work.job_processor import JobProcessor
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.settings import TargetSettings
from outrider.testing.engine_suite import EngineBench, engine_bench
from outrider.testing.engine_suite.bench import MAIL, PATIENCE_SECONDS, SMS
from outrider.testing.engine_suite.runs import work_of
from outrider.testing.launches import ACTOR, message, observe, people
from tests.support.temporal_server import TemporalServer, on_temporal

pytestmark = [
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
    # The library's, where an activity ends at the moment at which it is cancelled.
    pytest.mark.filterwarnings("ignore:Cannot find activity to cancel"),
]

UNEVEN, QUICK_JOBS = "uneven", 6
LEASE_SECONDS, HEARTBEAT_SECONDS = 10.0, 0.1
"""A worker hears that an activity was cancelled when it sends a heartbeat for it."""
SHORT_LEASE_SECONDS = 5.0
A_WHILE_SECONDS = 1.0
SLOW_ITEMS, SLOW_PER_SECOND = 100, 1.0


class SlowSandbox(Sandbox):
    """Takes every message, and answers when it is let to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.most_at_once = 0
        self._at_once = 0

    async def wait(self) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await self.answers.wait()
        self._at_once -= 1


class LosingSandbox(Sandbox):
    """Takes the first mail, and hangs up without a word."""

    def decide(
        self,
        protocol: str,
        reference: str,
        to: str,
        files: Sequence[ReceivedFile] = (),
        *,
        dedupes: bool,
        request: bytes | None = None,
    ) -> Outcome:
        is_first = not dedupes and reference not in self.deliveries
        self.faults.drop_rate = 1.0 if is_first else 0.0
        return super().decide(protocol, reference, to, files, dedupes=dedupes, request=request)


class Uneven:
    """The job that starts first ends when `slow` is set, each of the others after `quick`."""

    name = UNEVEN

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.ended: set[str] = set()
        self.quick, self.slow = asyncio.Event(), asyncio.Event()

    async def plan(self, _context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(1)] * (1 + QUICK_JOBS)

    async def process(self, _context: PhaseContext, job: PhaseJob) -> PhaseResult:
        until = self.quick if self.begun else self.slow
        self.begun.add(job.id)
        await until.wait()
        self.ended.add(job.id)
        return PhaseResult(1)


@pytest.fixture
def sandbox() -> SlowSandbox:
    return SlowSandbox()


@pytest.fixture
async def bench(
    temporal_server: TemporalServer, database: str, tmp_path: Path, sandbox: SlowSandbox
) -> AsyncIterator[EngineBench]:
    async with engine_bench(on_temporal(temporal_server, database), tmp_path, sandbox) as opened:
        yield opened.with_limits(
            lease_seconds=LEASE_SECONDS, heartbeat_seconds=HEARTBEAT_SECONDS, jobs_in_parallel=1
        )


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a worker has learnt that one of its activities was cancelled."""
    heard = asyncio.Event()
    listeners = []
    process = JobProcessor.process

    async def listen() -> None:
        await activity.wait_for_cancelled()
        heard.set()

    async def listening(self: JobProcessor, job_id: JobId) -> JobState | None:
        listeners.append(asyncio.create_task(listen()))
        return await process(self, job_id)

    monkeypatch.setattr(JobProcessor, "process", listening)
    return heard


@asynccontextmanager
async def released(event: asyncio.Event, after_seconds: float = 0.0) -> AsyncIterator[None]:
    """What waits for it goes on in the end, whatever comes of the block."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    finally:
        asyncio.get_running_loop().call_later(after_seconds, event.set)


async def handle_of(bench: EngineBench, run_id: RunId) -> WorkflowHandle[Any, Any]:
    engine = bench.outrider.engine
    assert isinstance(engine, TemporalEngine)
    return (await engine.client()).get_workflow_handle(workflow_id(work_of(run_id)))


async def test_a_worker_that_stops_waits_for_a_job_that_temporal_has_cancelled(
    bench: EngineBench, sandbox: SlowSandbox, cancelled: asyncio.Event
) -> None:
    run_id = await bench.started(await bench.campaign(3, submission_target=MAIL))
    async with bench.at_work(), released(sandbox.answers, A_WHILE_SECONDS):
        await bench.until_requests(3)
        await (await handle_of(bench, run_id)).cancel()
        await cancelled.wait()
    _, accounting = await observe(bench.outrider, run_id)
    assert accounting.sent == 3
    assert [job.status for job in await bench.jobs(run_id)] == ["completed"]
    assert not [doubt async for doubt in bench.outrider.doubt_resolver.doubts(DEFAULT_SCOPE)]
    assert sandbox.requests == 3


async def test_a_job_that_temporal_has_cancelled_keeps_its_place_until_it_ends(
    bench: EngineBench, sandbox: SlowSandbox, cancelled: asyncio.Event
) -> None:
    first, second = await bench.campaign(1), await bench.campaign(1)
    first_id = await bench.started(first)
    async with bench.at_work():
        # The second run has all this time for its one job, and no place for it.
        async with released(sandbox.answers, A_WHILE_SECONDS):
            await bench.until_requests(1)
            second_id = await bench.started(second)
            await (await handle_of(bench, first_id)).terminate()
            await cancelled.wait()
        for run_id in (first_id, second_id):
            assert (await bench.ended(run_id)).sent == 1
    assert sandbox.most_at_once == bench.outrider.limits.jobs_in_parallel == 1


async def test_a_job_that_takes_longer_than_its_lease_is_not_given_to_another_worker(
    bench: EngineBench, sandbox: SlowSandbox
) -> None:
    short = bench.with_limits(lease_seconds=SHORT_LEASE_SECONDS)
    run_id = await short.started(await short.campaign(1, submission_target=MAIL))
    async with short.at_work(), released(sandbox.answers):
        await short.until_requests(1)
        handle, began = await handle_of(short, run_id), time.monotonic()

        async def lease_would_be_over() -> bool:
            (pending,) = (await handle.describe()).raw_description.pending_activities
            assert pending.attempt == 1
            assert [job.status for job in await short.jobs(run_id)] == ["locked"]
            return time.monotonic() - began > SHORT_LEASE_SECONDS + A_WHILE_SECONDS

        await short.until(lease_would_be_over)
        sandbox.answers.set()
        assert (await short.ended(run_id)).sent == 1
    assert [job.attempts for job in await short.jobs(run_id)] == [0]
    assert sandbox.requests == 1


async def test_a_workflow_ended_by_hand_is_restarted_while_a_slow_job_is_in_progress(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> None:
    settings = on_temporal(temporal_server, database, temporal_window_jobs=2)
    async with engine_bench(settings, tmp_path) as bench:
        bench.outrider.handlers[UNEVEN] = uneven = Uneven()
        campaign_id = await bench.campaign(5, order=(UNEVEN, LAUNCH))
        run_id = await bench.started(campaign_id, UNEVEN)

        async def window_is_full() -> bool:
            return len(uneven.begun) == 2

        async def quick_ones_ended() -> bool:
            return len(uneven.ended) == QUICK_JOBS

        async with bench.at_work(), released(uneven.slow):
            await bench.until(window_is_full)
            handle = await handle_of(bench, run_id)
            await handle.terminate()
            uneven.quick.set()
            await bench.until(quick_ones_ended)
            described = await handle.describe()
            assert described.status is WorkflowExecutionStatus.RUNNING
            uneven.slow.set()
            assert (await bench.ended(run_id)).sent == QUICK_JOBS + 1


async def test_a_verdict_takes_effect_while_a_slow_job_is_in_progress(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> None:
    slow = TargetSettings(rate_per_second=SLOW_PER_SECOND, burst=1)
    settings = on_temporal(temporal_server, database, targets={SMS: slow})
    async with engine_bench(settings, tmp_path, LosingSandbox()) as bench:
        messages = (
            message(Channel.SMS, SMS, message_id="sms"),
            message(Channel.EMAIL, MAIL, message_id="mail"),
        )
        audience = [
            *people(SLOW_ITEMS, message_id="sms", prefix="s"),
            *people(1, message_id="mail", prefix="m"),
        ]
        definition = CampaignDefinition("verdict", (LAUNCH,), messages, SLOW_ITEMS)
        create = bench.outrider.deployer.create
        campaign_id, _ = await create(DEFAULT_SCOPE, definition, audience, ACTOR)
        resolver = bench.outrider.doubt_resolver

        async def statuses() -> list[str]:
            return sorted(job.status for job in await bench.jobs(run_id))

        async def is_doubted() -> bool:
            found = [doubt async for doubt in resolver.doubts(DEFAULT_SCOPE)]
            return bool(found) and await statuses() == ["locked", "queued"]

        async def is_sent() -> bool:
            return await statuses() == ["completed", "locked"]

        async with bench.at_work():
            run_id = await bench.started(campaign_id)
            await bench.until(is_doubted)
            (doubt,) = [each async for each in resolver.doubts(DEFAULT_SCOPE)]
            verdict = DoubtVerdict.RESUBMIT
            await resolver.resolve(DEFAULT_SCOPE, doubt.id, verdict, "their log", ACTOR)
            await bench.until(is_sent)
        assert bench.sandbox.deliveries[doubt.reference] == 2, "as the verdict said"
