"""Groups of results on their way at once: whoever waits hears when all of its own are committed."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from outrider.domain.call_results import Progress
from outrider.domain.errors import StoreError, StoreRefused, StoreUnavailable
from outrider.domain.ids import Fence, JobId, OutboxId
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.limits.kernel import Limits
from outrider.ports.stages import Unobserved
from outrider.ports.store import Store, Transaction
from outrider.system import SystemClock
from tests.support.foundations import foundation

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

    def begin(self, outbox_id: OutboxId, job_id: JobId, fence: Fence) -> None:
        raise AssertionError(f"the closer begins no call: {outbox_id}, {job_id}, {fence}")

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        self.ended += outbox_ids

    def forget(self, job_id: JobId, fence: Fence) -> None:
        raise AssertionError(f"the closer holds no job: {job_id}, {fence}")

    def begun(self) -> None:
        return None

    def close(self) -> None:
        pass


def closed(name: str) -> ClosedAttempt:
    return ClosedAttempt(OutboxId(name), 1, Fence(1), datetime.now(UTC), ACCEPTED)


@asynccontextmanager
async def closing(
    limits: Limits = LIMITS, journal: RememberedCalls | None = None, *, beside: bool = False
) -> AsyncIterator[tuple[ResultCloser, HeldStore]]:
    """`beside`: single messages go out here too."""
    store = HeldStore()
    way = RightOfWay(SystemClock(), limits)
    if beside:
        way.seen()
    closer = ResultCloser(
        foundation(cast("Store", store), limits=limits),
        Unobserved(),
        journal or RememberedCalls(),
        way,
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


async def test_a_waiter_resumes_only_when_earlier_groups_are_committed_too() -> None:
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


async def test_only_the_waiters_of_a_group_learn_that_it_cannot_be_committed() -> None:
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


class RefusingStore:
    """Takes everything but one item, whoever else is in its group."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.taken: list[str] = []

    async def write(self, script: Transaction[None]) -> None:
        window = next(script).window
        script.close()
        assert window is not None
        names = [str(each) for each in window["id"]]
        if self.refused in names:
            raise StoreRefused("a constraint says no")
        self.taken += names


async def test_a_result_that_the_store_refuses_affects_no_other_and_ends_no_loop() -> None:
    """The loop died of it, and with it the worker."""
    store, journal = RefusingStore("c"), RememberedCalls()
    closer = ResultCloser(
        foundation(cast("Store", store), limits=LIMITS),
        Unobserved(),
        journal,
        RightOfWay(SystemClock(), LIMITS),
    )
    running = asyncio.create_task(closer.run())
    try:
        for name in "abcde":
            closer.put(closed(name)._replace(job_id=JobId("bad" if name == "c" else "good")))
        good = asyncio.create_task(closer.barrier(JobId("good")))
        with pytest.raises(StoreRefused):
            await closer.barrier(JobId("bad"))
        await good
        assert sorted(store.taken) == ["a", "b", "d", "e"]
        assert sorted(journal.ended) == ["a", "b", "d", "e"], "nobody knows the end of that one"
        closer.put(closed("f"))
        await closer.barrier()
        assert store.taken[-1] == "f"
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})


class FailingStore:
    """Fails for as many times as it says, whatever it is asked; then takes everything."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.taken: list[str] = []

    async def write(self, script: Transaction[None]) -> None:
        window = next(script).window
        script.close()
        assert window is not None
        if self.left:
            self.left -= 1
            raise StoreError("permission denied for table channel_outbox")
        self.taken += [str(each) for each in window["id"]]


@pytest.mark.parametrize("patience_seconds", [60.0, -1.0])
async def test_a_brief_failure_of_the_store_loses_no_result(patience_seconds: float) -> None:
    """What a provider had said was given up one by one, as if the store had refused each; past all
    patience, whatever it takes now is not."""
    limits = replace(LIMITS, close_backoff_seconds=0.0, close_patience_seconds=patience_seconds)
    store = FailingStore(3 if patience_seconds > 0 else 1)
    closer = ResultCloser(
        foundation(cast("Store", store), limits=limits),
        Unobserved(),
        RememberedCalls(),
        RightOfWay(SystemClock(), limits),
    )
    running = asyncio.create_task(closer.run())
    try:
        for name in ("one", "two", "three"):
            closer.put(closed(name)._replace(job_id=JobId("job")))
        await closer.barrier(JobId("job"))
        assert sorted(store.taken) == ["one", "three", "two"]
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_single_message_is_closed_however_much_campaigns_have_to_close() -> None:
    async with closing() as (closer, store):
        for name in ("one", "two", "three"):
            closer.put(closed(name))
            await store.until_groups(min(len(store.groups) + 1, 2))
        closer.put(closed("message"), first=True)
        single = asyncio.create_task(closer.barrier(first=True))
        await store.until_groups(3)
        assert store.groups[2] == ["message"]
        store.ends[2].set_result(None)
        await single
        assert not store.ends[0].done()


async def test_beside_single_messages_a_group_is_divided_and_its_waiter_waits_for_all() -> None:
    limits = replace(LIMITS, beside_lanes_items=2, beside_lanes_seconds=3_600.0)
    async with closing(limits, beside=True) as (closer, store):
        for name in ("a", "b", "c"):
            closer.put(closed(name))
        waiting = asyncio.create_task(closer.barrier())
        await store.until_groups(1)
        assert store.groups == [["a", "b"]]
        store.ends[0].set_result(None)
        await store.until_groups(2)
        assert store.groups[1] == ["c"]
        assert not waiting.done()
        store.ends[1].set_result(None)
        await waiting


async def test_a_waiter_does_not_wait_for_what_was_handed_over_later() -> None:
    """While campaigns handed over more than was closed, no job of theirs could ever settle."""
    limits = replace(
        LIMITS, beside_lanes_items=2, beside_lanes_seconds=3_600.0, close_groups_in_parallel=1
    )
    async with closing(limits, beside=True) as (closer, store):
        for name in ("a", "b", "c"):
            closer.put(closed(name))
        waiting = asyncio.create_task(closer.barrier())
        await store.until_groups(1)
        for name in ("d", "e", "f"):
            closer.put(closed(name))
        store.ends[0].set_result(None)
        await store.until_groups(2)
        assert store.groups[1] == ["c", "d"]
        store.ends[1].set_result(None)
        async with asyncio.timeout(10):
            await waiting
        await store.until_groups(3)
        assert not store.ends[2].done()
