"""Two workers share a run: one is killed, or is frozen until it counts as dead. A worker that comes
back may record how its own calls ended, and nothing else.
"""

import asyncio

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions import audit_trail, paging
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene

BATCH = MAIL_WINDOW_ITEMS + 4
WHOLE_WINDOW_SECONDS = 5.0
PAIR_LEASE_SECONDS = 4.0
SLOW_MS = 1_500
"""Long enough for a thawed worker to report while the call is in progress."""
ON_ITS_WAY_SECONDS = 0.5


@pytest.mark.parametrize("provider", Provider)
async def test_when_one_of_two_workers_is_killed_the_other_finishes_for_both(
    scene: Scene, provider: Provider
) -> None:
    scene.sandbox.change_faults({"latencyMs": 300})
    await scene.launch(provider, 20 * BATCH, batch_size=BATCH)
    # Who started before it died has to wait for its lease.
    doomed = scene.start_worker(kill_at="call:after:70", lease_seconds=PAIR_LEASE_SECONDS)
    assert await scene.provider_was_called(1)
    survivor = scene.start_worker(lease_seconds=PAIR_LEASE_SECONDS)
    await doomed.died_of_its_boundary()
    scene.sandbox.change_faults({"latencyMs": 60})

    doubts = await scene.comes_to_rest()
    assert len(doubts) <= (0 if provider.dedupes else MAIL_WINDOW_ITEMS)
    await scene.ends_well()
    await survivor.stop()
    assert len(await _actors(scene, "job.completed")) == 2


@pytest.mark.parametrize("stall_at", ["open:after:1", "close:before:1"])
async def test_a_mail_worker_back_from_the_dead_closes_its_own_attempts_and_nothing_else(
    scene: Scene, stall_at: str
) -> None:
    await scene.launch(Provider.MAIL, 3 * BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at=stall_at, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await zombie.is_stalled()
    second = scene.start_worker()
    doubts = await scene.comes_to_rest()
    assert len(doubts) == MAIL_WINDOW_ITEMS
    window = {doubt.id for doubt in doubts}
    others = [item for item in await scene.items() if item.id not in window]

    zombie.thaw()
    # It knows how its calls ended, so that no evidence is needed from anybody else.
    await scene.watcher.until(lambda look: look.is_terminal)
    assert not await scene.doubts()
    assert [item for item in await scene.items() if item.id not in window] == others
    await scene.ends_well()
    assert len(scene.witness.lines()) == 3 * BATCH, "one call for each item"
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()


@pytest.mark.parametrize("stall_at", ["open:after:1", "close:before:1"])
async def test_an_sms_worker_back_from_the_dead_changes_nothing_that_was_done_meanwhile(
    scene: Scene, stall_at: str
) -> None:
    await scene.launch(Provider.SMS, 3 * BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at=stall_at, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await zombie.is_stalled()
    second = scene.start_worker()
    await scene.watcher.until(lambda look: look.is_terminal)
    done = await scene.items()

    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()
    assert await scene.items() == done
    await scene.ends_well()


async def test_a_worker_frozen_before_it_reserved_makes_no_calls_when_it_wakes(
    scene: Scene,
) -> None:
    await scene.launch(Provider.MAIL, 2 * BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at="reserve:before:1")
    await zombie.is_stalled()
    second = scene.start_worker()
    assert not await scene.comes_to_rest()
    done = await scene.items()

    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()
    assert await scene.items() == done
    await scene.ends_well()
    assert len(scene.witness.lines()) == 2 * BATCH, "one call for each item"


async def test_a_call_not_started_within_its_lease_is_not_made_after_evidence_had_it_repeated(
    scene: Scene,
) -> None:
    await scene.launch(Provider.MAIL, BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at="open:after:1")
    await zombie.is_stalled()
    second = scene.start_worker()
    assert len(await scene.comes_to_rest()) == MAIL_WINDOW_ITEMS
    settled = await scene.resolve_doubts()
    assert settled.resubmitted == MAIL_WINDOW_ITEMS
    await scene.watcher.until(lambda look: look.is_terminal)

    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()
    await scene.ends_well()


async def test_a_call_not_started_within_its_lease_is_not_made_even_if_the_gateway_dedupes(
    scene: Scene,
) -> None:
    """By then the item may have been rejected elsewhere, and so have ended or moved on."""
    await scene.launch(Provider.SMS, BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at="open:after:1")
    await zombie.is_stalled()
    second = scene.start_worker()
    await scene.watcher.until(lambda look: look.is_terminal)
    calls = scene.sandbox.requests

    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()
    assert scene.sandbox.requests == calls == BATCH
    await scene.ends_well()


async def test_an_answer_that_comes_after_the_item_was_called_again_changes_nothing(
    scene: Scene,
) -> None:
    await scene.launch(Provider.MAIL, BATCH, batch_size=BATCH)
    scene.sandbox.change_faults({"failRate": 1})
    zombie = scene.start_worker(stall_at="close:before:1", close_group_seconds=WHOLE_WINDOW_SECONDS)
    await zombie.is_stalled()
    # What was on its way when it froze is answered first, and refused as the rest.
    await asyncio.sleep(ON_ITS_WAY_SECONDS)
    scene.sandbox.change_faults({"failRate": 0})
    second = scene.start_worker()
    assert len(await scene.comes_to_rest()) == MAIL_WINDOW_ITEMS
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    calls = scene.sandbox.requests
    settled = await scene.resolve_doubts()
    assert settled.resubmitted == MAIL_WINDOW_ITEMS
    await scene.watcher.until(lambda _: scene.sandbox.requests == calls + MAIL_WINDOW_ITEMS)

    # Its news, "refused", is of a call before the one that is under way now.
    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await scene.ends_well()
    await second.stop()


async def test_a_worker_back_from_the_dead_works_on_as_any_other(scene: Scene) -> None:
    await scene.launch(Provider.MAIL, 2 * BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at="close:before:1", close_group_seconds=WHOLE_WINDOW_SECONDS)
    await zombie.is_stalled()
    second = scene.start_worker()
    await scene.comes_to_rest()
    await second.stop()
    finished_by = await _actors(scene, "job.completed")

    # Evidence wakes the parked job, and there is one worker left to take it.
    settled = await scene.resolve_doubts()
    assert settled.sent + settled.resubmitted == MAIL_WINDOW_ITEMS
    zombie.thaw()
    await zombie.has_logged("lease_lost")
    await scene.ends_well()
    await zombie.stop()
    assert len(await _actors(scene, "job.completed") - finished_by) == 1


async def _actors(scene: Scene, event: str) -> set[str]:
    entries = audit_trail.audit_of_run(DEFAULT_SCOPE, scene.run_id, paging.FIRST, 10_000)
    rows = await scene.outrider.store.read(entries)
    return {actor for _, _, actor, named, *_ in rows if named == event}
