"""What the workflow does with different jobs: slow ones beside quick ones, and none at all. Only
its waits are shortened here.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.client import Client

from outrider.bootstrap import open_outrider
from outrider.domain.ids import DEFAULT_TENANT, JobId
from outrider.engines.temporal import engine, workflows
from outrider.engines.temporal.messages import STEER, Steer
from outrider.ports.engine import Stalled, Work, WorkKind
from outrider.settings import Settings
from tests.support.controls import until
from tests.support.temporal_server import TemporalServer
from tests.support.temporal_stand_in import (
    StandIn,
    begun_with,
    chain,
    given_out,
    until_described,
)

WINDOW, SHORT_EVENTS, MOST_EVENTS = 4, 30, 120
DRAIN_SECONDS, IDLE_SECONDS = 0.25, 0.5
FAR_EVENTS = 4_000
PATIENCE_SECONDS = 60.0
QUICK = [f"quick-{number}" for number in range(40)]


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    return await Client.connect(temporal_server.address)


async def test_a_slow_job_holds_up_the_others_only_briefly_when_a_history_is_long(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "DRAIN_SECONDS", DRAIN_SECONDS)
    stand_in = StandIn(["slow", *QUICK])
    released = stand_in.hold("slow")
    async with begun_with(
        client, stand_in, WINDOW, SHORT_EVENTS, sandboxed=False, patience_seconds=PATIENCE_SECONDS
    ) as handle:
        await until(lambda: len(stand_in.processed) == len(QUICK))
        assert "slow" not in stand_in.processed
        released.set()
        await handle.result()
        executions = await chain(client, handle)
    assert sorted(stand_in.processed) == sorted(["slow", *QUICK])
    # They stood still once, for so long: an alarm is the only other timer there is.
    assert executions[0].timers_seconds.count(DRAIN_SECONDS) == 1
    assert SHORT_EVENTS < len(executions[0].events) < workflows.DRAIN_AGAIN_EVENTS


async def test_a_slow_job_never_makes_a_history_longer_than_the_most(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "DRAIN_SECONDS", DRAIN_SECONDS)
    monkeypatch.setattr(workflows, "HISTORY_EVENTS_MOST", MOST_EVENTS)
    last = MOST_EVENTS - workflows.EVENTS_A_JOB * WINDOW
    stand_in = StandIn(["slow", *QUICK])
    released = stand_in.hold("slow")
    async with begun_with(
        client, stand_in, WINDOW, SHORT_EVENTS, sandboxed=False, patience_seconds=PATIENCE_SECONDS
    ) as handle:
        await until_described(
            handle, lambda found: found.history_length >= last and given_out(found) == {"slow"}
        )
        assert len(QUICK) > len(stand_in.processed) > 0
        released.set()
        await handle.result()
        executions = await chain(client, handle)
    assert sorted(stand_in.processed) == sorted(["slow", *QUICK])
    assert max(len(each.events) for each in executions) <= MOST_EVENTS


async def test_a_workflow_that_waits_to_continue_as_new_is_not_notified_of_other_jobs(
    client: Client, temporal_server: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workflows, "DRAIN_SECONDS", DRAIN_SECONDS)
    monkeypatch.setattr(workflows, "HISTORY_EVENTS_MOST", MOST_EVENTS)
    stand_in = StandIn(["slow", *QUICK])
    released = stand_in.hold("slow")
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'outrider.db'}", engine="temporal",
        temporal_address=temporal_server.address, temporal_window_jobs=WINDOW,
    )  # fmt: skip
    run = Work(WorkKind.RUN, DEFAULT_TENANT, "a run")
    last = workflows.begins_nothing_from(WINDOW)
    async with (
        open_outrider(settings) as outrider,
        begun_with(
            client, stand_in, WINDOW, SHORT_EVENTS, sandboxed=False,
            patience_seconds=PATIENCE_SECONDS,
        ) as handle,
    ):  # fmt: skip
        monkeypatch.setattr(engine, "workflow_id", lambda _: handle.id)
        at_rest = await until_described(
            handle, lambda found: found.history_length >= last and given_out(found) == {"slow"}
        )
        waiting = [Stalled(run, JobId(each), datetime.now(UTC)) for each in stand_in.waiting]
        assert waiting
        assert not await outrider.engine.recover(waiting)
        assert (await handle.describe()).history_length == at_rest.history_length
        released.set()
        await handle.result()
    assert sorted(stand_in.processed) == sorted(["slow", *QUICK])


async def test_a_job_that_is_resumed_before_its_pause_returned_is_started_again(
    client: Client,
) -> None:
    stand_in = StandIn(["slow", "paused"])
    slow, paused = stand_in.hold("slow"), stand_in.hold("paused")
    async with begun_with(
        client, stand_in, WINDOW, FAR_EVENTS, patience_seconds=PATIENCE_SECONDS
    ) as handle:
        await until(lambda: len(stand_in.begun) == 2)
        # It has given itself back, and its answer is on the way, when somebody resumes.
        stand_in.waiting["paused"] = 0.0
        looks = stand_in.looks
        await handle.signal(STEER, Steer("RESUME"))
        await until(lambda: stand_in.looks > looks)
        await until_described(handle, lambda found: given_out(found) == {"slow", "paused"})
        paused.set()
        await until(lambda: "paused" in stand_in.processed)
        assert stand_in.processed == ["paused"], "long before the slow one ends"
        slow.set()
        await handle.result()
    assert sorted(stand_in.begun) == ["paused", "paused", "slow"]


async def test_unannounced_work_is_looked_for_at_an_interval(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "IDLE_LOOK_SECONDS", IDLE_SECONDS)
    stand_in = StandIn([])
    stand_in.is_closed = False
    async with begun_with(
        client, stand_in, WINDOW, FAR_EVENTS, sandboxed=False, patience_seconds=PATIENCE_SECONDS
    ) as handle:
        await until(lambda: stand_in.looks > 0)
        stand_in.is_closed = True
        await handle.result()
        (execution,) = await chain(client, handle)
    assert execution.timers_seconds[0] == IDLE_SECONDS
    assert stand_in.looks > 1
    assert not stand_in.begun
