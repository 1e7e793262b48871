"""One address, one order: whatever routes its messages take, they are called one after another."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from outrider.domain.ids import OutboxId
from outrider.domain.message_content import Attachment, MessageContent
from outrider.domain.submission import Contract, OneShot
from outrider.kernel.delivery.lane_backlog import AddressTurns, Backlog, Due
from outrider.kernel.transactions.submissions import DueItem

CONTRACT = Contract("t", "noop", "noop:", "realtime", OneShot(), frozenset())
NOW = datetime(2026, 11, 17, tzinfo=UTC)


def due(name: str, address: str | None = "a@example.test", *, files: int = 0) -> Due:
    row: dict[str, Any] = dict.fromkeys(DueItem._fields)
    row |= {"id": OutboxId(name), "address": address, "channel": "email", "created_at": NOW}
    attachments = tuple(Attachment("f", "text/plain", "aGk=") for _ in range(files))
    return Due(DueItem(**row), CONTRACT, MessageContent(None, "Hi", attachments))


def names(taken: list[Due]) -> list[str]:
    return [each.row.id for each in taken]


class Drained:
    times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def drained() -> Drained:
    return Drained()


@pytest.fixture
def backlog(drained: Drained) -> Backlog:
    return Backlog(AddressTurns(), 2, drained)


def test_of_one_address_only_the_first_may_be_taken_until_it_has_ended(backlog: Backlog) -> None:
    backlog.put([due("1"), due("2"), due("3", "b@example.test"), due("4")])
    assert backlog.waiting() == 2
    assert names(backlog.take(10)) == ["1", "3"]
    assert backlog.take(10) == []
    backlog.ended(OutboxId("1"))
    assert names(backlog.take(10)) == ["2"]
    backlog.ended(OutboxId("2"))
    assert names(backlog.take(10)) == ["4"]


def test_an_address_is_the_same_in_any_case_and_another_one_on_another_channel(
    backlog: Backlog,
) -> None:
    backlog.put([due("1", "Ada@example.test"), due("2", "ada@EXAMPLE.test"), due("3", None)])
    assert names(backlog.take(10)) == ["1", "3"]


def test_clients_own_messages_do_not_wait_for_each_other(backlog: Backlog) -> None:
    backlog.put([Due(due(name).row, CONTRACT) for name in ("1", "2")])
    assert names(backlog.take(10)) == ["1", "2"]


def test_two_routes_of_a_lane_share_the_turns_of_an_address(drained: Drained) -> None:
    turns = AddressTurns()
    own, fallback = Backlog(turns, 2, drained), Backlog(turns, 2, drained)
    own.put([due("1")])
    fallback.put([due("2")])
    assert names(own.take(10)) == ["1"]
    assert fallback.waiting() == 0
    own.ended(OutboxId("1"))
    assert names(fallback.take(10)) == ["2"]


def test_a_closed_backlog_leaves_its_turns_to_the_others(drained: Drained) -> None:
    turns = AddressTurns()
    own, fallback = Backlog(turns, 2, drained), Backlog(turns, 2, drained)
    own.put([due("1"), due("2")])
    fallback.put([due("3")])
    own.put([due("4")])
    assert names(own.take(1)) == ["1"]
    own.close()
    assert fallback.waiting() == 0
    own.ended(OutboxId("1"))
    assert names(fallback.take(10)) == ["3"]
    fallback.ended(OutboxId("3"))
    assert own.waiting() == 0


def test_messages_with_files_go_a_few_at_a_time(backlog: Backlog) -> None:
    addresses = [f"{number}@example.test" for number in range(4)]
    backlog.put([due(each, each, files=1) for each in addresses] + [due("plain", "p@example.test")])
    assert names(backlog.take(10)) == [addresses[0], addresses[1], "plain"]
    assert names(backlog.take(10)) == addresses[2:]


def test_it_is_drained_when_what_was_taken_is_open_and_not_before(
    backlog: Backlog, drained: Drained
) -> None:
    backlog.put([due("1")])
    backlog.take(1)
    assert drained.times == 0
    backlog.opened()
    assert drained.times == 1
    backlog.ended(OutboxId("1"))
    assert drained.times == 2


async def test_a_caller_that_waits_for_more_is_woken_by_the_turn_of_an_address(
    backlog: Backlog,
) -> None:
    backlog.put([due("1"), due("2")])
    backlog.take(1)
    waiting = asyncio.create_task(backlog.more())
    await asyncio.sleep(0)
    backlog.ended(OutboxId("1"))
    assert await waiting
    assert names(backlog.take(1)) == ["2"]


async def test_a_closed_backlog_returns_nothing_more(backlog: Backlog) -> None:
    backlog.put([due("1")])
    backlog.close()
    assert not await backlog.more()
    assert len(backlog) == 0
