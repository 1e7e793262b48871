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
        self._queues: OrderedDict[Scope, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """Hold a turn for this workspace; Overloaded if its queue is full."""
        await self._take(scope)
        try:
            yield
        finally:
            self._give_back(scope)

    async def _take(self, scope: Scope) -> None:
        if scope not in self._queues and self._has_room(scope):
            self._taken[scope] += 1
            return
        queue = self._queues.setdefault(scope, deque())
        if self._waiting_most is not None and len(queue) >= self._waiting_most:
            raise Overloaded(
                f"this workspace has too many {self._what} in progress", TURNS_RETRY_SECONDS
            )
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(mine)
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
        queue = self._queues.get(scope)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[scope]

    def _call_next(self) -> None:
        """Grant the next turn; a workspace that got one moves to the end of the round."""
        while scope := next((each for each in self._queues if self._has_room(each)), None):
            queue = self._queues[scope]
            waiter = queue.popleft()
            if queue:
                self._queues.move_to_end(scope)
            else:
                del self._queues[scope]
            if not waiter.done():
                self._taken[scope] += 1
                waiter.set_result(None)
