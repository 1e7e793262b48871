"""The presence keeper: a process is seen while it runs, and silent when it does not report."""

from datetime import timedelta

from outrider.domain.ids import WorkerId
from outrider.kernel.transactions import workers
from outrider.kernel.transactions.workers import SeenWorker, WorkerCard
from outrider.kernel.work.presence_keeper import PresenceKeeper
from outrider.kernel.work.queue_turns import WorkFilter
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation

CARD = WorkerCard(WorkerId("host/boot/7/1"), "server", "host", 7, "1.0", "local")


async def seen(store: Store) -> list[SeenWorker]:
    return await store.read(workers.page("", 10))


async def test_a_worker_says_what_it_takes_and_says_when_it_ends(store: Store) -> None:
    keeper = PresenceKeeper(foundation(store), CARD)
    await keeper.beat_once()
    (found,) = await seen(store)
    assert (found.card, found.takes_jobs) == (CARD, False)
    mine = WorkFilter(frozenset({"sms.main"}), "batch")
    async with keeper.working(CARD.id, mine):
        (found,) = await seen(store)
        assert found.takes("sms.main", "batch")
        assert not found.takes("sms.main", "realtime")
        assert not found.takes("mail", "batch")
    assert await seen(store) == []


async def test_a_process_silent_for_long_that_holds_nothing_is_forgotten(store: Store) -> None:
    clock = FakeClock()
    base = foundation(store, clock=clock)
    gone = CARD._replace(id=WorkerId("host/boot/8/1"))
    await PresenceKeeper(base, gone).beat_once()
    clock.advance(base.limits.worker_forget_seconds + 1)
    keeper = PresenceKeeper(base, CARD)
    await keeper.beat_once()
    assert [each.card.id for each in await seen(store)] == [CARD.id]
    since = clock.now() - timedelta(seconds=base.limits.worker_silent_seconds)
    assert len(await store.read(workers.seen_since(since, 10))) == 1
