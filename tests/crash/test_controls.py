"""Phases are paused, resumed, stopped and retried while their workers are killed or frozen.

A control is as durable as what it controls: nobody is reached twice, nobody is forgotten, and a
worker that wakes up after a pause or a stop makes no calls.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.errors import InvalidPhaseTransition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.phases import AUDIENCE_IMPORT, Action
from outrider.domain.states import Channel, ItemStatus, PhaseState, RunStatus
from outrider.kernel.transactions import paging, run_jobs
from outrider.kernel.transactions.run_jobs import JobLine
from outrider.limits.campaigns import UPLOAD_CHUNK_RECORDS
from outrider.ports.phases import PhaseJob
from outrider.testing import launches
from outrider.testing.launches import observe
from tests.crash.scene import ACTOR, MAIL_WINDOW_ITEMS, Provider, Scene
from tests.support.controls import begun, control, phase_state, until_ended, until_run, until_state
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql

BATCH = MAIL_WINDOW_ITEMS + 4
ITEMS = 6 * BATCH
SLOW_MS = 60
FIRST_SEED = int(os.environ.get("OUTRIDER_CRASH_SEED", "1"))
CONTROLS = 50
CHUNKS = 8
LONG_LEASE_SECONDS = 30.0


async def launched(scene: Scene, provider: Provider, count: int = ITEMS) -> CampaignId:
    await scene.launch(provider, count, batch_size=BATCH)
    run, _ = await observe(scene.outrider, scene.run_id)
    return run.campaign_id


async def jobs_of(scene: Scene, run_id: RunId) -> list[JobLine]:
    return await scene.outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10_000))


async def nobody_holds_a_job(scene: Scene) -> None:
    async def is_so() -> bool:
        return "locked" not in {job.status for job in await jobs_of(scene, scene.run_id)}

    await eventually(is_so, seconds=60)


def reached(scene: Scene) -> Counter[str]:
    """How often each address was delivered to, whichever run did it."""
    lines = scene.witness.log_path.read_bytes().splitlines()
    entries = [msgspec.json.decode(line) for line in lines]
    return Counter(entry["to"] for entry in entries if entry["delivered"])


# Pause


@pytest.mark.parametrize("provider", Provider)
async def test_a_worker_killed_while_its_phase_is_paused_loses_nothing_and_repeats_nothing(
    scene: Scene, provider: Provider
) -> None:
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    campaign_id = await launched(scene, provider)
    doomed = scene.start_worker(jobs_in_parallel=2)
    assert await scene.provider_was_called(BATCH)
    pausing = asyncio.create_task(control(scene.outrider, campaign_id, Action.PAUSE))
    await asyncio.sleep(0)
    doomed.kill()
    assert (await pausing).state is PhaseState.PAUSED

    second = scene.start_worker()
    await nobody_holds_a_job(scene)
    calls = scene.sandbox.requests
    await second.has_logged("jobs_rescued")
    assert scene.sandbox.requests == calls, "what is paused is not taken up"
    resumed = await control(scene.outrider, campaign_id, Action.RESUME)
    assert resumed.run_id == scene.run_id
    doubts = await scene.comes_to_rest()
    assert len(doubts) <= (0 if provider.dedupes else 2 * MAIL_WINDOW_ITEMS)
    await scene.ends_well()
    await until_state(scene.outrider, campaign_id, PhaseState.COMPLETED)
    await second.stop()
    assert set(reached(scene).values()) == {1}


# Stop


ARRIVING_SECONDS = 0.3


@pytest.mark.parametrize("provider", Provider)
async def test_a_worker_killed_right_after_a_stop_leaves_a_run_that_ends_and_can_be_retried(
    scene: Scene, provider: Provider
) -> None:
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    campaign_id = await launched(scene, provider)
    doomed = scene.start_worker(jobs_in_parallel=2)
    assert await scene.provider_was_called(BATCH)
    stopped = await control(scene.outrider, campaign_id, Action.STOP)
    doomed.kill()
    assert stopped.state is PhaseState.FAILED
    # What it had sent before it died is still on its way to the provider.
    await asyncio.sleep(ARRIVING_SECONDS)
    calls = scene.sandbox.requests

    second = scene.start_worker()
    look = await scene.watcher.until(lambda look: look.is_at_rest)
    assert scene.sandbox.requests == calls, "after a stop nobody is called"
    items = await scene.items()
    doubts = await scene.doubts()
    assert len(items) == ITEMS
    doubted = {doubt.id for doubt in doubts}
    for item in items:
        if item.id in doubted:
            assert (item.status, item.attempts) == (ItemStatus.QUEUED, 1)
        elif item.attempts == 0:
            assert (item.status, item.reason) == (ItemStatus.SKIPPED, "cancelled")
        else:
            assert item.status == ItemStatus.SENT
    assert look.accounting.skipped > 0
    assert await phase_state(scene.outrider, campaign_id) is PhaseState.FAILED

    # A stop waits for no verdict.
    look = await scene.watcher.until(lambda look: look.is_terminal)
    assert look.status is (RunStatus.PARTIAL if look.accounting.sent else RunStatus.FAILED)
    # The provider's log settles the doubts: it has them, or they are part of what is left.
    await scene.resolve_doubts()
    ended = await scene.watcher.until(lambda look: not look.accounting.in_doubt)
    assert ended.accounting.sent == len(reached(scene))
    assert scene.sandbox.requests == calls

    scene.sandbox.change_faults({"latencyMs": 0})
    retried = await control(scene.outrider, campaign_id, Action.RETRY)
    assert retried.run_id
    accounting = await until_ended(scene.outrider, retried.run_id)
    assert accounting.sent == accounting.intended == ITEMS - ended.accounting.sent
    assert await phase_state(scene.outrider, campaign_id) is PhaseState.COMPLETED
    await second.stop()
    assert len(reached(scene)) == ITEMS
    assert set(reached(scene).values()) == {1}
    scene.nothing_happened_twice()
    for run_id in (scene.run_id, retried.run_id):
        assert (await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds


SWEEP = ["claim:after:2", "load:after:1", "reserve:before:2", "open:after:1", "settle:before:1"]
SWEEP_CASES = [("sqlite", boundary) for boundary in [*SWEEP, "settle:after:1"]] + [
    ("postgres", boundary) for boundary in ("open:after:1", "settle:before:1")
]


@pytest.mark.parametrize(("database", "boundary"), SWEEP_CASES, indirect=["database"])
async def test_a_worker_killed_while_it_sweeps_cancelled_jobs_skips_no_item_twice(
    scene: Scene, boundary: str
) -> None:
    campaign_id = await launched(scene, Provider.MAIL, 3 * BATCH)
    await control(scene.outrider, campaign_id, Action.STOP)
    doomed = scene.start_worker(kill_at=boundary)
    await doomed.died_of_its_boundary()
    second = scene.start_worker()
    look = await scene.watcher.until(lambda look: look.is_terminal)
    await second.stop()
    assert (look.status, look.accounting.skipped) == (RunStatus.FAILED, 3 * BATCH)
    items = await scene.items()
    assert len({item.recipient_id for item in items}) == len(items) == 3 * BATCH
    assert {(item.status, item.reason, item.attempts) for item in items} == {
        ("skipped", "cancelled", 0)
    }
    assert scene.sandbox.requests == 0


# Zombies


@pytest.mark.parametrize("action", [Action.PAUSE, Action.STOP])
@pytest.mark.parametrize("taken_for_dead", [False, True])
async def test_a_worker_that_wakes_after_a_control_opens_no_attempt(
    scene: Scene, action: Action, taken_for_dead: bool
) -> None:
    campaign_id = await launched(scene, Provider.MAIL, 2 * BATCH)
    lease = {} if taken_for_dead else {"lease_seconds": LONG_LEASE_SECONDS}
    zombie = scene.start_worker(stall_at="reserve:before:1", **lease)
    await zombie.is_stalled()
    await control(scene.outrider, campaign_id, action)
    if taken_for_dead:
        second = scene.start_worker()
        await second.has_logged("jobs_rescued")
        await second.stop()
    zombie.thaw()
    if taken_for_dead:
        await zombie.has_logged("lease_lost")
    if action is Action.PAUSE:
        await nobody_holds_a_job(scene)
        assert not await scene.items()
        assert scene.sandbox.requests == 0
        await control(scene.outrider, campaign_id, Action.RESUME)
        assert not await scene.comes_to_rest()
        await scene.ends_well()
        assert len(scene.witness.lines()) == 2 * BATCH, "one call for each item"
    else:
        look = await scene.watcher.until(lambda look: look.is_terminal)
        assert look.accounting.skipped == 2 * BATCH
        assert scene.sandbox.requests == 0
    await zombie.stop()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_mail_worker_that_wakes_after_a_stop_still_says_how_its_calls_ended(
    scene: Scene,
) -> None:
    campaign_id = await launched(scene, Provider.MAIL, 2 * BATCH)
    zombie = scene.start_worker(stall_at="close:before:1", close_group_seconds=5.0)
    await zombie.is_stalled()
    await control(scene.outrider, campaign_id, Action.STOP)
    second = scene.start_worker()
    # The run does not wait for it.
    await scene.watcher.until(lambda look: look.is_terminal)
    assert len(await scene.doubts()) == MAIL_WINDOW_ITEMS
    zombie.thaw()
    look = await scene.watcher.until(
        lambda look: look.accounting.terminal == look.accounting.intended
    )
    sent = look.accounting.sent
    assert 0 < sent <= MAIL_WINDOW_ITEMS, "what was open and not begun is never called"
    assert look.accounting.skipped == 2 * BATCH - sent
    await zombie.stop()
    await second.stop()
    assert len(scene.witness.lines()) == sent


# Many controls


@pytest.mark.parametrize("seed", [FIRST_SEED])
async def test_two_workers_and_many_controls_in_a_row_reach_everyone_once(
    scene: Scene, seed: int
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    scene.sandbox.change_faults({"latencyMs": 15})
    campaign_id = await launched(scene, Provider.SMS, 40 * BATCH)
    workers = [scene.start_worker(jobs_in_parallel=2) for _ in range(2)]
    assert await scene.provider_was_called(1)
    given = 0
    while given < CONTROLS:
        action = dice.choice([Action.PAUSE, Action.RESUME])
        try:
            await control(scene.outrider, campaign_id, action)
        except InvalidPhaseTransition:
            assert await phase_state(scene.outrider, campaign_id) is PhaseState.COMPLETED
            break
        given += 1
        # Not a wait for anything: this is the random moment.
        await asyncio.sleep(dice.uniform(0, 0.01))
    print(f"{given} controls")
    if await phase_state(scene.outrider, campaign_id) is PhaseState.PAUSED:
        await control(scene.outrider, campaign_id, Action.RESUME)
    assert not await scene.comes_to_rest()
    await scene.ends_well()
    await until_state(scene.outrider, campaign_id, PhaseState.COMPLETED)
    for worker in workers:
        await worker.stop()
    assert set(reached(scene).values()) == {1}


# Phases with a handler


async def importing(scene: Scene) -> tuple[CampaignId, RunId]:
    """A campaign whose audience is uploaded in chunks, with its import in progress."""
    offer = launches.message(Channel.SMS, Provider.SMS.target, body="An offer for you")
    definition = CampaignDefinition("test", (AUDIENCE_IMPORT, LAUNCH), (offer,), 500)
    people = launches.people(CHUNKS * UPLOAD_CHUNK_RECORDS)
    campaign_id, _ = await scene.outrider.deployer.create(DEFAULT_SCOPE, definition, people, ACTOR)
    return campaign_id, await begun(scene.outrider, campaign_id, AUDIENCE_IMPORT)


async def everybody_is_in_once(scene: Scene, campaign_id: CampaignId) -> None:
    async with raw_sql(scene.database) as raw:
        ((members, ids, positions),) = await raw.run(
            "SELECT count(*), count(DISTINCT recipient_id), max(position) + 1 FROM audience_members"
            f" WHERE campaign_id = '{campaign_id}'"
        )
    assert members == ids == positions == CHUNKS * UPLOAD_CHUNK_RECORDS


def finished(jobs: Sequence[JobLine]) -> dict[str, JobLine]:
    return {job.id: job for job in jobs if job.status == "completed"}


async def test_an_import_whose_workers_are_killed_imports_everyone_once_and_repeats_no_job(
    scene: Scene,
) -> None:
    campaign_id, run_id = await importing(scene)
    done: dict[str, JobLine] = {}
    for kills in range(1, 4):
        worker = scene.start_worker(kill_at=f"claim:after:{1 + kills}")
        await worker.died_of_its_boundary()
        now_done = finished(await jobs_of(scene, run_id))
        assert {job_id: now_done[job_id] for job_id in done} == done
        done = now_done
    assert 0 < len(done) < CHUNKS
    last = scene.start_worker()
    accounting = await until_ended(scene.outrider, run_id)
    await last.stop()
    assert accounting.sent == CHUNKS * UPLOAD_CHUNK_RECORDS
    after = finished(await jobs_of(scene, run_id))
    assert {job_id: after[job_id] for job_id in done} == done
    await everybody_is_in_once(scene, campaign_id)
    assert await phase_state(scene.outrider, campaign_id, AUDIENCE_IMPORT) is PhaseState.COMPLETED


async def test_an_import_killed_between_its_members_and_its_settlement_adds_no_member_twice(
    scene: Scene,
) -> None:
    campaign_id, run_id = await importing(scene)
    # What such a kill leaves behind: the members of a chunk, and a job without a record of them.
    (job, *_) = await jobs_of(scene, run_id)
    async with raw_sql(scene.database) as raw:
        detail = await raw.value(f"SELECT detail FROM job_queue WHERE id = '{job.id}'")
    context = await scene.outrider.phase_contexts.context(DEFAULT_SCOPE, campaign_id, run_id)
    handler = scene.outrider.handlers[AUDIENCE_IMPORT]
    await handler.process(context, PhaseJob(job.id, job.items, msgspec.json.decode(detail)))
    worker = scene.start_worker()
    accounting = await until_ended(scene.outrider, run_id)
    await worker.stop()
    assert (accounting.sent, accounting.skipped) == (CHUNKS * UPLOAD_CHUNK_RECORDS, 0)
    await everybody_is_in_once(scene, campaign_id)


async def test_an_import_that_was_stopped_after_a_kill_is_retried_to_its_end(scene: Scene) -> None:
    campaign_id, run_id = await importing(scene)
    worker = scene.start_worker(kill_at="claim:after:3")
    await worker.died_of_its_boundary()
    await control(scene.outrider, campaign_id, Action.STOP, AUDIENCE_IMPORT)
    last = scene.start_worker()
    stopped = await until_ended(scene.outrider, run_id)
    assert stopped.skipped > 0
    retried = await control(scene.outrider, campaign_id, Action.RETRY, AUDIENCE_IMPORT)
    assert retried.run_id
    accounting = await until_run(
        scene.outrider, retried.run_id, lambda status, _: status is RunStatus.COMPLETED
    )
    await last.stop()
    assert accounting.sent == CHUNKS * UPLOAD_CHUNK_RECORDS
    await everybody_is_in_once(scene, campaign_id)
