"""Route calls: opens and calls what one job has for one route, as fast as the target accepts it.

Attempts are opened when there is capacity to call them; opened ones that may no longer be called
are given back.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.delivery.call_sources import Source
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.local_doors import ComeBack, Passes, Shape
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.window_outcomes import Deferred, Done, Lost, Suspended, WindowOutcome
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.limits.delivery import CAREFUL_SHIFTS_MAX
from outrider.ports.tracing import WindowFacts

Element = TypeVar("Element")

CAREFUL_SHIFT = 2
"""With each consecutive loss, the number of concurrent calls is divided by four."""


class RouteCalls(Generic[Element]):
    """The calls of one job over one route: as many at once as there are slots."""

    def __init__(
        self,
        caller: GatewayCaller,
        job: Claim,
        route: Route,
        source: Source[Element],
        open_window: Callable[[Sequence[Element]], Awaitable[list[OpenAttempt] | Hold]],
        when_ended: Callable[[OpenAttempt], None] | None = None,
        shape: Shape | None = None,
    ) -> None:
        self._caller = caller
        self._job = job
        self._route = route
        self._source = source
        self._open_window = open_window
        self._when_ended = when_ended
        self._shape = shape
        self._key = caller.gate.door_key(job.scope, route.submission_target, route.gateway_url)
        self._slots = caller.gate.slots(self._key, route.gateway)
        self._suspended = caller.permits.suspended
        self._pace = caller.pace(self._key)
        self._goes_first = isinstance(job, ClaimedLane)
        if self._goes_first:
            caller.right_of_way.seen()
        self._in_a_row = 0
        self._opened: deque[tuple[OpenAttempt, Passes]] = deque()
        self._opening = asyncio.Lock()
        self._idle = 0
        self._out = 0
        """Opened attempts whose calls have not ended yet."""
        self._opened_at = 0.0
        self._opened_items = 0
        self._ended: WindowOutcome | None = None
        self._unavailable: StoreUnavailable | None = None
        self._callers_most = _careful(route.gateway.concurrency, job.losses)

    async def run(self) -> WindowOutcome:
        """Open and call what the source has, as fast as the target accepts it."""
        if self._callers_most == 1:
            await self._call_all()
        else:
            async with asyncio.TaskGroup() as group:
                # The next caller waits for work as soon as the previous one has found some.
                group.create_task(self._callers(group, self._callers_most - 1))
        for attempt, passes in self._opened:
            self._give_back(attempt, passes)
        if self._unavailable is not None:
            raise self._unavailable
        await self._caller.gate.publish(self._key)
        assert self._ended is not None
        return self._ended

    async def _callers(self, group: asyncio.TaskGroup, more: int) -> None:
        """A caller and, while it is busy, another one that is free for the next item."""
        while self._opened or await self._has_more():
            attempt, passes = self._opened.popleft()
            if more:
                group.create_task(self._callers(group, more - 1))
                more = 0
            await self._call(attempt, passes)

    async def _call_all(self) -> None:
        while self._opened or await self._has_more():
            await self._call(*self._opened.popleft())

    async def _call(self, attempt: OpenAttempt, passes: Passes) -> None:
        if self._job.id in self._suspended or isinstance(self._ended, Lost):
            self._give_back(attempt, passes)
            return
        if not self._slots.try_enter(first=self._goes_first) and not await self._slots.enter(
            first=self._goes_first
        ):
            self._give_back(attempt, passes)
            return
        try:
            await self._caller.call(self._route, self._key, passes, attempt, first=self._goes_first)
        finally:
            self._slots.leave()
            self._out -= 1
            if self._when_ended is not None:
                self._when_ended(attempt)
        self._in_a_row += 1
        if self._in_a_row >= self._caller.limits.calls_in_a_row:
            self._in_a_row = 0
            if self._caller.right_of_way.was_used_lately:
                await asyncio.sleep(0)

    def _give_back(self, attempt: OpenAttempt, passes: Passes) -> None:
        self._out -= 1
        self._caller.give_back(self._route, self._key, passes, attempt, first=self._goes_first)
        if self._when_ended is not None:
            self._when_ended(attempt)

    async def _has_more(self) -> bool:
        """Wait until an open attempt has no caller yet; False: there will be no more."""
        self._idle += 1
        try:
            while not self._opened:
                if self._ended is not None:
                    return False
                async with self._opening:
                    if not self._opened and self._ended is None:
                        await self._try_to_open_more()
            return True
        finally:
            self._idle -= 1

    async def _try_to_open_more(self) -> None:
        """If the store is unavailable, the calls in progress still complete: their results are kept
        until it is back, and nothing is put in doubt because of it."""
        try:
            await self._open_more()
        except StoreUnavailable as error:
            self._unavailable = error
            self._ended = Suspended()

    async def _open_more(self) -> None:
        caller, clock = self._caller, self._caller.clock
        if self._opened_items:
            self._pace.measure(self._opened_items, clock.monotonic() - self._opened_at)
            self._opened_items = 0
        while not self._source.waiting():
            if not await self._source.more():
                self._ended = Done()
                return
        if caller.stopping or self._job.id in self._suspended:
            self._ended = Suspended()
            return
        if caller.yields(self._job):
            self._ended = Deferred(clock.now())
            return
        stride = self._stride()
        if not self._route.gateway.memory.is_memory:
            # After a crash, items called but not recorded are in doubt: at most a window. The
            # stride is taken before the wait, during which more calls may end that are not durable
            # yet.
            await caller.durable(self._job)
        began = clock.monotonic()
        passes = await caller.gate.ask(
            self._key, self._route.gateway, max(1, min(stride, self._source.waiting()))
        )
        if isinstance(passes, ComeBack):
            await self._come_back(passes)
            return
        await self._source.prepare()
        elements = self._source.take(passes.granted)
        if self._shape is not None:
            passes = replace(passes, shape=self._shape)
        if self._goes_first:
            attempts = await self._open_window(elements)
        else:
            async with caller.right_of_way.behind():
                attempts = await self._open_window(elements)
        if isinstance(attempts, Hold):
            self._ended = Lost() if attempts is Hold.LOST else Suspended()
            attempts = []
        if not attempts and passes.is_probe:
            # The probe was not used for a call: the next caller may probe instead.
            caller.gate.unused(passes)
        if attempts and caller.tracer is not None:
            facts = self._facts(len(attempts))
            passes = replace(passes, trace=caller.tracer.opened(facts, clock.monotonic() - began))
        may_begin = partial(caller.may_begin, passes, self._route.gateway.memory)
        for attempt in attempts:
            attempt.may_begin = may_begin
        self._opened.extend((attempt, passes) for attempt in attempts)
        self._opened_at, self._opened_items = clock.monotonic(), len(attempts)
        self._out += len(attempts)

    def _facts(self, messages: int) -> WindowFacts:
        job, route = self._job, self._route
        return WindowFacts(
            job.tenant_id, None if isinstance(job, ClaimedLane) else job.run_id, job.id,
            route.submission_target, route.gateway.type.name, route.gateway_url, messages,
        )  # fmt: skip

    async def _come_back(self, refused: ComeBack) -> None:
        caller = self._caller
        # Other jobs may need the idle slots to find out whether the provider is back.
        await self._route.gateway.trim(0)
        wait_seconds = (refused.at - caller.clock.now()).total_seconds()
        if wait_seconds > caller.limits.gate_patience_seconds:
            self._ended = Deferred(refused.at)
        else:
            await caller.clock.sleep(max(wait_seconds, 0.001))

    def _stride(self) -> int:
        """As many as will begin shortly, so that few wait while they are open."""
        gateway, pace = self._route.gateway, self._pace.calls_per_second
        if not gateway.memory.is_memory:
            return max(1, min(gateway.window_items, self._callers_most) - self._out)
        if self._job.losses:
            return max(1, self._callers_most - self._out)
        if pace is None:
            return min(gateway.window_items, max(self._slots.capacity, 1))
        ahead = int(pace * self._caller.limits.opened_ahead_seconds)
        most = gateway.window_items
        if not self._goes_first and self._caller.right_of_way.was_used_lately:
            most = min(most, self._caller.limits.beside_lanes_items)
        return min(most, max(ahead, self._idle, 1))


def _careful(concurrency: int, losses: int) -> int:
    """How many calls may be in flight. If an item killed the last worker, it is among fewer each
    time, and the other items of its job get past it."""
    return max(1, concurrency >> (CAREFUL_SHIFT * min(losses, CAREFUL_SHIFTS_MAX)))
