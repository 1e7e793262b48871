"""The caller: makes the calls of open attempts, and sees to it that every answer is durable.

It is the one place from which a gateway is called, for campaigns and single messages alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog

from outrider.domain.ids import JobId
from outrider.domain.submission import (
    Accepted,
    AttemptError,
    AttemptFacts,
    CallResult,
    ExhaustedReason,
    Progress,
    Verdict,
    accept,
    deadline_passed,
    judge,
)
from outrider.domain.times import rfc3339
from outrider.kernel.reservations import AttemptIdentity, OpenAttempt
from outrider.kernel.result_closer import ResultCloser
from outrider.kernel.routes import Route
from outrider.kernel.target_gate import DEADLINE_PASSED, LEASE_ENDED, TargetGate
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import ClosedAttempt
from outrider.ports.clock import Clock, IdSource
from outrider.ports.gateway import Gateway
from outrider.ports.stages import Stage, StageObserver
from outrider.settings import Limits

log = structlog.get_logger()

Element = TypeVar("Element")


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was sent on its way."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The target takes no more for now; what is left waits without using up an attempt."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Lost:
    """The job is no longer ours."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job's phase was paused or stopped, or this worker stops: calls that were out have ended,
    and no more are made."""


Passage = Done | Deferred | Lost | Suspended


def earliest(known: Deferred | None, passage: Done | Deferred) -> Deferred | None:
    if not isinstance(passage, Deferred):
        return known
    return passage if known is None or passage.until < known.until else known


class Leases:
    """Until when each job of this process is surely ours, as heartbeats last confirmed it."""

    def __init__(self) -> None:
        self._until: dict[JobId, datetime] = {}

    def confirm(self, job_id: JobId, until: datetime) -> None:
        self._until[job_id] = until

    def forget(self, job_id: JobId) -> None:
        self._until.pop(job_id, None)

    def end(self, job_id: JobId, taken_until: datetime) -> datetime:
        return max(taken_until, self._until.get(job_id, taken_until))


class Caller:
    def __init__(
        self,
        closer: ResultCloser,
        gate: TargetGate,
        leases: Leases,
        clock: Clock,
        ids: IdSource,
        limits: Limits,
        observer: StageObserver,
    ) -> None:
        self._closer = closer
        self._gate = gate
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._observer = observer
        self._stopping = False

    def stop(self) -> None:
        """Begin no more windows; those under way are called to their end."""
        self._stopping = True

    async def in_windows(
        self,
        route: Route,
        elements: Sequence[Element],
        open_window: Callable[[Sequence[Element]], Awaitable[list[OpenAttempt] | Hold]],
    ) -> Passage:
        """Open and call, a window at a time, as many as the target's gate lets through."""
        start = 0
        while start < len(elements):
            if self._stopping:
                return Suspended()
            want = min(route.gateway.window_items, len(elements) - start)
            granted = await self._pass(route.submission_target, want)
            if isinstance(granted, Deferred):
                return granted
            attempts = await open_window(elements[start : start + granted])
            if isinstance(attempts, Hold):
                return Lost() if attempts is Hold.LOST else Suspended()
            await self._call(route, attempts)
            start += granted
        return Done()

    async def _pass(self, submission_target: str, want: int) -> int | Deferred:
        while True:
            admission = await self._gate.admit(submission_target, want)
            if admission is None:
                return want
            if admission.wait_until is None:
                return admission.granted
            wait_seconds = (admission.wait_until - self._clock.now()).total_seconds()
            if wait_seconds > self._limits.gate_patience_seconds:
                return Deferred(admission.wait_until)
            await self._clock.sleep(max(wait_seconds, 0.001))

    async def _call(self, route: Route, attempts: Sequence[OpenAttempt]) -> None:
        queue = iter(attempts)
        results: list[CallResult] = []

        async def caller() -> None:
            for attempt in queue:
                self._observer.before(Stage.CALL)
                result = await self._call_once(route.gateway, attempt)
                self._observer.after(Stage.CALL)
                results.append(result)
                self._close(route.gateway, attempt, result)

        callers = min(route.gateway.concurrency, len(attempts))
        if callers == 1:
            await caller()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(callers):
                    group.create_task(caller())
        if attempts:
            await self._gate.report(route.submission_target, results)
            await self._closer.barrier()

    async def _call_once(self, gateway: Gateway, attempt: OpenAttempt) -> CallResult:
        now, who = self._clock.now(), attempt.identity
        if now >= who.call_by and now >= self._leases.end(who.job_id, who.call_by):
            # This process was frozen so long that others may have dealt with the item meanwhile:
            # doubted it, repeated it on evidence, or sent it elsewhere. It must not arrive now.
            return AttemptError(Progress.NOT_SENT, LEASE_ENDED)
        if not who.maybe_received and deadline_passed(who.contract, who.submitted_at, now):
            return AttemptError(Progress.NOT_SENT, DEADLINE_PASSED)
        try:
            return await gateway.call(attempt)
        except Exception as bug:
            # A gateway must not raise. Nobody knows how far it got, and that is what is recorded.
            log.exception("gateway_crashed", gateway=gateway.type.name, outbox_id=attempt.outbox_id)
            return AttemptError(Progress.SENT_NO_ANSWER, "gateway_crashed", type(bug).__name__)

    def _close(self, gateway: Gateway, attempt: OpenAttempt, result: CallResult) -> None:
        closed_at, who = self._clock.now(), attempt.identity
        if isinstance(result, Accepted):
            # Of all ends this is the one that comes a million times.
            verdict = accept(
                who.contract, gateway.type, who.submitted_at, closed_at, result.provider_message_id
            )
        else:
            verdict = self._judged(gateway, who, closed_at, result)
        if who.patience is not None:
            _tell(attempt, verdict)
        self._closer.put(
            ClosedAttempt(attempt.outbox_id, who.number, who.fence, closed_at, verdict)
        )

    def _judged(
        self, gateway: Gateway, who: AttemptIdentity, closed_at: datetime, result: CallResult
    ) -> Verdict:
        facts = AttemptFacts(who.number, who.submitted_at, closed_at, who.maybe_received)
        if who.patience is not None:
            facts = facts._replace(
                most_attempts=who.patience.most_attempts,
                final_reasons=who.patience.final_reasons,
            )
        delay_seconds = partial(self._delay_seconds, who)
        return judge(who.contract, gateway.type, facts, result, delay_seconds)

    def _delay_seconds(
        self, who: AttemptIdentity, attempts: int, retry_after_seconds: float | None
    ) -> float:
        retry = (
            self._gate.policy(who.contract.submission_target).retry
            if who.patience is None
            else who.patience.schedule
        )
        return retry.delay_seconds(
            attempts, retry_after_seconds=retry_after_seconds, jitter=self._ids.jitter()
        )


def _tell(attempt: OpenAttempt, verdict: Verdict) -> None:
    """What a team wants to see of a message that did not go through at once."""
    told = {
        "outbox_id": attempt.outbox_id,
        "attempt": attempt.identity.number,
        "reason": verdict.reason,
    }
    if verdict.next_attempt_at is not None:
        log.info("retry_scheduled", **told, next_retry_at=rfc3339(verdict.next_attempt_at))
    elif verdict.exhausted_reason is ExhaustedReason.MAX_ATTEMPTS:
        log.warning("retries_exhausted", **told)
