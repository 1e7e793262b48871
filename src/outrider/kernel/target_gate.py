"""The target gate: every window of calls asks here first, and tells here how it ended.

The state is shared by all workers of a database. A target without a rate and without trouble is
looked at only now and then, so the gate costs a healthy target next to nothing.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from outrider.domain.submission import Accepted, AttemptError, CallResult
from outrider.domain.targets import (
    Admission,
    Breaker,
    Report,
    TargetPolicy,
    TargetState,
    admit,
    report,
)
from outrider.kernel.transactions import targets
from outrider.ports.clock import Clock
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()

THROTTLED = "throttled"
LEASE_ENDED = "lease_ended"
DEADLINE_PASSED = "deadline_passed"
NO_FAULT_OF_THE_TARGET = frozenset({THROTTLED, LEASE_ENDED, DEADLINE_PASSED})


class TargetGate:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        limits: Limits,
        policies: Mapping[str, TargetPolicy],
        default: TargetPolicy,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._policies = policies
        self._default = default
        self._untroubled_until: dict[str, datetime] = {}

    def policy(self, submission_target: str) -> TargetPolicy:
        return self._policies.get(submission_target, self._default)

    async def admit(self, submission_target: str, want: int) -> Admission | None:
        """None: all of them, the target is untroubled and unlimited."""
        policy, now = self.policy(submission_target), self._clock.now()
        if policy.rate_per_second is None:
            if now < self._untroubled_until.get(submission_target, now):
                return None
            state = await self._store.read(targets.state_of(submission_target))
            if state is None or state.is_untroubled:
                self._remember(submission_target, now)
                return None

        def change(state: TargetState) -> tuple[TargetState, Admission]:
            admission = admit(state, policy, want, now)
            return admission.state, admission

        return await self._store.write(targets.change_state(submission_target, policy, change, now))

    async def report(self, submission_target: str, results: list[CallResult]) -> None:
        """Only trouble, or the end of it, is written down."""
        seen, now = summary(results), self._clock.now()
        trouble = seen.failures > 0 or seen.retry_after_seconds is not None
        if not trouble and now < self._untroubled_until.get(submission_target, now):
            return
        policy = self.policy(submission_target)

        def change(state: TargetState) -> tuple[TargetState, tuple[TargetState, TargetState]]:
            after = report(state, policy, seen, now)
            return after, (state, after)

        before, after = await self._store.write(
            targets.change_state(submission_target, policy, change, now)
        )
        if after.is_untroubled:
            self._remember(submission_target, now)
        else:
            self._untroubled_until.pop(submission_target, None)
        if {before.breaker, after.breaker} == {Breaker.CLOSED, Breaker.OPEN}:
            log.warning("breaker_" + after.breaker.value, submission_target=submission_target)

    def _remember(self, submission_target: str, now: datetime) -> None:
        trust = timedelta(seconds=self._limits.gate_trust_seconds)
        self._untroubled_until[submission_target] = now + trust


def summary(results: list[CallResult]) -> Report:
    answered = failures = 0
    retry_after: float | None = None
    for result in results:
        if isinstance(result, Accepted):
            answered += 1
            continue
        asked = result.retry_after_seconds
        if isinstance(result, AttemptError):
            failures += result.code not in NO_FAULT_OF_THE_TARGET
        else:
            answered += 1
        if asked is not None:
            retry_after = max(retry_after or 0.0, asked)
    return Report(answered, failures, retry_after)
