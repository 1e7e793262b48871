"""Campaigns begin nothing new while single messages are on their way, and wait only a moment."""

import asyncio
from dataclasses import replace

from outrider.domain.ids import OutboxId
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.limits.kernel import Limits
from outrider.system import SystemClock

FOR_GOOD = 3_600.0
PATIENT = replace(
    Limits(),
    right_of_way_seconds=FOR_GOOD,
    beside_lanes_seconds=FOR_GOOD,
    one_window_seconds=FOR_GOOD,
)
MESSAGE, ANOTHER = OutboxId("message"), OutboxId("another")


class Window:
    """One of a campaign's: begins in its turn, and ends when it is told to."""

    def __init__(self, way: RightOfWay) -> None:
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.written = asyncio.create_task(self._write(way))

    async def _write(self, way: RightOfWay) -> None:
        async with way.behind():
            self.begun.set()
            await self.end.wait()


def right_of_way(limits: Limits = PATIENT) -> RightOfWay:
    return RightOfWay(SystemClock(), limits)


async def all_had_their_turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_window_starts_when_the_message_before_it_is_open() -> None:
    way = right_of_way()
    way.enter([MESSAGE, ANOTHER])
    window = Window(way)
    way.leave([MESSAGE])
    await all_had_their_turn()
    assert not window.begun.is_set()
    way.leave([ANOTHER])
    await window.begun.wait()


async def test_a_window_waits_for_a_message_that_is_only_expected() -> None:
    way = right_of_way()
    way.seen()
    way.expect()
    window = Window(way)
    await all_had_their_turn()
    assert not window.begun.is_set()
    way.looked()
    await window.begun.wait()


async def test_a_window_waits_for_a_message_that_is_being_submitted() -> None:
    way = right_of_way()
    with way.submitting():
        assert way.is_taken
        window = Window(way)
        way.looked()
        await all_had_their_turn()
        assert not window.begun.is_set()
    assert not way.is_taken
    await window.begun.wait()


async def test_no_message_is_expected_if_none_came_lately() -> None:
    way = right_of_way()
    way.expect()
    await Window(way).begun.wait()


async def test_a_window_waits_only_briefly_however_many_messages_there_are() -> None:
    way = right_of_way(replace(PATIENT, right_of_way_seconds=0.01))
    way.enter([MESSAGE])
    window = Window(way)
    await all_had_their_turn()
    assert not window.begun.is_set()
    way.enter([ANOTHER])
    await window.begun.wait()


async def test_a_message_that_was_due_once_gets_no_other_due_time() -> None:
    way = right_of_way(replace(PATIENT, right_of_way_seconds=0.0))
    way.enter([MESSAGE])
    way.enter([ANOTHER])
    way.leave([ANOTHER])
    way.seen()
    await Window(way).begun.wait()


async def test_beside_messages_one_window_is_written_at_a_time() -> None:
    way = right_of_way()
    way.seen()
    first, second = Window(way), Window(way)
    await first.begun.wait()
    await all_had_their_turn()
    assert not second.begun.is_set()
    first.end.set()
    await second.begun.wait()


async def test_a_window_that_waits_for_something_itself_holds_up_no_other_for_long() -> None:
    way = right_of_way(replace(PATIENT, one_window_seconds=0.01))
    way.seen()
    first, second = Window(way), Window(way)
    await first.begun.wait()
    await second.begun.wait()
    assert not first.written.done()
    # Whoever went on without a turn leaves it to its owner.
    second.end.set()
    await second.written
    first.end.set()
    await first.written
    await Window(way).begun.wait()


async def test_without_messages_windows_are_written_at_once_and_side_by_side() -> None:
    way = right_of_way()
    first, second = Window(way), Window(way)
    await first.begun.wait()
    await second.begun.wait()
