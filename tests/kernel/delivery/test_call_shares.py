"""Call shares: all workers together keep to the connections of a target, from the first call on."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from outrider.domain.ids import WorkerId
from outrider.domain.states import Channel
from outrider.domain.targets import TargetPolicy
from outrider.gateways.smtp import SmtpGateway, mail_server
from outrider.kernel.delivery.call_shares import SHARES_LAST, CallShares
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import DoorKey
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.launches import launch, message, until_terminal
from tests.support.domain_mail import NAME, DomainServer, people_at, shaped
from tests.support.foundations import foundation
from tests.support.whole_runs import START, working

KEY = DoorKey("mail", "smtp://relay")
GATEWAY = SmtpGateway(mail_server("smtp://127.0.0.1:9"), connections=8)


class Worker:
    def __init__(self, store: Store, clock: FakeClock, name: str) -> None:
        self.store, self.clock = store, clock
        self.shares = CallShares(
            foundation(store, clock=clock), lambda _: TargetPolicy(connections=6), WorkerId(name)
        )
        self.slots = self.shares.slots(KEY, GATEWAY)

    async def looks(self) -> int:
        state = await self.store.read(targets.target_state(KEY))
        await self.shares.is_full(KEY, GATEWAY, state, self.clock.now())
        return self.slots.capacity


async def test_a_worker_has_no_calls_before_it_knows_its_share(store: Store) -> None:
    one = Worker(store, FakeClock(START), "a")
    assert one.slots.capacity == 0
    assert not one.shares.is_known(KEY, one.clock.now())
    assert await one.looks() == 6
    assert one.shares.is_known(KEY, one.clock.now())


async def test_workers_divide_the_connections_and_those_of_a_dead_one_are_free(
    store: Store,
) -> None:
    clock = FakeClock(START)
    one, other = Worker(store, clock, "a"), Worker(store, clock, "b")
    assert (await one.looks(), await other.looks()) == (6, 0)
    clock.advance(1)
    assert (await one.looks(), await other.looks()) == (3, 3)
    for _ in range(SHARES_LAST):
        clock.advance(1)
        await one.looks()
    assert await one.looks() == 6, "the other one has not been heard of"


async def test_calls_in_flight_keep_their_connections_however_long_they_take(store: Store) -> None:
    clock = FakeClock(START)
    one, other = Worker(store, clock, "a"), Worker(store, clock, "b")
    await one.looks()
    for _ in range(5):
        assert one.slots.try_enter(first=False)
    keeping = asyncio.create_task(one.shares.keep())
    try:
        for _ in range(2 * SHARES_LAST):
            await asyncio.sleep(0)
            clock.advance(1.01)
            for _ in range(50):
                await asyncio.sleep(0.002)
            assert await other.looks() <= 1
        for _ in range(5):
            one.slots.leave()
        clock.advance(1.01)
        await one.looks()
        assert await other.looks() == 3
    finally:
        keeping.cancel()


async def test_two_workers_together_keep_to_the_connections_of_a_target(
    database: str, tmp_path: Path
) -> None:
    server = DomainServer()
    server.seconds = {"fast.test": 0.03}
    async with AsyncExitStack() as stack:
        outrider = await stack.enter_async_context(
            shaped(database, tmp_path, server, connections=3, concurrency=6)
        )
        run_id = await launch(
            outrider, [message(Channel.EMAIL, NAME)], people_at("fast.test", 60), batch_size=10
        )
        for name in ("a", "b"):
            await stack.enter_async_context(working(outrider, worker_id=WorkerId(name)))
        accounting = await until_terminal(outrider, run_id, seconds=60)
        assert accounting.sent == 60
    assert 2 <= server.most_at_once["fast.test"] <= 3
