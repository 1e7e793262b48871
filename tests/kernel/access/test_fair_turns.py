"""Fair turns: a workspace has its share, and its own line to wait in. Audit line X5."""

import asyncio

import pytest

from outrider.domain.errors import Overloaded
from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.kernel.access.fair_turns import FairTurns

HOG = Scope(TenantId("t1"), WorkspaceId("hog"))
OTHER = Scope(TenantId("t2"), WorkspaceId("other"))
THIRD = Scope(TenantId("t3"), WorkspaceId("third"))


class Bench:
    """Workers that hold their turns until they are let go, in the order in which they got them."""

    def __init__(self, turns: FairTurns) -> None:
        self._turns = turns
        self._released: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.began: list[str] = []

    async def ask(self, name: str, scope: Scope) -> None:
        self._released[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._work(name, scope))
        await self.settle()

    async def finish(self, name: str) -> None:
        self._released[name].set()
        await self.tasks[name]
        await self.settle()

    @staticmethod
    async def settle() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _work(self, name: str, scope: Scope) -> None:
        async with self._turns.turn(scope):
            self.began.append(name)
            await self._released[name].wait()


async def test_a_workspace_has_no_more_turns_than_its_share() -> None:
    """X5: what one workspace asks for beyond its share waits, and leaves room for another."""
    bench = Bench(FairTurns("reads", total=3, each=2))
    for name in ("a", "b", "c"):
        await bench.ask(name, HOG)
    assert bench.began == ["a", "b"]
    await bench.ask("other", OTHER)
    assert bench.began == ["a", "b", "other"]
    await bench.finish("a")
    assert bench.began[-1] == "c"
    for name in ("b", "c", "other"):
        await bench.finish(name)


async def test_waiting_requests_are_served_workspace_by_workspace() -> None:
    """X5: a long line of one workspace costs another one turn, not the whole line."""
    bench = Bench(FairTurns("reads", total=1, each=1))
    for name in ("a", "b", "c"):
        await bench.ask(name, HOG)
    await bench.ask("other", OTHER)
    await bench.ask("third", THIRD)
    for name in ("a", "b", "other", "third", "c"):
        await bench.finish(name)
    assert bench.began == ["a", "b", "other", "third", "c"]


async def test_a_line_that_is_full_says_when_to_come_again() -> None:
    bench = Bench(FairTurns("reads", total=1, each=1, waiting=1))
    await bench.ask("a", HOG)
    await bench.ask("b", HOG)
    await bench.ask("c", HOG)
    with pytest.raises(Overloaded, match="this workspace has too many reads in progress") as full:
        await bench.tasks["c"]
    assert full.value.retry_after_seconds > 0
    await bench.ask("other", OTHER)
    for name in ("a", "b", "other"):
        await bench.finish(name)


async def test_a_caller_that_stops_waiting_leaves_no_turn_behind() -> None:
    bench = Bench(FairTurns("reads", total=1, each=1))
    await bench.ask("a", HOG)
    await bench.ask("b", HOG)
    bench.tasks["b"].cancel()
    await bench.settle()
    await bench.ask("other", OTHER)
    await bench.finish("a")
    assert bench.began == ["a", "other"]
    await bench.finish("other")


async def test_a_turn_that_comes_as_its_taker_leaves_is_passed_on() -> None:
    turns = FairTurns("reads", total=1, each=1)
    bench = Bench(turns)
    async with turns.turn(HOG):
        await bench.ask("b", HOG)
        await bench.ask("other", OTHER)
    # The turn has been given to `b`, which has not run since.
    bench.tasks["b"].cancel()
    await bench.settle()
    assert bench.began == ["other"]
    await bench.finish("other")
