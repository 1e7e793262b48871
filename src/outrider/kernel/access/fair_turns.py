"""Fair turns: bounded concurrency, in total and per workspace; further callers queue.

Waiting callers are served round-robin by workspace, so a long queue in one workspace delays no
other.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.domain.errors import Overloaded
from outrider.domain.ids import Scope
from outrider.limits.api import TURNS_RETRY_SECONDS


class FairTurns:
    def __init__(self, what: str, total: int, each: int, waiting: int | None = None) -> None:
        """`waiting`: how many callers of one workspace may queue; None means no limit."""
        self._what = what
        self._total = total
        self._each = each
        self._waiting_most = waiting
        self._taken: Counter[Scope] = Counter()
        self._lines: OrderedDict[Scope, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """Hold a turn for this workspace; Overloaded if its queue is full."""
        await self._take(scope)
        try:
            yield
        finally:
            self._give_back(scope)

    async def _take(self, scope: Scope) -> None:
        if scope not in self._lines and self._has_room(scope):
            self._taken[scope] += 1
            return
        line = self._lines.setdefault(scope, deque())
        if self._waiting_most is not None and len(line) >= self._waiting_most:
            raise Overloaded(
                f"this workspace has too many {self._what} in progress", TURNS_RETRY_SECONDS
            )
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                # The turn was granted at the same moment: pass it on.
                self._give_back(scope)
            else:
                self._leave(scope, mine)
            raise

    def _has_room(self, scope: Scope) -> bool:
        return self._taken.total() < self._total and self._taken[scope] < self._each

    def _give_back(self, scope: Scope) -> None:
        self._taken[scope] -= 1
        if not self._taken[scope]:
            del self._taken[scope]
        self._call_next()

    def _leave(self, scope: Scope, waiter: asyncio.Future[None]) -> None:
        line = self._lines.get(scope)
        if line is not None and waiter in line:
            line.remove(waiter)
            if not line:
                del self._lines[scope]

    def _call_next(self) -> None:
        """Grant the next turn; a workspace that got one moves to the end of the round."""
        while scope := next((each for each in self._lines if self._has_room(each)), None):
            line = self._lines[scope]
            waiter = line.popleft()
            if line:
                self._lines.move_to_end(scope)
            else:
                del self._lines[scope]
            if not waiter.done():
                self._taken[scope] += 1
                waiter.set_result(None)
