"""A submission target's door: token bucket, slow-down and circuit breaker, as pure state.

`admit` says how many calls may start now, or when to ask again; `report` takes in how calls ended.
Neither ever costs an item an attempt: what is not admitted waits.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from outrider.domain.retry import DIRECT, RetrySchedule


class Breaker(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """How a target is executed: settings of ours, never terms of its contract."""

    rate_per_second: float | None = None
    burst: int = 1
    breaker_failures: int = 20
    breaker_seconds: float = 15.0
    retry: RetrySchedule = DIRECT
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """What all workers share of a target."""

    tokens: float
    refilled_at: datetime
    resume_at: datetime | None = None
    failures: int = 0
    breaker: Breaker = Breaker.CLOSED
    probe_at: datetime | None = None

    @property
    def is_untroubled(self) -> bool:
        return self.resume_at is None and not self.failures and self.breaker is Breaker.CLOSED


@dataclass(frozen=True, slots=True)
class Admission:
    """`granted` calls may start; with none granted, ask again at `wait_until`."""

    granted: int
    wait_until: datetime | None
    state: TargetState


@dataclass(frozen=True, slots=True)
class Report:
    """How a window of calls ended. Failures are of the infrastructure: a rejection is an answer."""

    answered: int = 0
    failures: int = 0
    retry_after_seconds: float | None = None


def admit(state: TargetState, policy: TargetPolicy, want: int, now: datetime) -> Admission:
    assert want > 0, "nobody asks to make no call"
    if state.resume_at is not None and now < state.resume_at:
        return Admission(0, state.resume_at, state)
    match state.breaker:
        case Breaker.OPEN | Breaker.PROBING:
            if state.probe_at is not None and now < state.probe_at:
                return Admission(0, state.probe_at, state)
            # One call finds out for all. If its worker dies with it, another may try in a while.
            again = now + timedelta(seconds=policy.breaker_seconds)
            return Admission(1, None, replace(state, breaker=Breaker.PROBING, probe_at=again))
        case Breaker.CLOSED:
            return _draw_tokens(state, policy, want, now)
        case other:
            assert_never(other)


def _draw_tokens(state: TargetState, policy: TargetPolicy, want: int, now: datetime) -> Admission:
    rate = policy.rate_per_second
    if rate is None:
        return Admission(want, None, state)
    # A clock that went back must not take tokens away.
    passed = max(0.0, (now - state.refilled_at).total_seconds())
    tokens = min(float(policy.burst), state.tokens + passed * rate)
    granted = min(want, int(tokens))
    after = replace(state, tokens=tokens - granted, refilled_at=now)
    if granted:
        return Admission(granted, None, after)
    return Admission(0, now + timedelta(seconds=(1.0 - tokens) / rate), after)


def report(state: TargetState, policy: TargetPolicy, seen: Report, now: datetime) -> TargetState:
    resume_at = state.resume_at if state.resume_at and state.resume_at > now else None
    if seen.retry_after_seconds is not None:
        asked = now + timedelta(seconds=seen.retry_after_seconds)
        resume_at = max(asked, resume_at) if resume_at else asked
    state = replace(state, resume_at=resume_at)
    if seen.answered:
        return replace(state, failures=0, breaker=Breaker.CLOSED, probe_at=None)
    failures = state.failures + seen.failures
    probe_failed = seen.failures > 0 and state.breaker is Breaker.PROBING
    if probe_failed or (failures >= policy.breaker_failures and seen.failures):
        probe_at = now + timedelta(seconds=policy.breaker_seconds)
        return replace(state, failures=failures, breaker=Breaker.OPEN, probe_at=probe_at)
    return replace(state, failures=failures)
