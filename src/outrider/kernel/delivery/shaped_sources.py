"""Shaped sources: the items of a route, domain by domain, each in turn as its domain allows.

What has to wait for long is set aside: it is neither called nor does it hold up the others.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.sending_hours import Wait
from outrider.kernel.delivery.call_sources import Source
from outrider.kernel.delivery.domain_names import NO_DOMAIN
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.route_shapes import RouteShape
from outrider.kernel.transactions.jobs import Hold
from outrider.limits.delivery import SHAPED_LOOK_SECONDS

log = structlog.get_logger()

Element = TypeVar("Element")
OpenWindow = Callable[[Sequence[Element]], Awaitable[list[OpenAttempt] | Hold]]


class Shaping(NamedTuple, Generic[Element]):
    """How a source's items are shaped."""

    address_of: Callable[[Element], str | None]
    """None: it is called whatever its domain says."""
    set_aside: Callable[[Sequence[tuple[Element, Wait]]], Awaitable[None]]
    """They are not called now, but later."""
    leave: Callable[[Sequence[Element]], None]
    """They are left over when the route's calls end early."""
    comes_together: bool
    """They come back with their job, and not each by itself."""
    is_heavy: Callable[[Element], bool]
    """Only a few of these are taken at a time: their files are in memory."""


class ShapedSource(Generic[Element]):
    def __init__(
        self, inner: Source[Element], shape: RouteShape, shaping: Shaping[Element]
    ) -> None:
        self._inner = inner
        self._shape = shape
        self._shaping = shaping
        self._queues: dict[str, deque[Element]] = {}
        self._taken: list[str] = []
        self._stuck_since: float | None = None

    def waiting(self) -> int:
        return sum(min(len(queue), self._shape.free(name)) for name, queue in self._queues.items())

    async def prepare(self) -> None:
        if self._inner.waiting():
            await self._pull()
            await self._draw()

    def take(self, most: int) -> Sequence[Element]:
        """One of each domain in turn, so that none of them holds up the others."""
        taken: list[Element] = []
        self._taken = []
        names, heavy_left = deque(self._queues), self._shape.limits.enclosing_items
        while names and len(taken) < most:
            name = names.popleft()
            is_heavy = self._shaping.is_heavy(self._queues[name][0])
            if not self._shape.free(name) or (is_heavy and not heavy_left):
                continue
            heavy_left -= is_heavy
            self._shape.take(name)
            queue = self._queues.pop(name)
            taken.append(queue.popleft())
            self._taken.append(name)
            if queue:
                # Behind the others, in the next window too.
                self._queues[name] = queue
                names.append(name)
        if taken:
            self._stuck_since = None
        return taken

    def opening(self, open_window: OpenWindow[Element]) -> OpenWindow[Element]:
        """The same, and the domains learn what is called of what was taken."""

        async def opened(elements: Sequence[Element]) -> list[OpenAttempt] | Hold:
            if not elements:
                # Another job was faster.
                return []
            taken, self._taken = self._taken, []
            attempts: list[OpenAttempt] | Hold = []
            try:
                attempts = await open_window(elements)
            finally:
                names = {
                    self._shaping.address_of(each): name
                    for each, name in zip(elements, taken, strict=True)
                }
                opened = [] if isinstance(attempts, Hold) else attempts
                self._shape.opened(
                    taken, [(each, names.get(each.address, NO_DOMAIN)) for each in opened]
                )
            return attempts

        return opened

    async def more(self) -> bool:
        """Wait until a domain may be called again, but not for long."""
        await self._pull()
        if not self._queues:
            return await self._inner.more()
        await self._draw()
        await self._set_long_ones_aside()
        if not self._queues or self.waiting():
            return True
        now = self._shape.clock.monotonic()
        if self._stuck_since is None:
            self._stuck_since = now
        if now - self._stuck_since > self._shape.limits.domain_patience_seconds:
            self._stuck_since = None
            await self._aside(list(self._queues), self._shape.limits.domain_patience_seconds)
            return True
        self._shape.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHAPED_LOOK_SECONDS):
                await self._shape.changed.wait()
        return True

    async def leave(self) -> None:
        """The route's calls have ended."""
        self._shaping.leave([each for queue in self._queues.values() for each in queue])
        self._queues = {}
        try:
            await self._shape.publish()
        except StoreUnavailable as error:
            log.warning("domains_not_told", error=error.message)

    async def _pull(self) -> None:
        if not self._inner.waiting():
            return
        await self._inner.prepare()
        pulled = self._inner.take(self._inner.waiting())
        buckets = await self._shape.buckets_of({self._shaping.address_of(each) for each in pulled})
        for each in pulled:
            name = buckets[self._shaping.address_of(each)]
            self._queues.setdefault(name, deque()).append(each)

    async def _draw(self) -> None:
        await self._shape.draw({name: len(queue) for name, queue in self._queues.items()})

    async def _set_long_ones_aside(self) -> None:
        now = self._shape.clock.now()
        patience = timedelta(seconds=self._shape.limits.gate_patience_seconds)
        long_ones = []
        for name in self._queues:
            until = None if name == NO_DOMAIN else self._shape.bucket(name).wait_until
            if until is not None and until > now + patience and not self._shape.free(name):
                long_ones.append(name)
        await self._aside(long_ones)

    async def _aside(self, names: Sequence[str], least_seconds: float = 0.0) -> None:
        earliest = self._shape.clock.now() + timedelta(seconds=least_seconds)
        aside: list[tuple[Element, Wait]] = []
        for name in names:
            bucket, queue = self._shape.bucket(name), self._queues.pop(name)
            wait = Wait(bucket.turn(earliest), bucket.waits_for)
            for place, each in enumerate(queue):
                is_full = place > 0 and place % bucket.messages_per_turn == 0
                if is_full and not self._shaping.comes_together:
                    wait = Wait(bucket.turn(earliest), bucket.waits_for)
                aside.append((each, wait))
        if aside:
            await self._shaping.set_aside(aside)
