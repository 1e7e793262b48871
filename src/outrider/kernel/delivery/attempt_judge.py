"""The attempt judge: what a call's result means for its item, by contract and schedule."""

from datetime import datetime, timedelta
from functools import partial

import structlog

from outrider.domain.call_results import (
    CallResult,
    Held,
    NotBegun,
    is_unreachable,
)
from outrider.domain.retry import DIRECT, RetrySchedule
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import AttemptFacts, Verdict, judge
from outrider.domain.times import rfc3339
from outrider.kernel.delivery.reservations import AttemptIdentity, OpenAttempt
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.foundation import Foundation
from outrider.ports.gateway import Gateway

log = structlog.get_logger()

BEHIND_THE_PROBE = 1.25
"""An item refused by a held target waits this multiple of the time its door is closed."""
NOT_DELIVERED = frozenset({ItemStatus.QUEUED, ItemStatus.FAILED})


class AttemptJudge:
    def __init__(self, foundation: Foundation, gate: TargetGate) -> None:
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._gate = gate

    def judge(
        self, gateway: Gateway, who: AttemptIdentity, closed_at: datetime, result: CallResult
    ) -> Verdict:
        facts = AttemptFacts(
            who.number - who.attempts_before, who.submitted_at, closed_at, who.maybe_received,
            uncounted_calls=who.uncounted_calls, repeats=who.repeats, memory=gateway.memory,
        )  # fmt: skip
        if who.patience is not None:
            facts = facts._replace(
                most_attempts=who.patience.most_attempts,
                final_reasons=who.patience.final_reasons,
            )
        # The door finds out when a target is back, whatever the retry schedule of its messages is.
        retry = DIRECT if is_unreachable(result) else None
        delay_seconds = partial(self._delay_seconds, who, retry)
        verdict = judge(who.contract, gateway.type, facts, result, delay_seconds)
        if isinstance(result, Held) and verdict.next_attempt_at is None and verdict.given_back:
            # Behind the others: if this message is the cause, the next probe uses another one.
            held = self._gate.policy(who.contract.submission_target).breaker_seconds
            again = closed_at + timedelta(seconds=BEHIND_THE_PROBE * held)
            verdict = verdict._replace(next_attempt_at=again)
        overdue = who.deadline is not None and closed_at >= who.deadline
        if overdue and isinstance(result, NotBegun):
            # The deadline expirer is about to end it; it must not be opened again meanwhile.
            again = closed_at + timedelta(seconds=self._limits.expire_seconds)
            verdict = verdict._replace(next_attempt_at=again)
        return verdict

    def _delay_seconds(
        self,
        who: AttemptIdentity,
        usual: RetrySchedule | None,
        attempts: int,
        retry_after_seconds: float | None,
    ) -> float:
        retry = (
            self._gate.retry_schedule(who.contract, usual)
            if who.patience is None
            else who.patience.schedule
        )
        return retry.delay_seconds(
            attempts, retry_after_seconds=retry_after_seconds, jitter=self._ids.jitter()
        )


def log_verdict(attempt: OpenAttempt, verdict: Verdict) -> None:
    """Log what a team needs to know about a message that did not go through at once."""
    fields = {
        "outbox_id": attempt.outbox_id,
        "attempt": attempt.identity.number,
        "reason": verdict.reason,
    }
    if verdict.next_attempt_at is not None:
        log.info("retry_scheduled", **fields, next_retry_at=rfc3339(verdict.next_attempt_at))
    elif verdict.exhausted_reason is not None and verdict.status in NOT_DELIVERED:
        log.warning("retries_exhausted", **fields, ended_by=verdict.exhausted_reason.value)
    elif verdict.intent_status is IntentStatus.REJECTED:
        log.warning("delivery_rejected", **fields)
