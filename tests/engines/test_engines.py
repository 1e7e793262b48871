"""The engines: all pass the public suite, and the same scene has the same history on all."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_TENANT
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.kernel.transactions.work import stalled
from outrider.ports.engine import Work, WorkKind
from outrider.settings import Settings
from outrider.testing.engine_suite import EngineBench, EngineConformance, engine_bench
from outrider.testing.engine_suite.bench import MOST
from outrider.testing.engine_suite.controls import ControlConformance
from outrider.testing.engine_suite.lanes import LaneConformance, judged, of_one_lane, submit
from outrider.testing.engine_suite.runs import RunConformance
from tests.support.conductor_server import on_conductor
from tests.support.temporal_server import TemporalServer, on_temporal


@pytest.fixture
async def local(database: str, tmp_path: Path) -> AsyncIterator[EngineBench]:
    async with engine_bench(Settings(database_url=database), tmp_path) as bench:
        yield bench


@pytest.fixture
async def temporal(
    temporal_server: TemporalServer, database: str, tmp_path: Path
) -> AsyncIterator[EngineBench]:
    async with engine_bench(on_temporal(temporal_server, database), tmp_path) as bench:
        yield bench


@pytest.fixture
async def conductor(
    conductor_url: str, database: str, tmp_path: Path
) -> AsyncIterator[EngineBench]:
    async with engine_bench(on_conductor(conductor_url, database), tmp_path) as bench:
        yield bench


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestLocal(EngineConformance):
    @pytest.fixture
    def bench(self, local: EngineBench) -> EngineBench:
        return local


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestTemporal(EngineConformance):
    @pytest.fixture
    def bench(self, temporal: EngineBench) -> EngineBench:
        return temporal

    async def test_a_run_is_always_one_workflow_and_a_lane_is_one_while_it_has_messages(
        self, bench: EngineBench
    ) -> None:
        engine = bench.outrider.engine
        assert isinstance(engine, TemporalEngine)
        client = await engine.client()

        async def ended(work: Work) -> str:
            """The execution's own id, once it has ended."""
            handle = client.get_workflow_handle(workflow_id(work))
            await handle.result()
            return (await handle.describe()).run_id

        run = Work(WorkKind.RUN, DEFAULT_TENANT, await bench.launched(5))
        first, second = of_one_lane(2)
        await submit(bench, first)
        now = bench.outrider.clock.now()
        waiting = await bench.outrider.store.read(stalled(now, MOST, now))
        (lane,) = [each.work for each in waiting if each.work.kind is WorkKind.LANE]
        async with bench.at_work():
            executions = {await ended(run), await ended(lane)}
            await engine.start(run)
            assert await ended(run) in executions
            await submit(bench, second)
            assert await judged(bench, first, second) == ["ACCEPTED", "ACCEPTED"]
            assert await ended(lane) not in executions


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestConductor(EngineConformance):
    @pytest.fixture
    def bench(self, conductor: EngineBench) -> EngineBench:
        return conductor


class Selection:
    """What asks the queue for work, for the other dialect."""

    test_one_execution = RunConformance.test_a_run_that_is_started_again_is_still_one_execution
    test_a_failing_handler = (
        RunConformance.test_a_handler_that_fails_uses_up_engine_attempts_and_no_logical_ones
    )
    test_a_resume = ControlConformance.test_a_resume_that_the_engine_was_not_notified_of_is_found
    test_a_lane = (
        LaneConformance.test_a_message_that_comes_long_after_its_lane_was_idle_is_delivered
    )


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestLocalOnPostgres(Selection):
    @pytest.fixture
    def bench(self, local: EngineBench) -> EngineBench:
        return local


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestTemporalOnPostgres(Selection):
    @pytest.fixture
    def bench(self, temporal: EngineBench) -> EngineBench:
        return temporal


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestConductorOnPostgres(Selection):
    @pytest.fixture
    def bench(self, conductor: EngineBench) -> EngineBench:
        return conductor


# The whole suite on the other store.


@pytest.mark.storm
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestStormLocalOnPostgres(EngineConformance):
    @pytest.fixture
    def bench(self, local: EngineBench) -> EngineBench:
        return local


@pytest.mark.storm
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestStormTemporalOnPostgres(EngineConformance):
    @pytest.fixture
    def bench(self, temporal: EngineBench) -> EngineBench:
        return temporal


@pytest.mark.storm
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
class TestStormConductorOnPostgres(EngineConformance):
    @pytest.fixture
    def bench(self, conductor: EngineBench) -> EngineBench:
        return conductor
