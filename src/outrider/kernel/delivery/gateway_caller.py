"""The gateway caller: makes the calls of open attempts, and ensures that every result is durable.

All gateway calls, for campaigns and single messages, are made here, one at a time; `route_calls`
decides when.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

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
from outrider.domain.submission import Contract, Verdict, accept
from outrider.kernel.delivery.attempt_judge import AttemptJudge, log_verdict
from outrider.kernel.delivery.call_meter import SENT, CallMeter
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.error_log import ErrorLog
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.local_doors import Passes
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.target_holds import TargetHolds
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.targets import DoorKey
from outrider.ports.call_journal import CallJournal
from outrider.ports.stages import Stage, StageObserver
from outrider.ports.tracing import CallFacts, DeliveryTracer

log = structlog.get_logger()

OF_THE_DOOR = (AttemptError, Throttled, Held)
"""Results that other workers learn of at once, because they may close a door."""
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
        right_of_way: RightOfWay,
        tracer: DeliveryTracer | None = None,
    ) -> None:
        """`tracer` is None where nobody collects traces."""
        self._closer = closer
        self.tracer = tracer
        self._shortages = shortages
        self.gate = gate
        self._holds = TargetHolds(foundation, gate)
        self.permits = permits
        self._journal = journal
        self.clock = foundation.clock
        self._judge = AttemptJudge(foundation, gate)
        self.limits = foundation.limits
        self._observer = observer
        self.stopping = False
        self.right_of_way = right_of_way
        self._paces: dict[DoorKey, Pace] = {}
        self._error_log = ErrorLog(foundation.clock)
        self.meter = CallMeter()
        self.note_sent: Callable[[DoorKey], None] = lambda _: None
        """Notified of each accepted message, by its door."""
        self.yields: Callable[[Claim], bool] = lambda _job: False

    def stop(self) -> None:
        """Start no more windows; calls of open attempts are completed."""
        self.stopping = True

    def pace(self, key: DoorKey) -> Pace:
        return self._paces.setdefault(key.shared, Pace())

    async def durable(self, job: Claim) -> None:
        """Wait until the results of all the job's calls are committed."""
        await self._closer.barrier(job.id, first=isinstance(job, ClaimedLane))

    async def hold(
        self, job: Claim, contract: Contract, problem: OutriderError, *, own_door: bool
    ) -> datetime:
        """The target cannot be called because of its configuration. Returns when to check again."""
        key = self.gate.door_key(job.scope, contract.submission_target, contract.gateway_url)
        door = key if own_door else key.shared
        return await self._holds.hold(key, problem.message, door)

    async def call(
        self, route: Route, key: DoorKey, passes: Passes, attempt: OpenAttempt, *, first: bool
    ) -> None:
        """One call, from the final check before it to queuing its result for the ledger."""
        gateway = route.gateway
        result: CallResult
        self._observer.before(Stage.CALL)
        began = self.clock.monotonic()
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
        if passes.shape is not None:
            result = passes.shape.note(attempt, result)
        self.gate.note(key, passes, route.as_the_door_sees(result))
        verdict = self._close(route, attempt, result, first=first)
        seconds = self.clock.monotonic() - began
        if passes.trace is not None:
            passes.trace.called(_call_facts(attempt, result, seconds))
        if isinstance(result, Accepted):
            # The most frequent result by far.
            self.note_sent(key)
            self.meter.count(gateway.type.channel_name, key.submission_target, SENT, seconds)
        else:
            self.meter.note(gateway.type.channel_name, key.submission_target, verdict, seconds)
            self._error_log.note(key.submission_target, key.gateway_url, result)
        if passes.is_probe or isinstance(result, OF_THE_DOOR):
            await self._notify_others(key)
        if isinstance(result, AttemptError) and result.code == OWN_LIMIT:
            await self._shortages.report(result.detail)
        elif self._shortages.is_alerting:
            await self._shortages.over()

    async def _notify_others(self, key: DoorKey) -> None:
        """An unavailable store does not fail the call: the other workers are informed later."""
        try:
            await self.gate.publish(key)
        except StoreUnavailable as error:
            log.warning("door_not_told", error=error.message)

    def give_back(
        self, route: Route, key: DoorKey, passes: Passes, attempt: OpenAttempt, *, first: bool
    ) -> None:
        """It was opened, and is not called after all."""
        if passes.trace is not None:
            passes.trace.given_back()
        result = NotBegun(WITHHELD)
        if passes.shape is not None:
            passes.shape.note(attempt, result)
        self.gate.note(key, passes, route.as_the_door_sees(result))
        self._close(route, attempt, result, first=first)

    def may_begin(self, passes: Passes, memory: ReferenceMemory, attempt: OpenAttempt) -> bool:
        who = attempt.identity
        if who.maybe_received and not memory.allows_repeat(who.submitted_at, self.clock.now()):
            # It was routed while the gateway remembered the reference, and has waited since.
            return False
        if not self.permits.may_begin(who.job_id, who.call_by):
            # Paused, stopped or lost; or this process was frozen for so long that others may have
            # handled the item meanwhile: put it in doubt, repeated it on evidence, sent it
            # elsewhere.
            return False
        if not passes.are_valid:
            return False
        if passes.shape is not None and not passes.shape.may_begin(attempt):
            return False
        deadline = who.deadline
        is_question = who.repeats and who.maybe_received
        if deadline is not None and not is_question and self.clock.now() >= deadline:
            return False
        self._journal.begin(attempt.outbox_id, who.job_id, who.fence)
        return True

    def _close(
        self, route: Route, attempt: OpenAttempt, result: CallResult, *, first: bool
    ) -> Verdict:
        gateway, closed_at, who = route.gateway, self.clock.now(), attempt.identity
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
                who.call_by, route.shares_reports,
            ),
            first=first,
        )  # fmt: skip
        return verdict


def _call_facts(attempt: OpenAttempt, result: CallResult, seconds: float) -> CallFacts:
    match result:
        case Accepted():
            error = None
        case AttemptError():
            error = result.code
        case _:
            error = result.reason
    who = attempt.identity
    return CallFacts(attempt.outbox_id, attempt.reference, who.number, who.repeats, seconds, error)
