"""Groups of results on their way at once: whoever waits hears when all of its own are committed."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import Fence, OutboxId
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Progress, Verdict
from outrider.kernel.result_closer import ResultCloser
from outrider.kernel.transactions.ledger import ClosedAttempt
from outrider.ports.stages import Unobserved
from outrider.ports.store import Store, Transaction
from outrider.settings import Limits
from outrider.system import SystemClock

ACCEPTED = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
LIMITS = replace(Limits(), close_group_seconds=0.0, close_groups_in_parallel=2)


class HeldStore:
    """Commits each group when it is told to, or fails it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.ends: list[asyncio.Future[None]] = []
        self.came = asyncio.Event()

    async def write(self, script: Transaction[None]) -> None:
        window = next(script).window
        script.close()
        assert window is not None
        self.groups.append([str(each) for each in window["id"]])
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        self.came.set()
        await end

    async def until_groups(self, count: int) -> None:
        while len(self.groups) < count:
            self.came.clear()
            await self.came.wait()


class RememberedCalls:
    """A journal that says which calls it was told have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def begin(self, outbox_id: OutboxId) -> None:
        raise AssertionError(f"the closer begins no call: {outbox_id}")

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        self.ended += outbox_ids

    def begun(self) -> None:
        return None

    def close(self) -> None:
        pass


def closed(name: str) -> ClosedAttempt:
    return ClosedAttempt(OutboxId(name), 1, Fence(1), datetime.now(UTC), ACCEPTED)


@asynccontextmanager
async def closing(
    limits: Limits = LIMITS, journal: RememberedCalls | None = None
) -> AsyncIterator[tuple[ResultCloser, HeldStore]]:
    store = HeldStore()
    closer = ResultCloser(
        cast("Store", store), SystemClock(), limits, Unobserved(), journal or RememberedCalls()
    )
    running = asyncio.create_task(closer.run())
    try:
        yield closer, store
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_second_group_does_not_wait_for_the_first() -> None:
    async with closing() as (closer, store):
        closer.put(closed("one"))
        await store.until_groups(1)
        closer.put(closed("two"))
        await store.until_groups(2)
        assert store.groups == [["one"], ["two"]]


async def test_no_more_groups_are_on_their_way_than_allowed() -> None:
    async with closing() as (closer, store):
        for name in ("one", "two"):
            closer.put(closed(name))
            await store.until_groups(len(store.groups) + 1)
        closer.put(closed("three"))
        closer.put(closed("four"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(store.groups) == 2
        store.ends[0].set_result(None)
        await store.until_groups(3)
        assert store.groups[2] == ["four", "three"]


async def test_who_waits_hears_only_when_groups_that_left_before_are_committed_too() -> None:
    async with closing() as (closer, store):
        closer.put(closed("one"))
        await store.until_groups(1)
        closer.put(closed("two"))
        waiting = asyncio.create_task(closer.barrier())
        await store.until_groups(2)
        store.ends[1].set_result(None)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        store.ends[0].set_result(None)
        await waiting


async def test_a_group_that_cannot_be_committed_is_told_to_its_own_waiters_only() -> None:
    impatient = replace(LIMITS, close_patience_seconds=-1.0)
    async with closing(impatient) as (closer, store):
        closer.put(closed("one"))
        first = asyncio.create_task(closer.barrier())
        await store.until_groups(1)
        closer.put(closed("two"))
        second = asyncio.create_task(closer.barrier())
        await store.until_groups(2)
        store.ends[0].set_exception(StoreUnavailable("the store is gone"))
        store.ends[1].set_result(None)
        with pytest.raises(StoreUnavailable):
            await first
        await second


async def test_a_call_has_ended_in_the_journal_when_its_result_is_committed_and_not_before() -> (
    None
):
    journal = RememberedCalls()
    impatient = replace(LIMITS, close_patience_seconds=-1.0)
    async with closing(impatient, journal) as (closer, store):
        closer.put(closed("one"))
        first = asyncio.create_task(closer.barrier())
        await store.until_groups(1)
        closer.put(closed("two"))
        second = asyncio.create_task(closer.barrier())
        await store.until_groups(2)
        assert journal.ended == []
        store.ends[1].set_result(None)
        store.ends[0].set_exception(StoreUnavailable("the store is gone"))
        await second
        with pytest.raises(StoreUnavailable):
            await first
        # What was not committed may have to be told after this process's death.
        assert journal.ended == ["two"]
