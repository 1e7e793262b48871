"""A campaign of a million recipients on a real Temporal server: how long its histories become.

The campaign is planned by the deployer and nothing of it is sent: the workflow and the server are
the real ones, and activities that only count stand in for the queue and the gateways.
"""

import asyncio
import random
from collections import Counter
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.converter import DataConverter

from outrider.engines.temporal.messages import STEER, QueueView, Steer
from outrider.engines.temporal.workflows import EVENTS_A_JOB, HISTORY_EVENTS_MOST
from outrider.kernel.transactions import paging, run_jobs
from outrider.limits.campaigns import BATCH_SIZE_DEFAULT
from outrider.limits.engines import (
    TEMPORAL_HISTORY_EVENTS,
    TEMPORAL_WINDOW_JOBS,
    TEMPORAL_WINDOW_JOBS_MAX,
)
from outrider.settings import Settings
from outrider.testing.launches import target
from tests.support.controls import begun, created, until
from tests.support.raw_sql import raw_sql
from tests.support.temporal_server import TemporalServer
from tests.support.temporal_stand_in import (
    SCHEDULED,
    StandIn,
    begun_with,
    chain,
    given_out,
    until_described,
)
from tests.support.whole_runs import opened

RECIPIENTS = 1_000_000
WARNED_EVENTS, WARNED_BYTES = 10_240, 10 * 1024 * 1024
"""Where Temporal begins to warn."""
WANTED_EVENTS, WANTED_BYTES = 5_000, 4 * 1024 * 1024
PAYLOAD_BYTES = 2 * 1024 * 1024
PENDING_ACTIVITIES = 2_000
PARKED_SHARE = 20
"""One job in so many is parked once before it ends."""
SIGNALS, SHORT_EVENTS = 12, 30
EVENTS_BESIDE = 50
"""Its beginning and its end, looks, and what somebody signals meanwhile."""


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    return await Client.connect(temporal_server.address)


async def planned(tmp_path: Path, database: str) -> list[str]:
    """The jobs of a launch to a million people, as the deployer plans them."""
    async with opened(database, tmp_path, target("sms.all", "noop", "noop:")) as outrider:
        campaign_id = await created(outrider, 1, batch_size=BATCH_SIZE_DEFAULT)
        async with raw_sql(database) as raw:
            await raw.run(
                "INSERT INTO audience_members (campaign_id, position, recipient_id, phone,"
                " attributes) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                f" WHERE i < {RECIPIENTS} - 1) SELECT '{campaign_id}', i, 'r' || i,"
                " '+44' || (7000000000 + i), '{}' FROM n"
            )
        run_id = await begun(outrider, campaign_id)
        page = run_jobs.jobs_page(run_id, paging.FIRST, RECIPIENTS)
        jobs = await outrider.store.read(page)
        assert sum(job.items for job in jobs) == RECIPIENTS
        return [job.id for job in jobs]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_million_recipients_stay_far_below_the_limits_of_a_history(
    client: Client, database: str, tmp_path: Path
) -> None:
    job_ids = await planned(tmp_path, database)
    assert len(job_ids) == RECIPIENTS // BATCH_SIZE_DEFAULT
    parked = job_ids[::PARKED_SHARE]
    stand_in = StandIn(job_ids, parked)
    window, events = TEMPORAL_WINDOW_JOBS, TEMPORAL_HISTORY_EVENTS
    async with begun_with(client, stand_in, window, events) as handle:
        await handle.result()
        executions = await chain(client, handle)
    assert sorted(stand_in.processed) == sorted(job_ids)
    assert len(executions) > 1
    activities = Counter(event.event_type for each in executions for event in each.events)
    assert activities[SCHEDULED] == len(job_ids) + len(parked)
    for execution in executions:
        assert len(execution.events) < WANTED_EVENTS < WARNED_EVENTS
        assert execution.size_bytes < WANTED_BYTES < WARNED_BYTES
        assert execution.most_pending <= TEMPORAL_WINDOW_JOBS < PENDING_ACTIVITIES
        assert max(event.ByteSize() for event in execution.events) < PAYLOAD_BYTES / 100
        began = Counter(event.event_type for event in execution.events)[SCHEDULED]
        assert len(execution.events) < EVENTS_A_JOB * began + EVENTS_BESIDE
    # Those that were under way when an execution had become long enough are all that it adds.
    longest = max(len(execution.events) for execution in executions)
    assert longest <= worst_case_events(TEMPORAL_WINDOW_JOBS) < WARNED_EVENTS


def worst_case_events(window_jobs: int) -> int:
    """One event short of being long enough, an execution may begin a whole window once more."""
    return TEMPORAL_HISTORY_EVENTS + window_jobs * EVENTS_A_JOB + EVENTS_BESIDE


async def test_the_largest_window_that_can_be_set_stays_below_the_limits_too() -> None:
    window = TEMPORAL_WINDOW_JOBS_MAX
    assert worst_case_events(window) < WARNED_EVENTS
    # With a slow job under way all along: from there on nothing is begun until it has ended.
    last = HISTORY_EVENTS_MOST - EVENTS_A_JOB * window
    assert last > TEMPORAL_HISTORY_EVENTS
    assert last + EVENTS_A_JOB * window + EVENTS_BESIDE < WARNED_EVENTS
    assert window < PENDING_ACTIVITIES
    with pytest.raises(ValidationError):
        Settings(temporal_window_jobs=window + 1)
    # A look may see as many as are under way, and a window more.
    sight = QueueView([str(uuid4()) for _ in range(2 * window)], 0.123456, over=False)
    (payload,) = await DataConverter().encode([sight])
    assert payload.ByteSize() < PAYLOAD_BYTES / 20


async def test_an_execution_is_not_continued_before_its_started_jobs_have_ended(
    client: Client,
) -> None:
    stand_in = StandIn(["slow"], parked=["next"])
    stand_in.is_closed = False
    released = stand_in.hold("slow")
    async with begun_with(client, stand_in, 10, SHORT_EVENTS) as handle:
        await until(lambda: not stand_in.waiting)
        while (await handle.describe()).history_length <= SHORT_EVENTS:
            await handle.signal(STEER, Steer("RESUME"))
        # There is room for another, and yet it is left to the next execution.
        stand_in.waiting["next"] = 0.0
        await handle.signal(STEER, Steer("RESUME"))
        at_rest = await until_described(handle, lambda found: given_out(found) == {"slow"})
        assert at_rest.run_id == handle.first_execution_run_id
        assert "next" in stand_in.waiting
        released.set()
        stand_in.is_closed = True
        await handle.result()
        executions = await chain(client, handle)
    assert stand_in.processed == ["slow", "next"]
    assert [execution.most_pending for execution in executions] == [1, 1]


def has_ended(stand_in: StandIn, job_id: str) -> bool:
    return job_id in stand_in.processed


async def test_a_signal_that_comes_while_an_execution_is_continued_is_not_lost(
    client: Client,
) -> None:
    """Each job is there only when its signal is sent, and nothing else makes the workflow look."""
    stand_in = StandIn([])
    stand_in.is_closed = False
    dice = random.Random(7)
    expected = [f"job-{number}" for number in range(SIGNALS)]
    async with begun_with(client, stand_in, 10, SHORT_EVENTS) as handle:
        for job_id in expected:
            stand_in.waiting[job_id] = 0.0
            await handle.signal(STEER, Steer("RESUME"))
            await until(partial(has_ended, stand_in, job_id))
            # Its end is being told to the server at this moment, and what follows from that.
            await asyncio.sleep(dice.choice((0.0, 0.005, 0.02)))
        stand_in.is_closed = True
        await handle.signal(STEER, Steer("RESUME"))
        await handle.result()
        executions = await chain(client, handle)
    assert stand_in.processed == expected
    assert len(executions) > 2
    assert all(len(execution.events) < 2 * SHORT_EVENTS for execution in executions)
    signals = Counter(event.event_type for each in executions for event in each.events)
    assert signals[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED] == SIGNALS + 1
