"""Shared commits: everybody gets their own answer, whoever else was in the same commit."""

import asyncio
from collections.abc import Sequence

import pytest

from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.kernel.submissions.shared_commits import SharedCommits

OTHER = Scope(TenantId("other"), WorkspaceId("other"))


class Ledger:
    """Commits take until they may end, and some numbers are refused."""

    def __init__(self, refused: int | None = None, error: Exception | None = None) -> None:
        self.commits: list[tuple[Scope, list[int]]] = []
        self._refused = refused
        self._error = error or InvalidInput("no")
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()

    async def commit(self, scope: Scope, numbers: Sequence[int]) -> list[int]:
        self.commits.append((scope, list(numbers)))
        self.begun.set()
        await asyncio.sleep(0)
        await self.may_end.wait()
        if self._refused in numbers:
            raise self._error
        return [number * 10 for number in numbers]


async def test_the_first_is_written_at_once_and_the_others_share_the_next_commit() -> None:
    ledger = Ledger()
    ledger.may_end.clear()
    shared = SharedCommits(ledger.commit, most_items=100)
    first = asyncio.create_task(shared.put(DEFAULT_SCOPE, 0))
    await ledger.begun.wait()
    others = [asyncio.create_task(shared.put(DEFAULT_SCOPE, number)) for number in range(1, 50)]
    await asyncio.sleep(0)
    ledger.may_end.set()
    assert await first == 0
    assert await asyncio.gather(*others) == [number * 10 for number in range(1, 50)]
    assert [numbers for _, numbers in ledger.commits] == [[0], list(range(1, 50))]


async def test_a_commit_serves_no_more_than_its_limit_and_one_workspace() -> None:
    ledger = Ledger()
    shared = SharedCommits(ledger.commit, most_items=4)
    asked = [(scope, number) for number in range(10) for scope in (DEFAULT_SCOPE, OTHER)]
    answers = await asyncio.gather(*(shared.put(*each) for each in asked))
    assert answers == [number * 10 for _, number in asked]
    assert all(len(numbers) <= 4 for _, numbers in ledger.commits)


async def test_a_second_commit_starts_beside_the_first_once_enough_requests_wait() -> None:
    ledger = Ledger()
    ledger.may_end.clear()
    shared = SharedCommits(ledger.commit, most_items=100, at_once=2, company_items=3)
    asked = [asyncio.create_task(shared.put(DEFAULT_SCOPE, 0))]
    await ledger.begun.wait()
    for number in range(1, 9):
        asked.append(asyncio.create_task(shared.put(DEFAULT_SCOPE, number)))
        # Once for whoever asks, and once for whoever writes.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [numbers for _, numbers in ledger.commits] == [[0], [1, 2, 3]]
    ledger.may_end.set()
    assert await asyncio.gather(*asked) == [number * 10 for number in range(9)]
    assert [numbers for _, numbers in ledger.commits] == [[0], [1, 2, 3], [4, 5, 6, 7, 8]]


async def test_one_that_is_refused_is_refused_alone() -> None:
    ledger = Ledger(refused=3)
    shared = SharedCommits(ledger.commit, most_items=100)
    answers = await asyncio.gather(
        *(shared.put(DEFAULT_SCOPE, number) for number in range(6)), return_exceptions=True
    )
    assert [each for each in answers if not isinstance(each, Exception)] == [0, 10, 20, 40, 50]
    assert isinstance(answers[3], InvalidInput)


async def test_an_unavailable_store_is_not_asked_again_for_each_item() -> None:
    ledger = Ledger(refused=3, error=StoreUnavailable("gone"))
    shared = SharedCommits(ledger.commit, most_items=100)
    answers = await asyncio.gather(
        *(shared.put(DEFAULT_SCOPE, number) for number in range(6)), return_exceptions=True
    )
    assert all(isinstance(each, StoreUnavailable) for each in answers)
    assert len(ledger.commits) == 1


async def test_a_cancelled_commit_leaves_no_caller_waiting() -> None:
    ledger = Ledger()
    ledger.may_end.clear()
    shared = SharedCommits(ledger.commit, most_items=100)
    asked = [asyncio.create_task(shared.put(DEFAULT_SCOPE, number)) for number in range(3)]
    await ledger.begun.wait()
    for writing in shared._writing[DEFAULT_SCOPE]:
        writing.cancel()
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in answers)


async def test_a_caller_that_stops_waiting_does_not_affect_the_others() -> None:
    ledger = Ledger()
    ledger.may_end.clear()
    shared = SharedCommits(ledger.commit, most_items=100)
    asked = [asyncio.create_task(shared.put(DEFAULT_SCOPE, number)) for number in range(3)]
    await ledger.begun.wait()
    asked[1].cancel()
    ledger.may_end.set()
    assert await asked[0] == 0
    assert await asked[2] == 20
    with pytest.raises(asyncio.CancelledError):
        await asked[1]
