"""Conductor's own ways, on its real server: definitions, slow jobs, leases, stuck executions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from typer.testing import CliRunner
from yarl import URL

from outrider.bootstrap.engines import make_http
from outrider.cli.app import app
from outrider.domain.call_results import AttemptError
from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.engines.conductor.definitions import workflow_definition
from outrider.engines.conductor.engine import ConductorEngine
from outrider.engines.conductor.messages import LOOK, PROCESS, VERSION, WORKFLOW, correlation_id
from outrider.engines.conductor.server import ConductorServer
from outrider.kernel.transactions.alerts import LAST, AlertRecord, alerts_page
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.limits.engines import CONDUCTOR_TASK_FAILURES
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.secrets.store import load_secrets
from outrider.testing.engine_suite import EngineBench, engine_bench
from outrider.testing.engine_suite.runs import work_of
from outrider.testing.launches import target
from tests.support.conductor_server import on_conductor
from tests.support.cut_line import line_to
from tests.support.eventually import eventually
from tests.support.whole_runs import IMPATIENT, opened

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

UNEVEN, QUICK_JOBS = "uneven", 6
LEASE_SECONDS, HEARTBEAT_SECONDS = 1.0, 0.2


@pytest.fixture
async def bench(conductor_url: str, database: str, tmp_path: Path) -> AsyncIterator[EngineBench]:
    settings = on_conductor(conductor_url, database, conductor_window_jobs=3)
    async with engine_bench(settings, tmp_path) as bench:
        yield bench


@pytest.fixture
async def server(bench: EngineBench) -> AsyncIterator[ConductorServer]:
    made = ConductorServer(bench.outrider.settings, load_secrets(), "test", make_http)
    yield made
    await made.close()


class Uneven:
    """The job that starts first ends when `slow` is set."""

    name = UNEVEN

    def __init__(self) -> None:
        self.slow = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def plan(self, _context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(1)] * (1 + QUICK_JOBS)

    async def process(self, _context: PhaseContext, job: PhaseJob) -> PhaseResult:
        self.begun.append(job.id)
        if job.id == self.begun[0]:
            await self.slow.wait()
        self.ended.append(job.id)
        return PhaseResult(1)


def engine_of(bench: EngineBench) -> ConductorEngine:
    engine = bench.outrider.engine
    assert isinstance(engine, ConductorEngine)
    return engine


async def begun_with(bench: EngineBench, handler: Uneven) -> RunId:
    bench.outrider.handlers[UNEVEN] = handler
    return await bench.started(await bench.campaign(5, order=(UNEVEN, LAUNCH)), UNEVEN)


async def asked(url: str, method: str, path: str, document: object = None) -> bytes:
    """As an operator who uses Conductor's own interface."""
    http = make_http(timeout_seconds=10, answer_max_bytes=10_000_000)
    content = b"" if document is None else msgspec.json.encode(document)
    answer = await http.ask(method, URL(f"{url}/api/{path}"), content=content)
    await http.close()
    assert not isinstance(answer, AttemptError)
    assert answer.status == 200
    return answer.body


async def alerts(bench: EngineBench, *, only_open: bool) -> list[AlertRecord]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=only_open)
    found = await bench.outrider.store.read(page)
    return [alert for alert in found if alert.code == "WORKFLOW_STUCK"]


async def test_jobs_do_not_wait_for_a_slow_one_of_their_window(bench: EngineBench) -> None:
    """A join waits for its slowest, so the rest is taken by an execution beside it."""
    handler = Uneven()
    run_id = await begun_with(bench, handler)
    async with bench.at_work():
        await eventually(lambda: len(handler.ended) == QUICK_JOBS)
        assert handler.begun[0] not in handler.ended
        handler.slow.set()
        assert (await bench.ended(run_id)).sent == 1 + QUICK_JOBS
    assert sorted(handler.begun) == sorted(handler.ended), "each of them once"


async def test_a_job_that_outlasts_its_lease_keeps_it_and_is_done_once(
    bench: EngineBench,
) -> None:
    short = bench.with_limits(lease_seconds=LEASE_SECONDS, heartbeat_seconds=HEARTBEAT_SECONDS)
    handler = Uneven()
    run_id = await begun_with(short, handler)
    async with short.at_work():
        await eventually(lambda: len(handler.begun) > QUICK_JOBS)
        (task,) = [
            task
            for execution in await engine_of(short).executions(work_of(run_id))
            for task in execution.jobs.values()
            if task.reference_task_name == handler.begun[0]
        ]
        assert task.response_timeout_seconds == LEASE_SECONDS

        async def outlasted() -> bool:
            """By Conductor's own clock: it was told of the lease three leases after it began."""
            for execution in await engine_of(short).executions(work_of(run_id)):
                held = execution.jobs.get(handler.begun[0])
                if held is not None:
                    assert held.task_id == task.task_id, "it was given to another worker"
                    return held.update_time - task.update_time > 3_000 * LEASE_SECONDS
            return False

        await eventually(outlasted)
        handler.slow.set()
        assert (await short.ended(run_id)).sent == 1 + QUICK_JOBS
    assert len(handler.begun) == 1 + QUICK_JOBS


async def test_an_execution_is_no_longer_than_its_window_however_long_the_run_is(
    bench: EngineBench, conductor_url: str
) -> None:
    run_id = await bench.launched(120)
    async with bench.at_work():
        assert (await bench.ended(run_id)).sent == 120
        await eventually(lambda: _ended(bench, run_id))
    correlation = correlation_id(work_of(run_id))
    path = f"workflow/{WORKFLOW}/correlated?includeClosed=true&includeTasks=true"
    found = msgspec.json.decode(await asked(conductor_url, "POST", path, [correlation]))
    found = found[correlation]
    assert len(found) >= 4, "12 jobs in windows of 3"
    assert max(len(each["tasks"]) for each in found) <= 3 + 6
    text = str(found)
    assert "+4477" not in text, "no recipient is known to Conductor"


async def _ended(bench: EngineBench, run_id: RunId) -> bool:
    return not await engine_of(bench).executions(work_of(run_id))


@pytest.mark.parametrize("how", ["terminated", "paused"])
async def test_changes_made_to_an_execution_by_hand_are_undone(
    bench: EngineBench, server: ConductorServer, conductor_url: str, how: str
) -> None:
    bench.sandbox.faults.latency_ms = 30
    run_id = await bench.launched(200)
    async with bench.at_work():
        await bench.until_requests(20)
        (execution, *_) = await engine_of(bench).executions(work_of(run_id))
        if how == "terminated":
            await server.terminate(execution, "by hand")
        else:
            await asked(conductor_url, "PUT", f"workflow/{execution.workflow_id}/pause")
        assert (await bench.ended(run_id)).sent == 200
    assert bench.sandbox.requests == 200


async def test_an_execution_with_an_older_payload_is_ended_and_begun_anew(
    bench: EngineBench, server: ConductorServer, conductor_url: str
) -> None:
    """R4: a stuck execution holds its run for ever, in silence."""
    await server.register()
    run_id = await bench.unreachable().launched(5)
    domain = bench.outrider.settings.conductor_domain
    older: Any = {"name": "an order of another release"}
    begun = await server.start(
        correlation_id(work_of(run_id)), older, {LOOK: domain, PROCESS: domain}
    )
    async with bench.at_work():
        assert (await bench.ended(run_id)).sent == 5
    (alert,) = await alerts(bench, only_open=False)
    assert (alert.subject, alert.severity) == (run_id, "P2")
    assert "restarted" in alert.message
    assert msgspec.json.decode(alert.detail)["failedTasks"] >= CONDUCTOR_TASK_FAILURES
    answer = await asked(conductor_url, "GET", f"workflow/{begun}?includeTasks=false")
    assert msgspec.json.decode(answer)["status"] == "TERMINATED"
    await bench.outrider.watcher.look_once()
    assert await alerts(bench, only_open=True) == [], "its jobs have moved"


async def test_a_run_in_a_domain_that_is_no_longer_polled_is_restarted_in_the_configured_one(
    bench: EngineBench, server: ConductorServer
) -> None:
    await server.register()
    run_id = await bench.unreachable().launched(5)
    engine = engine_of(bench.with_settings())
    order = engine._order(work_of(run_id))
    nobodys = f"{bench.outrider.settings.conductor_domain}-before"
    await server.start(correlation_id(work_of(run_id)), order, {LOOK: nobodys, PROCESS: nobodys})
    async with bench.at_work():
        assert (await bench.ended(run_id)).sent == 5


async def test_starts_at_the_same_time_leave_one_execution(bench: EngineBench) -> None:
    run_id = await bench.unreachable().launched(5)
    engine = engine_of(bench)
    await asyncio.gather(*(engine.start(work_of(run_id)) for _ in range(5)))
    assert len(await engine.executions(work_of(run_id))) == 1


async def test_migrate_registers_the_definitions_of_this_release(
    bench: EngineBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = bench.outrider.settings
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_ENGINE", "conductor")
    monkeypatch.setenv("OUTRIDER_CONDUCTOR_URL", settings.conductor_url)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", settings.database_url)
    result = await asyncio.to_thread(CliRunner().invoke, app, ["migrate", "--json"])
    assert result.exit_code == 0, result.output
    registered = msgspec.json.decode(result.stdout)["registered"]
    assert registered == [f"{WORKFLOW} {VERSION}", LOOK, PROCESS]
    answer = await asked(
        settings.conductor_url, "GET", f"metadata/workflow/{WORKFLOW}?version={VERSION}"
    )
    there = msgspec.json.decode(answer)
    ours = workflow_definition()
    assert [task["name"] for task in there["tasks"]] == [task["name"] for task in ours["tasks"]]
    assert there["timeoutSeconds"] == 0


async def test_a_server_that_cannot_be_reached_is_away_until_it_can(
    conductor_url: str, database: str, tmp_path: Path
) -> None:
    limits = replace(IMPATIENT, engine_tell_seconds=2.0, engine_deaf_seconds=0.1)
    noop = target("sms.all", "noop", "noop:")
    async with line_to(conductor_url) as line:
        through = f"http://127.0.0.1:{urlsplit(line.url).port}"
        async with opened(
            database, tmp_path, noop, limits=limits, engine="conductor", conductor_url=through
        ) as outrider:
            await outrider.register_with_engine()
            notifier = outrider.engine_notifier
            await eventually(lambda: _answers(notifier))
            line.cut()
            assert await notifier.away_since() is not None
            line.mend()
            await eventually(lambda: _answers(notifier))


async def _answers(notifier: EngineNotifier) -> bool:
    return await notifier.away_since() is None
