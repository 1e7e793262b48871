"""A lane visit: the time that a worker holds a lane, from its claim until nothing in it can be
sent."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from outrider.domain.ids import OutboxId
from outrider.domain.submission import REALTIME
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.lane_backlog import AddressTurns, Backlog, Due
from outrider.kernel.delivery.lane_loader import LaneLoader
from outrider.kernel.delivery.lane_opener import LaneOpener
from outrider.kernel.delivery.window_outcomes import (
    Deferred,
    Done,
    Lost,
    Suspended,
    WindowOutcome,
    earliest,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.submissions import DueItem
from outrider.limits.delivery import LEFT_WINDOWS_MAX

REFILL_SHARE = 4
"""More is loaded when fewer than this fraction of a window could be called."""


class OpenVisits:
    """The visits in progress in this process, and how often they were woken."""

    def __init__(self) -> None:
        self._visits: set[LaneVisit] = set()
        self.wakes = 0
        """Counts wake-ups: how often new work was announced."""

    def __bool__(self) -> bool:
        return bool(self._visits)

    def begin(self, visit: "LaneVisit") -> None:
        self._visits.add(visit)

    def end(self, visit: "LaneVisit") -> None:
        self._visits.discard(visit)

    def wake(self) -> None:
        self.wakes += 1
        for visit in self._visits:
            visit.wake()


class LaneVisit:
    """One holding of a lane: it loads due items while calls are in progress, so that no call holds
    up the others, and ends when nothing is left or the doors of all routes are closed."""

    def __init__(
        self,
        foundation: Foundation,
        loader: LaneLoader,
        opener: LaneOpener,
        caller: GatewayCaller,
        visits: OpenVisits,
        lane: ClaimedLane,
    ) -> None:
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._loader = loader
        self._opener = opener
        self._caller = caller
        self._visits = visits
        self._lane = lane
        self._turns = AddressTurns()
        self._backlogs: dict[tuple[str, str], Backlog] = {}
        self._calls: dict[tuple[str, str], asyncio.Task[WindowOutcome]] = {}
        self._deferred: dict[tuple[str, str], Deferred] = {}
        self._left = 0
        """How many of the items loaded last wait for a route whose door is closed."""
        self._has_other_routes = False
        self._looked_at = float("-inf")
        self.wakes = visits.wakes
        """The wake-up count at the last load."""
        self._entered: set[OutboxId] = set()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> WindowOutcome:
        self._visits.begin(self)
        try:
            return await self._run()
        finally:
            self._visits.end(self)
            for backlog in self._backlogs.values():
                backlog.close()
            self._caller.right_of_way.leave(self._entered)
            if self._calls:
                await asyncio.wait(self._calls.values())

    async def _run(self) -> WindowOutcome:
        rounds = 0
        while True:
            self._woken.clear()
            self.wakes = self._visits.wakes
            found = await self._look()
            self._caller.right_of_way.looked()
            if isinstance(found, Lost | Suspended):
                return found
            rounds += found > 0
            ended = self._settled_routes()
            if isinstance(ended, Lost | Suspended):
                return ended
            is_idle = not any(each.out or len(each) for each in self._backlogs.values())
            if is_idle and not found:
                return self._outlook()
            if rounds >= self._limits.lane_rounds or self._caller.stopping:
                return await self._finish()
            await self._rest()

    async def _look(self) -> int | Lost | Suspended:
        """Load due items that are not known here yet; returns how many there were."""
        window = self._limits.lane_window_items
        known = sum(len(each) for each in self._backlogs.values())
        if known >= window or self._has_enough(window // REFILL_SHARE):
            return 0
        # Items waiting for a closed door must not hide the ones behind them.
        most = min(window + known + self._left, LEFT_WINDOWS_MAX * window)
        rows = await self._loader.load(self._lane, most)
        fresh = [row for row in rows if not any(b.has(row.id) for b in self._backlogs.values())]
        if not fresh:
            return 0
        self._go_first(fresh)
        routed = await self._loader.routed(self._lane, fresh)
        if isinstance(routed, Lost | Suspended):
            return routed
        added = self._left = 0
        if routed.held_until is not None:
            self._deferred["", ""] = Deferred(routed.held_until)
            self._left += routed.held_items
        for route, group in routed.groups:
            key = route.submission_target, route.gateway_url
            if key in self._deferred:
                self._left += len(group)
                continue
            self._put(key, route, group)
            added += len(group)
        fallbacks = any(row.fallback_contract_id is not None for row in fresh)
        self._has_other_routes = self._has_other_routes or fallbacks or len(routed.groups) > 1
        return added

    def _go_first(self, fresh: Sequence[DueItem]) -> None:
        """Each of them once: an item that has to wait for its door loses the priority."""
        if self._lane.mode != REALTIME:
            return
        new = {row.id for row in fresh} - self._entered
        if new:
            self._entered |= new
            self._caller.right_of_way.enter(new)

    def _has_enough(self, least: int) -> bool:
        """Whether there is enough to do for the moment: a load reads everything known here again.
        It is done now and then anyway, for routes that have nothing yet."""
        now = self._clock.monotonic()
        ready = sum(each.waiting() for each in self._backlogs.values())
        if ready > least and now - self._looked_at < self._limits.lane_look_seconds:
            return True
        self._looked_at = now
        return False

    def _put(self, key: tuple[str, str], route: Route, group: Sequence[Due]) -> None:
        if key not in self._backlogs:
            self._backlogs[key] = Backlog(self._turns, self._limits.enclosing_items, self.wake)
        backlog = self._backlogs[key]
        backlog.put(group)
        if key not in self._calls:
            task = asyncio.create_task(self._opener.deliver(self._lane, route, backlog))
            task.add_done_callback(lambda _task: self.wake())
            self._calls[key] = task

    def _settled_routes(self) -> Lost | Suspended | None:
        """Routes whose door closed are left alone until the next visit."""
        for key, task in list(self._calls.items()):
            if not task.done():
                continue
            del self._calls[key]
            self._backlogs.pop(key).close()
            outcome = task.result()
            if isinstance(outcome, Lost | Suspended):
                return outcome
            if isinstance(outcome, Deferred):
                self._deferred[key] = outcome
        return None

    def _outlook(self) -> WindowOutcome:
        deferred: Deferred | None = None
        for each in self._deferred.values():
            deferred = earliest(deferred, each)
        if deferred is not None and self._has_other_routes:
            # New items for the open routes must not wait for the closed one.
            soon = self._clock.now() + timedelta(seconds=self._limits.idle_poll_seconds)
            deferred = Deferred(min(deferred.until, soon))
        return deferred or Done()

    async def _finish(self) -> WindowOutcome:
        """Take nothing new, and wait for the calls in progress."""
        for backlog in self._backlogs.values():
            backlog.close()
        if self._calls:
            await asyncio.wait(self._calls.values())
        ended = self._settled_routes()
        return ended or self._outlook()

    async def _rest(self) -> None:
        """Wait until a call ended, something new came, or the next load is due."""
        for backlog in self._backlogs.values():
            backlog.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.lane_look_seconds):
                await self._woken.wait()
