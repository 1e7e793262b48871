"""The right of way: while a single message is on its way to its call, campaigns start nothing new.

Both share an event loop, a writer and CPUs; otherwise a campaign window would get in before each of
a message's short steps, from its submission on. The right lasts only briefly, so campaigns always
continue. There is one for each process.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

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
        self._submitting = 0
        self._passing: set[OutboxId] = set()
        self._one_window = asyncio.Lock()
        self._free = asyncio.Event()
        self._free.set()

    @property
    def was_used_lately(self) -> bool:
        """Whether single messages go out here too: campaigns then keep their windows small."""
        since_seconds = self._clock.monotonic() - self._seen_at
        return since_seconds < self._limits.beside_lanes_seconds

    @property
    def is_taken(self) -> bool:
        """Whether a single message is on its way just now; may be asked in any thread."""
        return not self._free.is_set() and self._clock.monotonic() < self._until

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """A single message is being submitted here."""
        self.seen()
        self._submitting += 1
        self._hold()
        try:
            yield
        finally:
            self._submitting -= 1
            self._release()

    def expect(self) -> None:
        """New work was announced. If single messages came recently, it may be another one."""
        if self.was_used_lately:
            self._is_expected = True
            self._hold()

    def looked(self) -> None:
        """The expected message has been found, or there was none."""
        self._is_expected = False
        self._release()

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
        self._release()

    @asynccontextmanager
    async def behind(self) -> AsyncIterator[None]:
        """Campaign writes run behind the single messages that are on their way. While there are
        any, one window is written at a time, so that the next message waits for that one alone."""
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
        """False: an earlier window is itself waiting, and must not hold up the others."""
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
            # A message left from before has used its time, and is waiting for something else.
            self._passing.clear()
        self._until = now + self._limits.right_of_way_seconds
        self._free.clear()

    def _release(self) -> None:
        if not (self._passing or self._is_expected or self._submitting):
            self._free.set()
