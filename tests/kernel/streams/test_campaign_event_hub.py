"""The event hub: every event once and in order, one reader however many watch, on both stores."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import asyncpg
import pytest

from outrider.bootstrap import make_store
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import CampaignId
from outrider.domain.restored_database import DatabasePlace
from outrider.kernel.streams.campaign_event_hub import CampaignWatcher, Dropped, EventHub
from outrider.kernel.streams.watched_campaigns import WatchedCampaigns, watch_all
from outrider.kernel.transactions import phases
from outrider.limits.kernel import Limits
from outrider.ports.store import Announced, Result, Store, Transaction, ask
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.store_suite.workshop import NOON, Workshop
from tests.support.controls import until
from tests.support.eventually import observed_for

POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)
QUICK = Limits(event_poll_seconds=0.02, store_backoff_seconds=0.05)
NEVER_POLLS = Limits(event_poll_seconds=3_600, store_backoff_seconds=0.05)
AT_ONCE_SECONDS = 60
PATIENCE_SECONDS = 60


@dataclass
class Counted:
    """A store that counts what is read through it, and can be told to fail."""

    store: Store
    reads: int = 0
    broken: list[StoreUnavailable] = field(default_factory=list)

    @property
    def scheme(self) -> str:
        return self.store.scheme

    async def read(self, transaction: Transaction[Result]) -> Result:
        self.reads += 1
        if self.broken:
            raise self.broken.pop()
        return await self.store.read(transaction)

    async def write(self, transaction: Transaction[Result]) -> Result:
        return await self.store.write(transaction)

    async def announcements(self, of: Announced) -> AsyncIterator[None]:  # noqa: ARG002
        """Nothing: these tests wake the hub themselves."""
        return
        yield

    async def migrate(self) -> list[str]:
        raise NotImplementedError

    async def verify_schema(self) -> None:
        raise NotImplementedError

    async def ping(self) -> None:
        raise NotImplementedError

    async def place(self) -> DatabasePlace:
        raise NotImplementedError

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        raise NotImplementedError

    def give_way(self, while_true: Callable[[], bool]) -> None:
        raise NotImplementedError

    async def forget_removed(self) -> bool:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


@asynccontextmanager
async def running(hub: EventHub) -> AsyncIterator[EventHub]:
    task = asyncio.create_task(hub.run())
    try:
        yield hub
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task


async def campaign(store: Store) -> CampaignId:
    return await Workshop(store).campaign(1)


async def tell(store: Store, campaign_id: CampaignId, times: int = 1) -> int:
    """Append events; the last one's sequence."""
    for _ in range(times):
        sequence = await store.write(
            phases.append_event(campaign_id, "campaign_progress", LAUNCH, {}, NOON)
        )
    return sequence


async def read_on(watcher: CampaignWatcher, seen: list[int]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            seen.append((await watcher.next()).sequence)


async def sequences(watcher: CampaignWatcher, until: int) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not seen or seen[-1] < until:
            seen.append((await watcher.next()).sequence)
    return seen


# Order


@pytest.mark.parametrize("replay_events", [500, 3])
async def test_there_is_no_gap_and_no_repeat_between_what_was_missed_and_what_comes(
    store: Store, replay_events: int
) -> None:
    limits = Limits(event_poll_seconds=0.005, replay_events=replay_events)
    campaign_id = await campaign(store)
    await tell(store, campaign_id, 20)
    last = 320
    async with running(EventHub(store, limits)) as hub, asyncio.TaskGroup() as group:

        async def write() -> None:
            for _ in range(last - 20):
                await tell(store, campaign_id)
                hub.wake()

        async def watch(after: int, delay_seconds: float) -> list[int]:
            # Everybody joins at another moment of the writing, some before it began.
            await asyncio.sleep(delay_seconds)
            async with hub.watch(campaign_id, after) as watcher:
                return await sequences(watcher, last)

        watching = {
            after: group.create_task(watch(after, number * 0.03))
            for number, after in enumerate([0, 5, 19, 20, 25, 7, 60, 100, 1])
        }
        group.create_task(write())
    for after, seen in watching.items():
        assert seen.result() == list(range(after + 1, last + 1))


async def test_a_watcher_that_asks_for_the_future_waits_for_it(store: Store) -> None:
    campaign_id = await campaign(store)
    async with running(EventHub(store, QUICK)) as hub, hub.watch(campaign_id, 3) as watcher:
        await tell(store, campaign_id, 5)
        assert await sequences(watcher, 5) == [4, 5]


async def test_events_that_were_pruned_leave_a_gap_and_nothing_waits_for_them(
    store: Store,
) -> None:
    campaign_id = await campaign(store)
    async with running(EventHub(store, QUICK)) as hub:
        async with hub.watch(campaign_id, 0) as watcher:
            await tell(store, campaign_id, 4)
            assert await sequences(watcher, 4) == [1, 2, 3, 4]

            def prune() -> Transaction[None]:
                yield from ask("prune_progress", campaign_id=campaign_id, phase=LAUNCH, before=4)

            await store.write(prune())
            await tell(store, campaign_id)
            assert await sequences(watcher, 5) == [5]
        async with hub.watch(campaign_id, 0) as late:
            assert await sequences(late, 5) == [4, 5]


async def test_campaigns_are_not_mixed_up(store: Store) -> None:
    one, other = await campaign(store), await campaign(store)
    async with (
        running(EventHub(store, QUICK)) as hub,
        hub.watch(one, 0) as watcher,
        hub.watch(other, 0) as second,
    ):
        await tell(store, one, 3)
        await tell(store, other, 2)
        assert await sequences(watcher, 3) == [1, 2, 3]
        assert await sequences(second, 2) == [1, 2]


# Many watchers, slow ones, and those that leave


async def test_a_slow_watcher_is_dropped_and_the_others_do_not_notice(store: Store) -> None:
    limits = Limits(event_poll_seconds=0.02, watcher_events=5)
    campaign_id = await campaign(store)
    async with running(EventHub(store, limits)) as hub:
        async with hub.watch(campaign_id, 0) as slow, hub.watch(campaign_id, 0) as quick:
            await tell(store, campaign_id)
            assert (await slow.next()).sequence == (await quick.next()).sequence == 1
            for sequence in range(2, 21):
                await tell(store, campaign_id)
                hub.wake()
                assert (await quick.next()).sequence == sequence
            seen: list[int] = []
            with pytest.raises(Dropped):
                await read_on(slow, seen)
            # The first event may have taken a place too: it was read again, and came.
            assert seen in ([2, 3, 4, 5], [2, 3, 4, 5, 6]), "what was kept is told, in order"
            with pytest.raises(Dropped):
                await slow.next()
        # Its client comes back with the last sequence it saw, and misses nothing.
        async with hub.watch(campaign_id, seen[-1]) as again:
            assert await sequences(again, 20) == list(range(seen[-1] + 1, 21))


async def read_all(
    watched: WatchedCampaigns, seen: dict[CampaignId, list[int]], *, endlessly: bool = False
) -> None:
    while True:
        for campaign_id, event in await watched.next(set()) or []:
            seen[campaign_id].append(event.sequence)
        if not endlessly:
            return


async def test_a_client_too_slow_for_one_of_many_campaigns_is_dropped_from_all(
    store: Store,
) -> None:
    limits = Limits(event_poll_seconds=0.02, watcher_events=5)
    busy, quiet = await campaign(store), await campaign(store)
    seen: dict[CampaignId, list[int]] = {busy: [], quiet: []}
    async with running(EventHub(store, limits)) as hub, hub.watch(busy, 0) as quick:
        async with watch_all(hub, {busy: 0, quiet: 0}) as watched:
            await tell(store, busy)
            await tell(store, quiet)
            while not all(seen.values()):
                await read_all(watched, seen)
            for _ in range(20):
                await tell(store, busy)
                hub.wake()
            assert await sequences(quick, 21) == list(range(1, 22))
            with pytest.raises(Dropped):
                await read_all(watched, seen, endlessly=True)
        assert hub.watchers == 1
        assert seen[busy] == list(range(1, len(seen[busy]) + 1)), "what was kept is told, in order"
        assert seen[quiet] == [1]
        # Its client comes back with where it stood, and misses nothing.
        async with watch_all(hub, {busy: seen[busy][-1], quiet: 1}) as watched:
            while len(seen[busy]) < 21:
                await read_all(watched, seen)
            assert seen[busy] == list(range(1, 22))


async def test_many_campaigns_are_watched_until_the_end_is_near(store: Store) -> None:
    ids = [await campaign(store) for _ in range(3)]
    async with (
        running(EventHub(store, QUICK)) as hub,
        watch_all(hub, dict.fromkeys(ids, 0)) as watched,
    ):
        near = asyncio.create_task(asyncio.sleep(0))
        await near
        assert await watched.next({near}) is None
        await tell(store, ids[1])
        endless = asyncio.create_task(asyncio.sleep(3_600))
        found = await watched.next({endless})
        assert found is not None
        assert [(owner, event.sequence) for owner, event in found] == [(ids[1], 1)]
        endless.cancel()


async def test_two_hundred_watchers_of_a_campaign_cost_no_more_reads_than_one(
    store: Store,
) -> None:
    campaign_id = await campaign(store)
    counted = Counted(store)
    async with running(EventHub(counted, NEVER_POLLS)) as hub, AsyncExitStack() as stack:
        watchers = [await stack.enter_async_context(hub.watch(campaign_id, 0)) for _ in range(200)]
        assert counted.reads == 1, "joining a watched campaign reads nothing"
        assert hub.watchers == 200
        await tell(store, campaign_id)
        hub.wake()
        # Everybody replays once by themselves.
        await asyncio.gather(*(watcher.next() for watcher in watchers))
        await until(lambda: hub._channels[campaign_id].position == 1)
        for sequence in range(2, 7):
            before = counted.reads
            await tell(store, campaign_id)
            hub.wake()
            told = await asyncio.gather(*(watcher.next() for watcher in watchers))
            assert {event.sequence for event in told} == {sequence}
            assert counted.reads - before == 2, "how far each campaign is, and what is new in this"
        before = counted.reads
        hub.wake()
        await until(lambda: counted.reads > before)
        assert counted.reads == before + 1, "a wake for nothing reads how far each campaign is"
    assert hub.watchers == 0


async def test_without_watchers_nothing_is_read_and_nothing_is_kept(store: Store) -> None:
    campaign_id = await campaign(store)
    counted = Counted(store)
    hub = EventHub(counted, QUICK)
    async with running(hub):
        async with hub.watch(campaign_id, 0), hub.watch(campaign_id, 0):
            assert list(hub._channels) == [campaign_id]
        with pytest.raises(RuntimeError, match="client went away"):
            async with hub.watch(campaign_id, 0):
                raise RuntimeError("client went away")
        assert not hub._channels
        await tell(store, campaign_id)
        before = counted.reads
        hub.wake()
        await observed_for(5 * QUICK.event_poll_seconds)
        assert counted.reads == before


async def test_a_watcher_that_joins_while_the_last_one_leaves_misses_nothing(store: Store) -> None:
    campaign_id = await campaign(store)
    async with running(EventHub(store, QUICK)) as hub:

        async def come_and_go(after: int) -> int:
            async with hub.watch(campaign_id, after) as watcher:
                return (await watcher.next()).sequence

        for sequence in range(1, 21):
            waiting = [asyncio.create_task(come_and_go(sequence - 1)) for _ in range(3)]
            await tell(store, campaign_id)
            hub.wake()
            assert await asyncio.gather(*waiting) == [sequence] * 3
        assert not hub._channels


async def test_a_wait_that_is_given_up_loses_no_event(store: Store) -> None:
    campaign_id = await campaign(store)
    async with running(EventHub(store, QUICK)) as hub, hub.watch(campaign_id, 0) as watcher:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await watcher.next()
        await tell(store, campaign_id, 3)
        assert await sequences(watcher, 3) == [1, 2, 3]


async def test_a_brief_outage_of_the_store_loses_no_event(store: Store) -> None:
    campaign_id = await campaign(store)
    counted = Counted(store)
    async with running(EventHub(counted, QUICK)) as hub, hub.watch(campaign_id, 0) as watcher:
        await tell(store, campaign_id)
        assert await sequences(watcher, 1) == [1]
        counted.broken = [StoreUnavailable("gone") for _ in range(3)]
        await tell(store, campaign_id, 2)
        assert await sequences(watcher, 3) == [2, 3]
        assert not counted.broken


# What Postgres announces


@asynccontextmanager
async def listening(database: str) -> AsyncIterator[tuple[EventHub, Store, CampaignId]]:
    """A hub that never polls, and whose ear is at the database's."""
    store = make_store(database)
    await store.migrate()
    campaign_id = await campaign(store)
    try:
        async with running(EventHub(store, NEVER_POLLS)) as hub:
            await heard_by(database, 1)
            yield hub, store, campaign_id
    finally:
        await store.close()


async def listeners(database: str) -> list[int]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE 'LISTEN%'"
        )
        return [row[0] for row in rows]
    finally:
        await connection.close()


async def heard_by(database: str, count: int, *, but: int | None = None) -> int:
    """Wait until so many connections listen; one of their process ids."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [pid for pid in await listeners(database) if pid != but]
            if len(found) == count:
                return found[0] if found else 0
            await asyncio.sleep(0.02)


async def at_once(hearing: Awaitable[list[int]]) -> list[int]:
    async with asyncio.timeout(AT_ONCE_SECONDS):
        return await hearing


@POSTGRES
async def test_an_event_of_another_process_wakes_the_hub_long_before_its_poll(
    database: str,
) -> None:
    other = make_store(database)
    async with listening(database) as (hub, _, campaign_id), hub.watch(campaign_id, 0) as watcher:
        for sequence in range(1, 6):
            await tell(other, campaign_id)
            assert await at_once(sequences(watcher, sequence)) == [sequence]
    await other.close()


@POSTGRES
async def test_a_hub_whose_listening_connection_is_killed_listens_again(database: str) -> None:
    other = make_store(database)
    async with listening(database) as (hub, _, campaign_id), hub.watch(campaign_id, 0) as watcher:
        await tell(other, campaign_id)
        assert await at_once(sequences(watcher, 1)) == [1]
        ear = await heard_by(database, 1)
        connection = await asyncpg.connect(database)
        assert await connection.fetchval("SELECT pg_terminate_backend($1)", ear)
        # Told to nobody: the hub looks for itself once it listens again.
        await tell(other, campaign_id)
        await connection.close()
        assert await at_once(sequences(watcher, 2)) == [2]
        await heard_by(database, 1, but=ear)
        await tell(other, campaign_id)
        assert await at_once(sequences(watcher, 3)) == [3]
    await other.close()


@POSTGRES
async def test_a_connection_that_dies_before_it_listens_is_tried_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = asyncpg.Connection.add_listener
    dead: list[str] = []

    async def dies_first(
        self: "asyncpg.Connection[asyncpg.Record]", channel: str, callback: object
    ) -> None:
        if not dead:
            dead.append(channel)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle")
        await listen(self, channel, callback)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncpg.Connection, "add_listener", dies_first)
    other = make_store(database)
    async with listening(database) as (hub, _, campaign_id):
        assert dead == [Announced.EVENTS.value]
        async with hub.watch(campaign_id, 0) as watcher:
            await tell(other, campaign_id)
            assert await at_once(sequences(watcher, 1)) == [1]
    await other.close()


@POSTGRES
async def test_a_burst_of_announcements_wakes_the_listener_at_least_once(database: str) -> None:
    other = PostgresStore(database)
    async with listening(database) as (hub, _, campaign_id), hub.watch(campaign_id, 0) as watcher:

        def burst() -> Transaction[int]:
            sequence = 0
            for _ in range(1_500):
                sequence = yield from phases.append_event(
                    campaign_id, "campaign_progress", LAUNCH, {}, NOON
                )
            return sequence

        last = await other.write(burst())
        # More than are kept of a watcher that does not read meanwhile: this one does.
        seen = await at_once(sequences(watcher, 500))
        while seen[-1] < last:
            seen += await at_once(sequences(watcher, min(seen[-1] + 100, last)))
        assert seen == list(range(1, last + 1))
    await other.close()


@POSTGRES
async def test_a_hub_that_stops_leaves_no_connection_behind(database: str) -> None:
    async with listening(database):
        pass
    await heard_by(database, 0)
