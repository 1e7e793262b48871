"""The projector on real databases: crashes, rivals, holes, lag, and what later versions write."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from outrider.domain.errors import NotFound, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.projection import (
    RunSnapshot,
    SnapshotStatus,
    StepStatus,
    incremental_project,
    project_run,
)
from outrider.domain.run_events import RunEvent
from outrider.kernel.runs import projector as projector_module
from outrider.kernel.runs.projector import LAG, NON_CONTIGUOUS, Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.transactions import alerts
from outrider.kernel.transactions.alerts import AlertRecord
from outrider.kernel.transactions.paging import LAST
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.system import SystemIds
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import ELSEWHERE, NOON, Workshop
from tests.support.eventually import eventually
from tests.support.foundations import foundation
from tests.support.raw_logs import (
    Crash,
    CrashingStore,
    burn_numbers,
    events_of,
    of_run,
    projected,
    snapshots_of,
    step,
    tell,
    tell_unknown,
    watermark,
)
from tests.support.raw_sql import Raw, raw_sql

IDS = SystemIds()
LIMITS = Limits()
SAVE_STATEMENTS = 5
"""Of the transaction that stores a snapshot: its row, the watermark, the pruning, two alerts."""


@pytest.fixture
async def raw(database: str, store: Store) -> AsyncIterator[Raw]:  # noqa: ARG001 - migrated first
    async with raw_sql(database) as opened:
        yield opened


@pytest.fixture
async def run_id(store: Store) -> RunId:
    """A run whose log has begun, and nothing of it is projected."""
    run_id = await Workshop(store).launch(3, batch_size=1)
    await tell(store, run_id, of_run("Approved"), of_run("Started", engineRunRef="local/1"))
    await tell(store, run_id, step("Started", "a"), step("Started", "b"))
    return run_id


def projector_of(
    store: Store, *, clock: FakeClock | None = None, limits: Limits = LIMITS
) -> Projector:
    return Projector(foundation(store, clock=clock or FakeClock(NOON), ids=IDS, limits=limits))


async def alerts_of(store: Store) -> list[AlertRecord]:
    """The oldest first."""
    found = await store.read(alerts.alerts_page(DEFAULT_SCOPE, LAST, 1_000, only_open=False))
    return found[::-1]


async def standing(store: Store) -> dict[str, int]:
    return await store.read(alerts.standing_by_code())


# Projecting


async def test_a_round_stores_the_snapshot_and_the_watermark(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    log = await events_of(store, run_id)
    projector = projector_of(store)
    assert await projector.project_once() == len(log)
    (stored,) = await snapshots_of(raw, run_id)
    assert stored == project_run(run_id, log)
    assert stored.status is SnapshotStatus.RUNNING
    assert await watermark(raw, run_id) == log[-1].run_seq
    assert await projector.project_once() == 0, "there is nothing new"
    assert await alerts_of(store) == []


async def test_every_run_that_is_behind_has_its_turn_page_by_page(store: Store, raw: Raw) -> None:
    shop = Workshop(store)
    runs = [await shop.launch(1) for _ in range(5)]
    for run_id in runs:
        await tell(store, run_id, of_run("Started"), step("Started", "a"))
    projector = projector_of(store, limits=Limits(projector_runs=2))
    assert await projector.project_once() == sum([len(await events_of(store, r)) for r in runs])
    for run_id in runs:
        assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)


async def test_a_long_log_is_read_in_pages_and_stored_in_pieces(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    for number in range(40):
        await tell(store, run_id, step("Started", f"s{number}"), step("Completed", f"s{number}"))
    limits = Limits(projector_page_events=7, projector_delta_events=20, snapshots_kept=2)
    projector = projector_of(store, limits=limits)
    total = len(await events_of(store, run_id))
    rounds = [await projector.project_once()]
    while rounds[-1]:
        assert (await snapshots_of(raw, run_id))[-1].last_event_seq == sum(rounds)
        rounds.append(await projector.project_once())
    assert rounds[0] == 21, "whole pages, until there are enough events for one visit"
    assert sum(rounds) == total
    stored = await snapshots_of(raw, run_id)
    assert stored[-1] == await projected(store, run_id)
    assert len(stored) == limits.snapshots_kept, "older ones are cleared away"


async def test_a_continuing_run_is_projected_from_the_cached_snapshot(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    projector = projector_of(store)
    await projector.project_once()
    # Whoever remembers does not look at what is stored.
    await raw.run(f"DELETE FROM run_snapshots WHERE run_id = '{run_id}'")
    await tell(store, run_id, step("Completed", "a"))
    assert await projector.project_once() == 1
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)
    await tell(store, run_id, of_run("Completed"))
    await projector.project_once()
    assert projector._memory.get(run_id) is None, "a run that has ended is forgotten"


async def test_only_so_many_steps_are_remembered(store: Store, raw: Raw) -> None:
    shop = Workshop(store)
    runs = [await shop.launch(1) for _ in range(3)]
    projector = projector_of(store, limits=Limits(projector_steps_remembered=8))
    for run_id in runs:
        await tell(store, run_id, *(step("Started", f"s{number}") for number in range(3)))
        await projector.project_once()
    assert [projector._memory.get(run_id) is None for run_id in runs] == [True, False, False]
    for run_id in runs:
        await tell(store, run_id, step("Completed", "s1"))
    await projector.project_once()
    for run_id in runs:
        assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)


async def test_unknown_types_move_the_watermark_and_change_nothing(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    projector = projector_of(store)
    await projector.project_once()
    (before,) = await snapshots_of(raw, run_id)
    seq = await tell_unknown(raw, run_id, payload='{"outcome": "elsewhere"}')
    assert await projector.project_once() == 1
    after = (await snapshots_of(raw, run_id))[-1]
    assert (after.last_event_seq, after.steps, after.status) == (seq, before.steps, before.status)
    assert await watermark(raw, run_id) == seq


async def test_a_payload_that_is_no_object_fails_no_projection(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    seq = await tell_unknown(raw, run_id, payload="[1, 2]")
    await projector_of(store).project_once()
    assert (await snapshots_of(raw, run_id))[-1].last_event_seq == seq


async def test_a_run_that_cannot_be_projected_keeps_no_other_from_it(
    store: Store, raw: Raw, run_id: RunId, monkeypatch: pytest.MonkeyPatch
) -> None:
    await projector_of(store).project_once()
    other = await Workshop(store).launch(1)
    await tell(store, run_id, step("Completed", "a"))

    def broken(snapshot: RunSnapshot, events: list[RunEvent]) -> RunSnapshot:
        if snapshot.run_id == run_id:
            raise TypeError("a bug")
        return incremental_project(snapshot, events)

    monkeypatch.setattr(projector_module, "incremental_project", broken)
    assert await projector_of(store).project_once() == len(await events_of(store, other))
    assert (await snapshots_of(raw, other))[-1] == await projected(store, other)


# Crashes and rivals


@pytest.mark.parametrize("statements", range(SAVE_STATEMENTS + 1))
async def test_a_crash_anywhere_leaves_nothing_behind_and_the_next_one_continues_from_the_watermark(
    store: Store, raw: Raw, run_id: RunId, statements: int
) -> None:
    await projector_of(store).project_once()
    reached = await watermark(raw, run_id)
    await tell(store, run_id, step("Completed", "a"), step("Failed", "b"))
    crashing = CrashingStore(store)
    crashing.write_dies_after = statements
    projector = projector_of(crashing)
    # The projector itself takes it for a bug of one run, and looks after the others.
    await projector.project_once()
    assert crashing.write_dies_after is None, "it came to writing"
    assert await watermark(raw, run_id) == reached
    assert [each.last_event_seq for each in await snapshots_of(raw, run_id)] == [reached]
    for survivor in (projector_of(store), projector):
        await survivor.project_once()
        assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)
    assert await watermark(raw, run_id) == reached + 2


async def test_a_crash_really_aborts_the_transaction(store: Store, run_id: RunId) -> None:
    before = await events_of(store, run_id)
    crashing = CrashingStore(store)
    for statements in range(4):
        crashing.write_dies_after = statements
        with pytest.raises(Crash):
            await tell(crashing, run_id, step("Completed", "a"))
    assert await events_of(store, run_id) == before


async def test_two_projectors_at_once_give_what_one_gives(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    rivals = [projector_of(store), projector_of(store), projector_of(store)]
    reached = 0
    for number in range(8):
        await tell(store, run_id, step("Started", f"s{number}"), step("Completed", f"s{number}"))
        telling = [
            tell(store, run_id, step("Skipped", f"t{number}-{each}")) for each in range(3)
        ]  # fmt: skip
        await asyncio.gather(*(rival.project_once() for rival in rivals), *telling)
        assert await watermark(raw, run_id) >= reached
        reached = await watermark(raw, run_id)
        log = await events_of(store, run_id)
        for stored in await snapshots_of(raw, run_id):
            upto = [event for event in log if event.run_seq <= stored.last_event_seq]
            assert stored == project_run(run_id, upto)
    await rivals[0].project_once()
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)
    assert await standing(store) == {}


async def test_a_projector_that_is_behind_does_not_take_the_watermark_back(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    slow = projector_of(store)
    await slow.project_once()
    await tell(store, run_id, step("Completed", "a"))
    behind = slow._memory.get(run_id)
    assert behind is not None
    await projector_of(store).project_once()
    reached = await watermark(raw, run_id)
    await tell(store, run_id, step("Completed", "b"))
    assert await slow.project_once() == 2, "from where it was, past what its rival did"
    assert await watermark(raw, run_id) == reached + 1


async def test_a_store_that_is_unavailable_for_a_while_is_tried_again(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    crashing = CrashingStore(store)
    crashing.read_errors = [StoreUnavailable("gone") for _ in range(3)]
    running = asyncio.create_task(projector_of(crashing).run())
    await eventually(lambda: watermark(raw, run_id), seconds=60)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)


# Holes


async def test_a_hole_raises_the_alert_resyncs_resumes_and_resolves_it(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    crashing = CrashingStore(store)
    projector = projector_of(crashing)
    await projector.project_once()
    reached = await watermark(raw, run_id)
    seq = await tell_unknown(raw, run_id, skip=3)
    await tell(store, run_id, step("Completed", "a"))
    # It lists the run, fetches the hole, and loses the store before it has resynced.
    crashing.read_errors = [None, None, StoreUnavailable("gone")]
    with pytest.raises(StoreUnavailable):
        await projector.project_once()
    assert await standing(store) == {NON_CONTIGUOUS: 1}
    assert await watermark(raw, run_id) == reached, "not a step further on what was remembered"
    assert projector._memory.get(run_id) is None

    assert await projector.project_once() == 2
    assert await standing(store) == {}
    assert await watermark(raw, run_id) == seq + 1
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)
    (alert,) = await alerts_of(store)
    assert (alert.code, alert.severity, alert.subject, alert.times) == (
        NON_CONTIGUOUS, "P2", run_id, 2,
    )  # fmt: skip
    assert f"event {seq} was fetched after {reached}" in alert.message
    assert alert.resolved_at is not None


async def test_a_hole_inside_a_page_is_seen_too(store: Store, raw: Raw, run_id: RunId) -> None:
    projector = projector_of(store)
    await projector.project_once()
    await tell(store, run_id, step("Completed", "a"))
    await tell_unknown(raw, run_id, skip=1)
    await projector.project_once()
    (alert,) = await alerts_of(store)
    assert (alert.code, alert.times) == (NON_CONTIGUOUS, 1)
    assert alert.resolved_at is not None
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)


async def test_readers_do_not_wait_for_numbers_that_were_never_used(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    await burn_numbers(raw, run_id, 4)
    projector = projector_of(store)
    last = (await events_of(store, run_id))[-1].run_seq
    await projector.project_once()
    assert (await snapshots_of(raw, run_id))[-1].last_event_seq == last
    assert await watermark(raw, run_id) == last + 4, "the run is behind no more"
    await burn_numbers(raw, run_id, 2)
    assert await projector.project_once() == 0
    assert await watermark(raw, run_id) == last + 6
    await tell(store, run_id, step("Completed", "a"))
    assert await projector.project_once() == 1
    assert (await snapshots_of(raw, run_id))[-1].steps["a"].status is StepStatus.SUCCESS


# Lag


async def test_a_lag_of_more_than_five_seconds_raises_the_alert_until_it_is_caught_up(
    store: Store, raw: Raw, run_id: RunId
) -> None:
    clock = FakeClock(NOON)
    limits = Limits(projector_page_events=2, projector_delta_events=2)
    projector = projector_of(store, clock=clock, limits=limits)
    clock.advance(4.9)
    await projector.project_once()
    assert await alerts_of(store) == [], "late, but not yet too late"
    clock.advance(0.2)
    assert await projector.lag_seconds() == pytest.approx(5.1)
    await projector.project_once()
    assert await standing(store) == {LAG: 1}, "behind still, and more than five seconds"
    while await projector.project_once():
        pass
    assert await standing(store) == {}
    assert await projector.lag_seconds() == 0
    (alert,) = await alerts_of(store)
    assert (alert.code, alert.severity, alert.subject) == (LAG, "P2", run_id)
    assert alert.resolved_at is not None
    assert (await snapshots_of(raw, run_id))[-1] == await projected(store, run_id)


async def test_a_start_that_was_kept_aside_for_long_is_no_lag(store: Store, run_id: RunId) -> None:
    clock = FakeClock(NOON)
    projector = projector_of(store, clock=clock)
    await projector.project_once()
    clock.advance(60)
    late = step("Started", "c", occurred_at=NOON)
    await tell(store, run_id, step("Completed", "c"), now=clock.now())
    await tell(store, run_id, late, step("Completed", "b"), now=clock.now())
    assert await projector.project_once() == 3
    assert await alerts_of(store) == []


# Reading


async def test_a_reader_sees_the_newest_event_however_far_the_projector_is(
    store: Store, run_id: RunId
) -> None:
    reader = RunReader(store, Limits(projector_page_events=2))
    assert await reader.snapshot(DEFAULT_SCOPE, run_id) == await projected(store, run_id)
    await projector_of(store).project_once()
    await tell(store, run_id, step("Completed", "a"), step("Failed", "b"), of_run("Completed"))
    assert await reader.snapshot(DEFAULT_SCOPE, run_id) == await projected(store, run_id)


async def test_a_run_can_be_viewed_as_of_any_event(store: Store, raw: Raw, run_id: RunId) -> None:
    projector = projector_of(store)
    await tell_unknown(raw, run_id, skip=2)
    await projector.project_once()
    await tell(store, run_id, step("Completed", "a"), of_run("Paused"))
    await projector.project_once()
    await tell(store, run_id, of_run("Resumed"), step("Completed", "b"), of_run("Completed"))
    reader = RunReader(store, LIMITS)
    log = await events_of(store, run_id)
    for at in range(log[-1].run_seq + 3):
        expected = project_run(run_id, [event for event in log if event.run_seq <= at])
        assert await reader.snapshot(DEFAULT_SCOPE, run_id, at) == expected


async def test_anyone_who_may_not_see_a_run_sees_neither_its_snapshot_nor_its_events(
    store: Store, run_id: RunId
) -> None:
    reader = RunReader(store, LIMITS)
    with pytest.raises(NotFound):
        await reader.snapshot(ELSEWHERE, run_id)
    with pytest.raises(NotFound):
        await reader.events(ELSEWHERE, run_id, 0, 10)
    with pytest.raises(NotFound):
        await reader.snapshot(DEFAULT_SCOPE, RunId("no run"))
