"""The gateway caller: makes the calls of open attempts, and ensures that every result is durable.

All gateway calls, for campaigns and single messages, are made here. Attempts are opened when there
is capacity to call them; opened ones that may no longer be called are given back.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

import structlog

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Held,
    NotBegun,
    Progress,
    Throttled,
)
from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.own_limits import OWN_LIMIT, is_own_limit
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.submission import Contract, accept
from outrider.kernel.delivery.attempt_judge import AttemptJudge, log_verdict
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.call_sources import Source
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.local_doors import ComeBack, Passes
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.window_outcomes import Deferred, Done, Lost, Suspended, WindowOutcome
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.targets import DoorKey
from outrider.ports.call_journal import CallJournal
from outrider.ports.gateway import Gateway
from outrider.ports.stages import Stage, StageObserver

log = structlog.get_logger()

Element = TypeVar("Element")

CAREFUL_SHIFT = 2
"""With each consecutive loss, the number of concurrent calls is divided by four."""
CAREFUL_SHIFTS_MAX = 16
WITHHELD = "withheld"
"""Its job was paused, stopped or lost, its door closed, or its deadline passed, before any byte was
sent."""


@dataclass
class Pace:
    """How fast a route's calls are, and so how many to open at once."""

    calls_per_second: float | None = None

    def measure(self, calls: int, seconds: float) -> None:
        seen = calls / max(seconds, 1e-6)
        known = self.calls_per_second
        self.calls_per_second = seen if known is None else (known + seen) / 2


class GatewayCaller:
    def __init__(
        self,
        foundation: Foundation,
        closer: ResultCloser,
        gate: TargetGate,
        permits: CallPermits,
        journal: CallJournal,
        observer: StageObserver,
        shortages: ShortageTeller,
    ) -> None:
        self._closer = closer
        self._shortages = shortages
        self.gate = gate
        self.permits = permits
        self._journal = journal
        self.clock = foundation.clock
        self._judge = AttemptJudge(foundation, gate)
        self.limits = foundation.limits
        self._observer = observer
        self.stopping = False
        self.right_of_way = closer.right_of_way = RightOfWay(foundation.clock, foundation.limits)
        self._paces: dict[DoorKey, Pace] = {}
        self.note_sent: Callable[[DoorKey], None] = lambda _: None
        """Told of each message that was accepted, by its door."""
        self.yields: Callable[[Claim], bool] = lambda _job: False

    def stop(self) -> None:
        """Begin no more windows; calls of open attempts are completed."""
        self.stopping = True

    def pace(self, key: DoorKey) -> Pace:
        return self._paces.setdefault(key.shared, Pace())

    async def deliver(
        self,
        job: Claim,
        route: Route,
        source: Source[Element],
        open_window: Callable[[Sequence[Element]], Awaitable[list[OpenAttempt] | Hold]],
        when_ended: Callable[[OpenAttempt], None] | None = None,
    ) -> WindowOutcome:
        """Open and call what the source has, as fast as the target accepts it."""
        return await _RouteCalls(self, job, route, source, open_window, when_ended).run()

    async def durable(self, job: Claim) -> None:
        """Wait until the results of all the job's calls are committed."""
        await self._closer.barrier(job.id, first=isinstance(job, ClaimedLane))

    async def hold(
        self, job: Claim, contract: Contract, problem: OutriderError, *, own_door: bool
    ) -> datetime:
        """The target cannot be called because of its configuration. Returns when to check again."""
        key = self.gate.door_key(job.scope, contract.submission_target, contract.gateway_url)
        door = key if own_door else key.shared
        return await self.gate.hold(key, problem.message, door)

    async def call(
        self, route: Route, key: DoorKey, passes: Passes, attempt: OpenAttempt, *, first: bool
    ) -> None:
        """One call, from the final check before it to queuing its result for the ledger."""
        gateway = route.gateway
        result: CallResult
        self._observer.before(Stage.CALL)
        try:
            result = await gateway.call(attempt)
        except Exception as bug:
            log.exception("gateway_raised", gateway=gateway.type.name, outbox_id=attempt.outbox_id)
            if is_own_limit(bug) and not attempt.has_begun:
                result = AttemptError(Progress.NOT_SENT, OWN_LIMIT, str(bug))
            else:
                # A gateway must not raise. How far the call got is unknown, and is recorded as
                # such.
                result = AttemptError(
                    Progress.SENT_NO_ANSWER, "gateway_crashed", type(bug).__name__
                )
        self._observer.after(Stage.CALL)
        self.gate.note(key, passes, route.as_the_door_sees(result))
        if isinstance(result, Accepted):
            self.note_sent(key)
        self._close(gateway, attempt, result, first=first)
        if passes.is_probe or isinstance(result, AttemptError | Throttled | Held):
            await self._notify_others(key)
        if isinstance(result, AttemptError) and result.code == OWN_LIMIT:
            await self._shortages.report(result.detail)
        elif self._shortages.is_alerting:
            await self._shortages.over()

    async def _notify_others(self, key: DoorKey) -> None:
        """An unavailable store is no reason to fail the call: the other workers learn of it
        later."""
        try:
            await self.gate.publish(key)
        except StoreUnavailable as error:
            log.warning("door_not_told", error=error.message)

    def give_back(
        self, route: Route, key: DoorKey, passes: Passes, attempt: OpenAttempt, *, first: bool
    ) -> None:
        """It was opened, and is not called after all."""
        result = NotBegun(WITHHELD)
        self.gate.note(key, passes, route.as_the_door_sees(result))
        self._close(route.gateway, attempt, result, first=first)

    def may_begin(self, passes: Passes, memory: ReferenceMemory, attempt: OpenAttempt) -> bool:
        who = attempt.identity
        if who.maybe_received and not memory.holds(who.submitted_at, self.clock.now()):
            # It was routed while the gateway remembered the reference, and has waited since.
            return False
        if not self.permits.may_begin(who.job_id, who.call_by):
            # Paused, stopped or lost; or this process was frozen for so long that others may have
            # handled the item meanwhile: put it in doubt, repeated it on evidence, sent it
            # elsewhere.
            return False
        if not passes.are_valid:
            return False
        deadline = who.deadline
        is_question = who.repeats and who.maybe_received
        if deadline is not None and not is_question and self.clock.now() >= deadline:
            return False
        self._journal.begin(attempt.outbox_id, who.job_id, who.fence)
        return True

    def _close(
        self, gateway: Gateway, attempt: OpenAttempt, result: CallResult, *, first: bool
    ) -> None:
        closed_at, who = self.clock.now(), attempt.identity
        if isinstance(result, Accepted):
            # The most frequent result by far.
            verdict = accept(gateway.type, who.deadline, closed_at, result.provider_message_id)
        else:
            verdict = self._judge.judge(gateway, who, closed_at, result)
        if who.patience is not None:
            log_verdict(attempt, verdict)
        self._closer.put(
            ClosedAttempt(
                attempt.outbox_id, who.number, who.fence, closed_at, verdict, who.job_id,
                who.call_by,
            ),
            first=first,
        )  # fmt: skip


class _RouteCalls(Generic[Element]):
    """The calls of one job over one route: as many at once as there are slots."""

    def __init__(
        self,
        caller: GatewayCaller,
        job: Claim,
        route: Route,
        source: Source[Element],
        open_window: Callable[[Sequence[Element]], Awaitable[list[OpenAttempt] | Hold]],
        when_ended: Callable[[OpenAttempt], None] | None,
    ) -> None:
        self._caller = caller
        self._job = job
        self._route = route
        self._source = source
        self._open_window = open_window
        self._when_ended = when_ended
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
        passes = await caller.gate.ask(
            self._key, self._route.gateway, min(stride, self._source.waiting())
        )
        if isinstance(passes, ComeBack):
            await self._come_back(passes)
            return
        await self._source.prepare()
        elements = self._source.take(passes.granted)
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
        may_begin = partial(caller.may_begin, passes, self._route.gateway.memory)
        for attempt in attempts:
            attempt.may_begin = may_begin
        self._opened.extend((attempt, passes) for attempt in attempts)
        self._opened_at, self._opened_items = clock.monotonic(), len(attempts)
        self._out += len(attempts)

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
