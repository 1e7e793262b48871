"""Admission and the run queue: what a full workspace does to a start, and who starts it later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.admission import OverloadPolicy
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.errors import Overloaded
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.phases import Action
from outrider.domain.projection import SnapshotStatus
from outrider.domain.signals import Signal
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.control.run_reconciler import Dequeued, RunReconciler
from outrider.kernel.transactions import admission, paging, run_jobs, run_records
from outrider.kernel.transactions.alerts import alerts_page
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.run_starts import DequeueStatus
from outrider.settings import AdmissionSettings, AdmissionTable, Settings
from outrider.testing.clock import FakeClock
from outrider.testing.launches import ACTOR, message, observe, people, registry, target
from tests.support.controls import begun, control, created, until_ended
from tests.support.raw_sql import Refused, raw_sql
from tests.support.run_logs import check_against_log, events_of, projected, signal, types_of
from tests.support.whole_runs import IMPATIENT, work_until_terminal, working

LEASE_SECONDS = IMPATIENT.run_lease_seconds


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@asynccontextmanager
async def limited(
    database: str, folder: Path, sandbox: Sandbox, table: AdmissionTable
) -> AsyncIterator[Outrider]:
    path = folder / "registry.json"
    path.write_bytes(registry(target("sms.all", "sms", sandbox.http_url)))
    settings = Settings(
        database_url=database,
        registry=path,
        artifacts=folder / "artifacts",
        spool=folder / "spool",
        admission=table,
    )
    async with open_outrider(settings, limits=IMPATIENT) as outrider:
        await outrider.store.migrate()
        yield outrider


def reconciler(outrider: Outrider, name: str, later_seconds: float = 0.0) -> RunReconciler:
    """By a clock that stands still, so many seconds from now."""
    return RunReconciler(
        replace(
            outrider.foundation,
            clock=FakeClock(outrider.clock.now() + timedelta(seconds=later_seconds)),
        ),
        outrider.admission_gate,
        outrider.hub,
        outrider.engine_notifier,
        WorkerId(name),
    )


async def test_reject_answers_at_once_and_leaves_nothing(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    table = AdmissionTable(policy=OverloadPolicy.REJECT, concurrent_runs=1, retry_after_seconds=7)
    async with limited(database, tmp_path, sandbox, table) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        second = await created(outrider, 5)
        with pytest.raises(Overloaded) as refused:
            await control(outrider, second, Action.START)
        assert refused.value.retry_after_seconds == 7
        assert await outrider.store.read(run_records.runs_of(second)) == []
        await work_until_terminal(outrider, first)
        await work_until_terminal(outrider, await begun(outrider, second))


async def test_queue_keeps_the_run_pending_until_there_is_room(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    table = AdmissionTable(concurrent_runs=1)
    async with limited(database, tmp_path, sandbox, table) as outrider:
        campaigns = [await created(outrider, 5) for _ in range(3)]
        runs = [await begun(outrider, campaign_id) for campaign_id in campaigns]
        assert (await projected(outrider, runs[0])).status is SnapshotStatus.APPROVED
        for waiting in runs[1:]:
            assert (await projected(outrider, waiting)).status is SnapshotStatus.PENDING
        assert await outrider.run_reconciler.dequeue_and_start() == []
        async with working(outrider):
            for run_id in runs:
                await until_ended(outrider, run_id)
        ends = []
        for run_id in runs:
            run, _ = await observe(outrider, run_id)
            assert run.started_at is not None
            assert run.finished_at is not None
            ends.append((run.started_at, run.finished_at))
        # One at a time, in the order in which they were asked for.
        assert ends == sorted(ends)
        for (_, ended), (started, _) in pairwise(ends):
            assert started >= ended
        for campaign_id in campaigns:
            await check_against_log(outrider, campaign_id)
    assert sandbox.requests == 15


async def test_delay_accepts_the_run_and_starts_it_later(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    table = AdmissionTable(policy=OverloadPolicy.DELAY, waiting_items=5, delay_seconds=600)
    async with limited(database, tmp_path, sandbox, table) as outrider:
        await begun(outrider, await created(outrider, 5))
        run_id = await begun(outrider, await created(outrider, 5))
        assert (await projected(outrider, run_id)).status is SnapshotStatus.APPROVED
        (job,) = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
        assert job.run_at is not None
        assert job.run_at - outrider.clock.now() > timedelta(seconds=590)


async def test_a_workspace_has_its_own_limits(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    own = AdmissionSettings(policy=OverloadPolicy.REJECT, concurrent_runs=1)
    table = AdmissionTable(concurrent_runs=100, workspaces={"default/default": own})
    async with limited(database, tmp_path, sandbox, table) as outrider:
        await begun(outrider, await created(outrider, 5))
        with pytest.raises(Overloaded):
            await begun(outrider, await created(outrider, 5))
    elsewhere = AdmissionTable(workspaces={"other/live": own})
    async with limited(database, tmp_path, sandbox, elsewhere) as outrider:
        await begun(outrider, await created(outrider, 5))


@pytest.mark.parametrize("count", [10])
async def test_ten_reconcilers_at_once_start_a_run_once(
    database: str, tmp_path: Path, sandbox: Sandbox, count: int
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        waiting = [await begun(outrider, await created(outrider, 5)) for _ in range(3)]
        await work_until_started_elsewhere(outrider, first)
        answers = await asyncio.gather(
            *(reconciler(outrider, f"r{number}").dequeue_and_start() for number in range(count))
        )
        told = [each for answer in answers for each in answer]
        started = [each for each in told if each.status is DequeueStatus.STARTED]
        assert started == [Dequeued(waiting[0], DequeueStatus.STARTED)]
        approvals = [(await types_of(outrider, run_id)) for run_id in waiting]
        assert approvals == [["RunApproved"], [], []]


async def work_until_started_elsewhere(outrider: Outrider, run_id: RunId) -> None:
    """Finish this run with a worker that dequeues nothing itself."""
    outrider.background_loops._loops = {}
    await work_until_terminal(outrider, run_id)


async def test_a_reconciler_that_dies_with_its_lease_is_followed_by_another(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        run_id = await begun(outrider, await created(outrider, 5))
        await work_until_started_elsewhere(outrider, first)
        now = outrider.clock.now()
        dead = WorkerId("dead")
        lease = now + timedelta(seconds=LEASE_SECONDS)
        (held,) = await outrider.store.write(
            admission.lease_requests(DEFAULT_SCOPE, dead, lease, 10, now)
        )
        assert held.run_id == run_id
        assert await reconciler(outrider, "other").dequeue_and_start() == []
        (told,) = await reconciler(outrider, "other", LEASE_SECONDS).dequeue_and_start()
        assert told == Dequeued(run_id, DequeueStatus.STARTED)
        # The dead one wakes up, and has nothing to start any more.
        assert not await outrider.store.write(admission.hold_request(held, dead))
        assert await types_of(outrider, run_id) == ["RunApproved"]


async def test_a_stopped_run_is_not_started_from_the_queue(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        campaign_id = await created(outrider, 5)
        run_id = await begun(outrider, campaign_id)
        await control(outrider, campaign_id, Action.STOP)
        async with working(outrider):
            await until_ended(outrider, first)
            await until_ended(outrider, run_id)
        assert await reconciler(outrider, "r").dequeue_and_start() == []
        types = await types_of(outrider, run_id)
        assert types == ["SignalAccepted", "StepSkipped", "RunCancelled"]
        await check_against_log(outrider, campaign_id)


async def test_an_approved_run_waits_for_room_and_then_goes(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        offer = message(Channel.SMS, "sms.all")
        definition = CampaignDefinition("test", (LAUNCH,), (offer,), 10, require_approval=True)
        campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(5), ACTOR)
        run_id = await begun(outrider, campaign_id)
        assert (await signal(outrider, run_id, Signal.APPROVE)).changed
        assert not (await signal(outrider, run_id, Signal.APPROVE)).changed
        assert (await projected(outrider, run_id)).status is SnapshotStatus.PENDING
        async with working(outrider):
            await until_ended(outrider, first)
            await until_ended(outrider, run_id)
        told = await events_of(outrider, run_id)
        types = [event.type for event in told]
        assert types[:4] == ["SignalAccepted", "SignalAccepted", "RunApproved", "RunStarted"]
        assert told[2].payload["approvedBy"] == "key:ada"


async def test_a_full_workspace_does_not_delay_runs_of_other_workspaces(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        outrider.limits = replace(IMPATIENT, reconcile_runs_page=2)
        await begun(outrider, await created(outrider, 5))
        waiting = [await begun(outrider, await created(outrider, 5)) for _ in range(5)]
        async with raw_sql(database) as raw:
            other = "00000000-0000-7000-8000-0000000000aa"
            await raw.run(
                "INSERT INTO workspaces SELECT"
                f" '{other}', tenant_id, 'other', 'live', created_at FROM workspaces"
            )
            for table in ("run_requests", "campaign_runs"):
                key = "run_id" if table == "run_requests" else "id"
                await raw.run(
                    f"UPDATE {table} SET workspace_id = '{other}' WHERE {key} = '{waiting[-1]}'"
                )
        told = await reconciler(outrider, "r").dequeue_and_start()
        assert told == [Dequeued(waiting[-1], DequeueStatus.STARTED)]


async def test_a_later_run_waits_behind_those_already_waiting(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        waiting = await begun(outrider, await created(outrider, 5))
        await work_until_started_elsewhere(outrider, first)
        newcomer = await begun(outrider, await created(outrider, 5))
        assert (await projected(outrider, newcomer)).status is SnapshotStatus.PENDING
        (told,) = await reconciler(outrider, "r").dequeue_and_start()
        assert told == Dequeued(waiting, DequeueStatus.STARTED)


async def test_two_starts_at_once_do_not_share_the_last_room(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        campaigns = [await created(outrider, 5) for _ in range(6)]
        runs = await asyncio.gather(*(begun(outrider, each) for each in campaigns))
        statuses = [(await projected(outrider, run_id)).status for run_id in runs]
        assert statuses.count(SnapshotStatus.APPROVED) == 1
        assert statuses.count(SnapshotStatus.PENDING) == 5


async def test_a_run_that_cannot_be_started_is_reported_and_tried_again(
    database: str, tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable(concurrent_runs=1)) as outrider:
        first = await begun(outrider, await created(outrider, 5))
        run_id = await begun(outrider, await created(outrider, 5))
        await work_until_started_elsewhere(outrider, first)
        with monkeypatch.context() as broken:

            def fail(*_: object) -> None:
                raise RuntimeError("a bug")

            broken.setattr(admission, "release", fail)
            told = await reconciler(outrider, "r").dequeue_and_start()
        assert told == [Dequeued(run_id, DequeueStatus.FAILED)]
        page = alerts_page(DEFAULT_SCOPE, paging.LAST, 10, only_open=True)
        (alert,) = await outrider.store.read(page)
        assert (alert.code, alert.subject) == ("RUN_NOT_STARTED", run_id)
        told = await reconciler(outrider, "r", LEASE_SECONDS).dequeue_and_start()
        assert told == [Dequeued(run_id, DequeueStatus.STARTED)]
        page = alerts_page(DEFAULT_SCOPE, paging.LAST, 10, only_open=True)
        assert await outrider.store.read(page) == []


async def test_the_same_run_request_is_one_run(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with limited(database, tmp_path, sandbox, AdmissionTable()) as outrider:
        campaign_id = await created(outrider, 5)
        start = Control(Action.START, ACTOR, request_id="spring-1")
        answers = await asyncio.gather(
            *(
                outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, LAUNCH, start)
                for _ in range(5)
            )
        )
        assert len({answer.run_id for answer in answers}) == 1
        assert [answer.changed for answer in answers].count(True) == 1
        run_id = answers[0].run_id
        assert run_id is not None
        await work_until_terminal(outrider, run_id)
        rerun = Control(Action.RERUN, ACTOR, confirm=True, request_id="spring-1")
        again = await outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, LAUNCH, rerun)
        assert (again.run_id, again.changed) == (run_id, False)
        runs = await outrider.store.read(run_records.runs_of(campaign_id))
        assert [run.id for run in runs] == [run_id]
        async with raw_sql(database) as raw:
            with pytest.raises(Refused):
                await raw.run(
                    "INSERT INTO run_requests (run_id, tenant_id, workspace_id, project,"
                    " environment, plan_id, plan_version, run_request_id, idempotency_key, status,"
                    f" created_at, updated_at) SELECT '{outrider.ids.new()}', tenant_id,"
                    " workspace_id, project, environment, plan_id, plan_version, run_request_id,"
                    f" {raw.blob(bytes(32))}, status, created_at, updated_at FROM run_requests"
                )
