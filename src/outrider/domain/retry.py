"""Retry schedules as pure functions; callers persist the result. Timing is never a contract
term."""

from dataclasses import dataclass

RETRY_AFTER_CAP_SECONDS = 3_600.0
"""A provider may ask for ten years; no single answer is honoured for more than an hour."""


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Delay before attempt n+1 is first × factor^(n-1), capped; jitter only adds to it."""

    first_seconds: float
    factor: float = 1.0
    cap_seconds: float = 3_600.0
    jitter_share: float = 0.0

    def delay_seconds(
        self, attempts: int, *, retry_after_seconds: float | None = None, jitter: float = 0.0
    ) -> float:
        """`jitter` is a random number in [0, 1) that the caller drew."""
        assert attempts >= 1, "a retry follows at least one attempt"
        # The exponent is bounded: factor ** 5000 overflows a float long before the cap helps.
        grown = self.first_seconds * self.factor ** min(attempts - 1, 64)
        delay = min(grown, self.cap_seconds)
        delay += delay * self.jitter_share * jitter
        if retry_after_seconds is not None:
            delay = max(delay, min(retry_after_seconds, RETRY_AFTER_CAP_SECONDS))
        return delay


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an item is tried, besides what its contract says; whichever ends first decides."""

    schedule: RetrySchedule
    most_attempts: int
    final_reasons: frozenset[str] = frozenset()
    """Provider reasons that no further attempt can fix."""


CALL_REPEATS_MAX = 3
"""How often the call of one attempt is repeated after its worker was lost; beyond it, in doubt."""
REPEATS_IN_ALL_MAX = 9
"""With those by which a settler asks for evidence afterwards, seldom. A message that costs its
worker each time is a person's matter from then on."""

DIRECT = RetrySchedule(first_seconds=5.0)
MAIL = RetrySchedule(first_seconds=60.0, factor=2.0, cap_seconds=7_200.0, jitter_share=0.1)
"""Mail servers say "later" and mean minutes (a greylist) or hours (RFC 5321, 4.5.4.1)."""
MAIL_DEADLINE_SECONDS = 900.0
"""Under a shorter deadline, the mail schedule would leave no time for a second attempt."""
BY_GATEWAY_TYPE = {"smtp": MAIL}


def usual_schedule(gateway_type: str, acceptance_seconds: float | None) -> RetrySchedule:
    """The retry policy of a target whose settings name none."""
    if acceptance_seconds is not None and acceptance_seconds < MAIL_DEADLINE_SECONDS:
        return DIRECT
    return BY_GATEWAY_TYPE.get(gateway_type, DIRECT)


WORKFLOW_FINAL_REASONS = frozenset(
    {
        "invalid_request",
        "invalid_recipient",
        "invalid_message",
        "invalid_header",
        "unauthorized",
        "unregistered_token",
        "suppressed",
        "message_refused",
    }
)
JOB = RetrySchedule(first_seconds=1.0, factor=2.0, cap_seconds=300.0, jitter_share=0.2)
REST = RetrySchedule(first_seconds=5.0, factor=2.0, cap_seconds=900.0, jitter_share=0.2)
"""For a job that keeps losing workers without progress: it is never given up for that."""
BUS = RetrySchedule(first_seconds=1.0, factor=2.0, cap_seconds=300.0, jitter_share=0.2)
"""With twenty attempts an event is given up on after about an hour."""
SINK_AWAY = RetrySchedule(first_seconds=1.0, factor=2.0, cap_seconds=30.0, jitter_share=0.2)
"""For a sink whose events are never given up: it is looked for often enough to be found soon."""
