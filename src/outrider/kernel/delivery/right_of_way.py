"""The right of way: while a single message is on its way to its call, campaigns begin nothing new.

Both share an event loop, a writer and the machine's processors, and a message takes several short
steps through them: without it, a campaign's window would begin before each of those steps. Nobody
waits for long: a message has the right of way for a moment only, and so a campaign that gives way
goes on after a moment, however many messages there are.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from outrider.domain.ids import OutboxId
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock


class RightOfWay:
    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._seen_at = float("-inf")
        self._until = float("-inf")
        self._is_expected = False
        self._passing: set[OutboxId] = set()
        self._one_window = asyncio.Lock()
        self._free = asyncio.Event()
        self._free.set()

    @property
    def was_used_lately(self) -> bool:
        """Whether single messages go out here too: then campaigns keep their windows small."""
        since_seconds = self._clock.monotonic() - self._seen_at
        return since_seconds < self._limits.beside_lanes_seconds

    def expect(self) -> None:
        """Somebody said that there is work. Where messages came lately, it may be another one."""
        if self.was_used_lately:
            self._is_expected = True
            self._hold()

    def looked(self) -> None:
        """Whoever was expected has been found, or there was nobody."""
        self._is_expected = False
        self._let_go()

    def seen(self) -> None:
        """A single message goes out here, whether it is urgent or not."""
        self._seen_at = self._clock.monotonic()

    def enter(self, messages: Iterable[OutboxId]) -> None:
        self.seen()
        self._hold()
        self._passing.update(messages)

    def leave(self, messages: Iterable[OutboxId]) -> None:
        """They are open, or are not called now."""
        self._passing.difference_update(messages)
        self._let_go()

    @asynccontextmanager
    async def behind(self) -> AsyncIterator[None]:
        """What a campaign writes: behind the single messages that are on their way. Where there
        are such, one window is written at a time, so that the next one waits for that alone."""
        if not self.was_used_lately:
            yield
            return
        has_turn = await self._has_turn()
        try:
            await self._give_way()
            yield
        finally:
            if has_turn:
                self._one_window.release()

    async def _has_turn(self) -> bool:
        """False: a window before this one waits for something itself, and holds up nobody else."""
        try:
            async with asyncio.timeout(self._limits.one_window_seconds):
                return await self._one_window.acquire()
        except TimeoutError:
            return False

    async def _give_way(self) -> None:
        left_seconds = self._until - self._clock.monotonic()
        if self._free.is_set() or left_seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(left_seconds):
                await self._free.wait()

    def _hold(self) -> None:
        now = self._clock.monotonic()
        if now >= self._until:
            # Whoever is left from before had its moment, and waits for something else.
            self._passing.clear()
        self._until = now + self._limits.right_of_way_seconds
        self._free.clear()

    def _let_go(self) -> None:
        if not self._passing and not self._is_expected:
            self._free.set()
