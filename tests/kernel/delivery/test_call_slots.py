"""Call slots: so many calls at once, single messages first, and otherwise as they came."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from outrider.kernel.delivery.call_slots import CallSlots


async def test_a_single_message_goes_before_campaigns_that_came_earlier() -> None:
    slots, served = CallSlots(1), []

    async def call(name: str, *, first: bool) -> None:
        await slots.enter(first=first)
        served.append(name)
        slots.leave()

    await slots.enter(first=False)
    waiting = [asyncio.create_task(call(f"campaign {n}", first=False)) for n in range(2)]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(call("intent", first=True)))
    await asyncio.sleep(0)
    slots.leave()
    await asyncio.gather(*waiting)
    assert served == ["intent", "campaign 0", "campaign 1"]


async def test_a_caller_that_stops_waiting_takes_no_slot() -> None:
    slots = CallSlots(1)
    await slots.enter(first=False)
    waiting = asyncio.create_task(slots.enter(first=True))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    slots.leave()
    assert slots.in_use == 0
    await slots.enter(first=False)
    assert slots.in_use == 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 20))
def test_there_are_never_more_at_once_than_the_current_capacity(
    sizes: list[int], callers: int
) -> None:
    async def scene() -> None:
        slots, most = CallSlots(1), 1

        async def call() -> None:
            while not await slots.enter(first=False):  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert slots.in_use <= most
            await asyncio.sleep(0)
            slots.leave()

        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(call())
            for size in sizes:
                # Those who are in stay in, so a smaller size counts from the next one on.
                most = max(size, slots.in_use)
                slots.resize(size)
                await asyncio.sleep(0)
            most = callers
            slots.resize(callers)
        assert slots.in_use == 0

    asyncio.run(scene())


async def test_no_caller_waits_for_slots_that_no_longer_exist() -> None:
    slots = CallSlots(1)
    await slots.enter(first=False)
    waiting = [asyncio.create_task(slots.enter(first=first)) for first in (True, False)]
    await asyncio.sleep(0)
    slots.resize(0)
    assert await asyncio.gather(*waiting) == [False, False]
    assert not await slots.enter(first=True)
    slots.leave()
    slots.resize(1)
    assert await slots.enter(first=False)
    assert slots.in_use == 1
