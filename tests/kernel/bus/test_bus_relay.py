"""The event bus on real databases and real receivers: order, repeats, failures, dead letters."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.transactions import bus
from outrider.kernel.transactions.alerts import LAST, AlertRecord, alerts_page
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.store import Store
from outrider.secrets.store import LocalSecrets
from outrider.settings import SinkSettings
from outrider.sinks.directory import make_sink
from outrider.stores.sqlite.store import SqliteStore
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import ELSEWHERE, at
from tests.support.api_inside import until
from tests.support.broken_server import closed_port
from tests.support.bus_receiver import SECRET, Receiver, accept, answer, receiving
from tests.support.bus_scene import SINK, Scene, by_run
from tests.support.eventually import eventually
from tests.support.foundations import foundation
from tests.support.whole_runs import PATIENCE_SECONDS, SteppedClock

HOOK = "env:HOOK_SECRET"
OTHER = WorkerId("relay-two")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(Receiver()) as running:
        yield running


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Store]:
    """The store that ships within: for what does not depend on the database."""
    store = SqliteStore(tmp_path / "outrider.db")
    await store.migrate()
    yield store
    await store.close()


@asynccontextmanager
async def held_clock(scene: Scene, receiver: Receiver) -> AsyncIterator[FakeClock]:
    clock = scene.clock
    assert isinstance(clock, FakeClock)
    receiver.now = lambda: clock.now().timestamp()
    yield clock


async def standing(store: Store) -> list[AlertRecord]:
    return await store.read(alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True))


async def letters(scene: Scene, *, only_waiting: bool = True) -> list[Any]:
    return await scene.keeper.letters(DEFAULT_SCOPE, FIRST, 1_000, only_waiting=only_waiting)


async def test_every_event_of_every_run_is_published_once_signed_and_in_order(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store)
    runs = await scene.runs(3, events=40)
    sink = scene.sink(receiver.url, secret=HOOK)
    told = await scene.relay(sink).relay_all()
    await sink.close()
    logged = await scene.logged(*runs)
    assert by_run(receiver.ids) == logged
    assert told == sum(map(len, logged.values())) == len(receiver.asked)
    assert receiver.refused == 0
    assert receiver.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    record = await scene.record()
    assert (record.waiting, record.published, record.failed) == (0, told, 0)


async def test_a_window_is_bounded_and_the_next_continues_where_it_ended(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store)
    scene.limits = type(scene.limits)(bus_window_events=10, bus_window_runs=2)
    runs = await scene.runs(5, events=12)
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink)
    first = await relay.relay_once()
    assert first is not None
    assert 0 < first <= 10
    while (await scene.record()).waiting:
        assert await relay.relay_all()
    await sink.close()
    assert by_run(receiver.ids) == await scene.logged(*runs)
    assert len(receiver.asked) == len(set(receiver.asked))


async def test_a_failed_event_holds_up_its_own_run_and_no_other(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store, FakeClock(at(0)))
    ill, well = await scene.runs(2, events=5)
    logged = await scene.logged(ill, well)
    poison = logged[ill][2]
    receiver.behave = lambda _request, event: web.Response(
        status=500 if event["id"] == poison else 200
    )
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink)
    async with held_clock(scene, receiver) as clock:
        await relay.relay_all()
        await scene.happen(ill, 3, name="later")
        await scene.happen(well, 3, name="later")
        await relay.relay_all()
        heard = by_run(receiver.ids)
        logged = await scene.logged(ill, well)
        assert heard[well] == logged[well]
        assert heard[ill] == logged[ill][:2]
        assert receiver.asked.count(poison) == 1
        receiver.behave = accept
        clock.advance(1.3)
        await relay.relay_all()
    await sink.close()
    assert by_run(receiver.ids) == logged


async def slow(_request: web.Request, _event: dict[str, Any]) -> web.Response:
    await asyncio.sleep(60)
    return web.Response(status=200)


def drop(request: web.Request, _event: dict[str, Any]) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


def verbose(_request: web.Request, _event: dict[str, Any]) -> web.Response:
    # It would be a delivery, were it not for a body that no honest answer has.
    return web.Response(status=500, body=b"x" * 1_000_000)


@pytest.mark.parametrize(
    ("behave", "error"),
    [
        (answer(500), "http_500"),
        (answer(404), "http_404"),
        (answer(302, Location="/elsewhere"), "http_302"),
        (answer(307, Location="/elsewhere"), "http_307"),
        (answer(304), "http_304"),
        (slow, "timeout"),
        (drop, "connection_lost"),
        (verbose, "answer_too_large"),
    ],
    ids=["500", "404", "302", "307", "304", "slow", "drop", "verbose"],
)
async def test_only_2xx_is_a_delivery_and_no_redirect_is_followed(
    embedded: Store, receiver: Receiver, behave: Any, error: str
) -> None:
    scene = Scene(embedded)
    (run_id,) = await scene.runs(1, events=2)
    receiver.behave = behave
    # Whoever does answer has all the time that a busy machine takes.
    sink = scene.sink(receiver.url, secret=HOOK, timeout_seconds=0.3 if behave is slow else 30)
    assert await scene.relay(sink, max_attempts=1).relay_all() == 0
    await sink.close()
    first, *_ = (await scene.logged(run_id))[run_id]
    letter = (await letters(scene))[0]
    assert (letter.error, f"{letter.run_id}/{letter.run_seq}") == (error, first)
    assert receiver.elsewhere == 0


async def test_a_refused_connection_is_a_failure_that_is_retried(embedded: Store) -> None:
    scene = Scene(embedded, FakeClock(at(0)))
    await scene.runs(2, events=3)
    sink = scene.sink(f"http://127.0.0.1:{closed_port()}/hook", secret=HOOK)
    assert await scene.relay(sink).relay_all() == 0
    await sink.close()
    record = await scene.record()
    assert record.failed == 2, "one attempt a run: the others were held"
    assert record.waiting > 2
    assert await letters(scene) == []


async def test_retry_after_is_honoured_for_at_most_an_hour(
    embedded: Store, receiver: Receiver
) -> None:
    scene = Scene(embedded, FakeClock(at(0)))
    await scene.runs(1, events=1)
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink)
    async with held_clock(scene, receiver) as clock:
        for header, waits in (("120", 120), ("999999999", 3_600)):
            receiver.behave, before = answer(503, Retry_After=header), len(receiver.asked)
            await relay.relay_all()
            clock.advance(waits - 1)
            await relay.relay_all()
            assert len(receiver.asked) == before + 1
            clock.advance(2)
        receiver.behave = accept
        assert await relay.relay_all()
    await sink.close()


async def test_attempts_come_ever_later_then_it_is_a_dead_letter_with_an_alert(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store, FakeClock(at(0)))
    (run_id,) = await scene.runs(1, events=3)
    (logged,) = (await scene.logged(run_id)).values()
    poison = logged[0]
    receiver.behave = lambda _request, event: web.Response(
        status=500 if event["id"] == poison else 200
    )
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink, max_attempts=5)
    async with held_clock(scene, receiver) as clock:
        for attempt, least in enumerate((1, 2, 4, 8), start=1):
            await relay.relay_all()
            assert receiver.asked == [poison] * attempt
            clock.advance(least - 0.01)
            await relay.relay_all()
            assert receiver.asked == [poison] * attempt, "too early"
            # With jitter it is a fifth more at the most.
            clock.advance(least * 0.2 + 0.01)
        assert await standing(store) == []
        await relay.relay_all()
        await relay.relay_all()
        assert receiver.ids == logged[1:], "a dead letter holds nothing up"
        (letter,) = await letters(scene)
        assert (letter.sink, letter.attempts, letter.error) == (SINK, 5, "http_500")
        (alert,) = await standing(store)
        assert (alert.code, alert.subject) == ("EVENT_BUS_DEAD_LETTER", SINK)
        assert "http_500" in alert.message

        receiver.behave = accept
        assert await scene.keeper.redrive(DEFAULT_SCOPE, letter.id, "test") == SINK
        assert await standing(store) == [], "none is left"
        await relay.relay_all()
        assert receiver.ids == [*logged[1:], poison]
        with pytest.raises(Conflict, match="already redriven"):
            await scene.keeper.redrive(DEFAULT_SCOPE, letter.id, "test")
    await sink.close()
    assert await letters(scene) == []
    assert len(await letters(scene, only_waiting=False)) == 1


async def test_all_dead_letters_are_redriven_at_once_and_only_those_of_the_workspace(
    store: Store,
) -> None:
    scene = Scene(store)
    scene.limits = type(scene.limits)(page_items=3)
    runs = await scene.runs(4, events=2)
    sink = scene.sink(f"http://127.0.0.1:{closed_port()}/hook", secret=HOOK)
    relay = scene.relay(sink, max_attempts=1)
    while (await scene.record()).waiting:
        await relay.relay_all()
    await sink.close()
    waiting = len(await letters(scene))
    assert waiting == sum(map(len, (await scene.logged(*runs)).values()))
    (alert,) = await standing(store)
    assert alert.times > 1
    keeper = BusKeeper(
        foundation(store, clock=scene.clock, ids=scene.ids, limits=scene.limits), [SINK]
    )
    assert await keeper.redrive_all(ELSEWHERE, "stranger") == 0
    with pytest.raises(NotFound):
        await keeper.redrive(ELSEWHERE, (await letters(scene))[0].id, "stranger")
    assert await keeper.redrive_all(DEFAULT_SCOPE, "test") == waiting
    assert await letters(scene) == []
    assert await standing(store) == []
    assert (await scene.record()).waiting == waiting


async def test_a_sink_that_answers_410_is_disabled_and_its_events_wait(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store)
    runs = await scene.runs(2, events=3)
    receiver.behave = answer(410)
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink)
    await relay.relay_all()
    asked = len(receiver.asked)
    assert asked <= 2, "each run's first at the most"
    (alert,) = await standing(store)
    assert (alert.code, alert.subject) == ("EVENT_BUS_SINK_GONE", SINK)
    receiver.behave = accept
    assert await relay.relay_all() is None
    assert len(receiver.asked) == asked, "nobody asks it any more"
    record = await scene.record()
    assert (record.disabled_why, record.failed) == ("http_410", 0)
    assert record.waiting == sum(map(len, (await scene.logged(*runs)).values()))
    await scene.keeper.resume(SINK, "test")
    assert await standing(store) == []
    await relay.relay_all()
    await sink.close()
    assert by_run(receiver.ids) == await scene.logged(*runs)


async def test_two_competing_relays_publish_each_event_once(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store)
    runs = await scene.runs(4, events=30)
    sinks = [scene.sink(receiver.url, secret=HOOK) for _ in range(2)]
    loops = [
        asyncio.create_task(scene.relay(sink, owner=owner).run())
        for sink, owner in zip(sinks, (WorkerId("relay-one"), OTHER), strict=True)
    ]
    for turn in range(5):
        for run_id in runs:
            await scene.happen(run_id, 10, name=f"turn-{turn}")
    await scene.told_all()
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    for sink in sinks:
        await sink.close()
    assert by_run(receiver.ids) == await scene.logged(*runs)
    assert len(receiver.asked) == len(set(receiver.asked)), "none twice"
    assert (await scene.record()).owner is None, "whoever leaves gives the lease back"


async def test_a_slow_window_keeps_its_lease(store: Store, receiver: Receiver) -> None:
    clock = SteppedClock(at(0))
    scene = Scene(store, clock)
    receiver.now = lambda: clock.now().timestamp()
    (run_id,) = await scene.runs(1, events=1)
    answered = asyncio.Event()

    async def linger(_request: web.Request, _event: dict[str, Any]) -> web.Response:
        await answered.wait()
        return web.Response(status=200)

    receiver.behave = linger
    one, two = (scene.sink(receiver.url, secret=HOOK) for _ in range(2))
    telling = asyncio.create_task(scene.relay(one).relay_once())
    await until(lambda: bool(receiver.asked))
    other = scene.relay(two, owner=OTHER)
    # For as long as three leases: each time another third of one is over, it is written down anew.
    for _ in range(9):
        before = await lease_ends(scene)
        await clock.step(scene.limits.bus_lease_seconds / 3)

        async def is_so(before: datetime | None = before) -> bool:
            return await lease_ends(scene) != before

        await eventually(is_so, seconds=PATIENCE_SECONDS)
        assert await other.relay_once() is None
    assert not telling.done()
    answered.set()
    assert await telling
    await one.close()
    await two.close()
    (logged,) = (await scene.logged(run_id)).values()
    assert receiver.asked == logged


async def lease_ends(scene: Scene) -> datetime | None:
    return (await scene.record()).lease_expires_at


async def test_a_relay_killed_after_publishing_publishes_again_under_the_same_ids(
    store: Store, database: str, receiver: Receiver
) -> None:
    scene = Scene(store)
    runs = await scene.runs(2, events=5)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.bus_child", database, receiver.url,
        cwd=Path(__file__).parents[3], env={**os.environ, "HOOK_SECRET": SECRET},
    )  # fmt: skip
    assert await child.wait() == -signal.SIGKILL
    logged = await scene.logged(*runs)
    assert by_run(receiver.ids) == logged, "it was told"
    assert (await scene.record()).waiting == len(receiver.ids), "and not written down"
    sink = scene.sink(receiver.url, secret=HOOK)
    # At once, although the lease of the dead has not run out: it was a process of this host.
    assert await scene.relay(sink).relay_all() == len(receiver.asked) / 2
    await sink.close()
    for run_id, heard in by_run(receiver.ids).items():
        assert heard == logged[RunId(run_id)] * 2
    assert (await scene.record()).waiting == 0


async def test_a_stopped_relay_finishes_its_window_so_that_nothing_is_published_twice(
    embedded: Store, receiver: Receiver
) -> None:
    scene = Scene(embedded)
    (run_id,) = await scene.runs(1, events=3)
    begun, answered = asyncio.Event(), asyncio.Event()

    async def linger(_request: web.Request, _event: dict[str, Any]) -> web.Response:
        begun.set()
        await answered.wait()
        return web.Response(status=200)

    receiver.behave = linger
    sink = scene.sink(receiver.url, secret=HOOK)
    loop = asyncio.create_task(scene.relay(sink).run())
    await begun.wait()
    loop.cancel()
    answered.set()
    await asyncio.gather(loop, return_exceptions=True)
    assert (await scene.record()).waiting == 0
    assert by_run(receiver.asked) == await scene.logged(run_id)
    await sink.close()


async def test_a_lease_that_is_over_is_anybodys(embedded: Store, receiver: Receiver) -> None:
    scene = Scene(embedded, FakeClock(at(0)))
    await scene.runs(1, events=1)
    sink = scene.sink(receiver.url, secret=HOOK)
    one, two = scene.relay(sink), scene.relay(sink, owner=OTHER)
    async with held_clock(scene, receiver) as clock:
        assert await one.relay_all()
        assert await two.relay_all() is None
        clock.advance(scene.limits.bus_lease_seconds)
        assert await two.relay_all() == 0
        assert await one.relay_all() is None
    await sink.close()


async def test_a_changed_secret_counts_from_the_next_window(
    embedded: Store, receiver: Receiver, tmp_path: Path
) -> None:
    scene = Scene(embedded)
    (run_id,) = await scene.runs(1, events=1)
    new = "the-new-secret-of-the-receiver"
    file = tmp_path / "secret"
    file.write_text(SECRET)
    sink = scene.sink(receiver.url, secret=f"file:{file}")
    relay = scene.relay(sink)
    await relay.relay_all()
    for held, expected in ((f"{new}\n{SECRET}", SECRET), (f"{new}\n{SECRET}", new), (new, new)):
        file.write_text(held)
        receiver.secret = expected
        await scene.happen(run_id, 1, name=f"{held[:3]}-{expected[:3]}-{len(held)}")
        await relay.relay_all()
    await sink.close()
    assert receiver.refused == 0
    assert by_run(receiver.ids) == await scene.logged(run_id)


async def test_a_secret_that_vanished_fails_the_window_and_not_the_relay(
    embedded: Store, receiver: Receiver, tmp_path: Path
) -> None:
    scene = Scene(embedded, FakeClock(at(0)))
    await scene.runs(1, events=2)
    file = tmp_path / "secret"
    file.write_text(SECRET)
    sink = scene.sink(receiver.url, secret=f"file:{file}")
    relay = scene.relay(sink)
    file.unlink()
    assert await relay.relay_all() == 0
    file.write_text(SECRET)
    async with held_clock(scene, receiver) as clock:
        clock.advance(2)
        assert await relay.relay_all()
    await sink.close()
    assert (await scene.record()).failed == 1


async def test_a_private_address_is_refused_where_the_settings_say_so(
    embedded: Store, receiver: Receiver
) -> None:
    scene = Scene(embedded)
    await scene.runs(1, events=1)
    settings = SinkSettings(url=receiver.url, secret=HOOK)
    sink = make_sink(SINK, settings, LocalSecrets(), scene.clock, allow_private=False)
    await scene.relay(sink, max_attempts=1).relay_all()
    await sink.close()
    assert {letter.error for letter in await letters(scene)} == {"address_refused"}
    assert receiver.asked == []


async def test_a_worker_without_the_setting_still_queues_events_for_sinks(
    store: Store,
) -> None:
    scene = Scene(store)
    before = await scene.workshop.launch(1)
    await scene.keeper.register()
    await scene.keeper.register()
    stranger = Scene(store)
    after = await stranger.workshop.launch(1)
    await stranger.happen(after, 2)
    assert (await scene.record()).waiting == len((await scene.logged(after))[after])
    await scene.happen(before, 1)
    assert (await scene.record()).waiting == len((await scene.logged(after))[after]) + 1


async def test_a_forgotten_sink_takes_with_it_what_waited_and_no_more_is_written_down(
    store: Store, receiver: Receiver
) -> None:
    scene = Scene(store)
    scene.limits = type(scene.limits)(bus_forget_items=3)
    (run_id,) = await scene.runs(1, events=8)
    receiver.behave = answer(500)
    sink = scene.sink(receiver.url, secret=HOOK)
    relay = scene.relay(sink, max_attempts=1)
    await relay.relay_all()
    assert len(await standing(store)) == 1
    with pytest.raises(Conflict, match="settings still contain"):
        await scene.keeper.forget(SINK, "test")
    record = await scene.record()
    keeper = BusKeeper(foundation(store, clock=scene.clock, ids=scene.ids, limits=scene.limits), [])
    forgotten = await keeper.forget(SINK, "test")
    assert forgotten == (record.waiting, 1)
    assert (await keeper.sinks(), await standing(store)) == ([], [])
    await scene.happen(run_id, 2, name="later")
    asked = len(receiver.asked)
    assert not await relay.relay_all()
    assert len(receiver.asked) == asked, "a relay that still runs has nothing to tell"
    with pytest.raises(NotFound):
        await keeper.forget(SINK, "test")
    await sink.close()


async def test_a_dead_letter_of_a_forgotten_sink_cannot_be_redriven(
    embedded: Store, receiver: Receiver
) -> None:
    scene = Scene(embedded, FakeClock(at(0)))
    await scene.runs(1, events=1)
    receiver.behave = answer(500)
    sink = scene.sink(receiver.url, secret=HOOK)
    async with held_clock(scene, receiver):
        await scene.relay(sink, max_attempts=1).relay_all()
    await sink.close()
    letter = (await letters(scene))[0]
    await embedded.write(bus.forget_sink(SINK))
    with pytest.raises(Conflict, match="is not registered"):
        await scene.keeper.redrive(DEFAULT_SCOPE, letter.id, "test")
    assert len(await letters(scene)) == 1
