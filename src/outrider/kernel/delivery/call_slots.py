"""Call slots: limits this process's concurrent calls to a target, and decides which is next.

Single messages go before campaigns; otherwise first come, first served.
"""

import asyncio
from collections import deque
from contextlib import suppress


class CallSlots:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._first: deque[asyncio.Future[bool]] = deque()
        self._then: deque[asyncio.Future[bool]] = deque()

    def try_enter(self, *, first: bool) -> bool:
        """Take a slot if one is free and nobody is queued ahead of us."""
        if self.in_use < self.capacity and not self._first and (first or not self._then):
            self.in_use += 1
            return True
        return False

    async def enter(self, *, first: bool) -> bool:
        """Wait for a slot; `first` are served before the others. False: this process has no slots.

        Waiting longer would keep the job from checking again whether there are slots by now.
        """
        if self.try_enter(first=first):
            return True
        if self.capacity == 0:
            return False
        waiters = self._first if first else self._then
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiters.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                if turn.result():
                    self.leave()
            else:
                with suppress(ValueError):
                    waiters.remove(turn)
            raise

    def leave(self) -> None:
        self.in_use -= 1
        if self._first or self._then:
            self._serve()

    def resize(self, capacity: int) -> None:
        """Calls in progress keep their slots; new ones wait until enough are free. With a capacity
        of zero, nobody waits."""
        self.capacity = capacity
        self._serve()
        while capacity == 0 and (self._first or self._then):
            turn = (self._first or self._then).popleft()
            if not turn.done():
                turn.set_result(False)

    def _serve(self) -> None:
        while self.in_use < self.capacity and (self._first or self._then):
            turn = (self._first or self._then).popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(True)
