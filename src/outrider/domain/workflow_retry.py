"""How often a workspace's workflow messages are tried, and how long it waits in between.

Six calls use all five waits of the contract: 1, 2, 4, 8 and 16 minutes, 31 in all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from outrider.domain.retry import WORKFLOW_FINAL_REASONS, Patience, RetrySchedule

SECONDS_PER_MINUTE = 60
WAITS_TOLD_MAX = 8


@dataclass(frozen=True)
class WorkflowRetry:
    attempts: int = 6
    first_seconds: float = 60.0
    factor: float = 2.0
    cap_seconds: float = 3_600.0

    @cached_property
    def patience(self) -> Patience:
        schedule = RetrySchedule(self.first_seconds, self.factor, self.cap_seconds)
        return Patience(schedule, self.attempts, WORKFLOW_FINAL_REASONS)

    def waits_seconds(self) -> list[float]:
        """Between the calls; a provider's own Retry-After may make each of them longer."""
        return [self.patience.schedule.delay_seconds(made) for made in range(1, self.attempts)]

    @property
    def gives_up_after_seconds(self) -> float:
        return sum(self.waits_seconds())

    def in_words(self) -> str:
        waits = [_short(each) for each in self.waits_seconds()]
        if not waits:
            return "one call, no retries"
        listed = ", ".join(waits[:WAITS_TOLD_MAX]) + (", …" if len(waits) > WAITS_TOLD_MAX else "")
        after = _long(self.gives_up_after_seconds)
        return f"{self.attempts} calls, with waits of {listed}; gives up after {after}"

    def as_document(self) -> dict[str, Any]:
        return {
            "attempts": self.attempts,
            "firstSeconds": self.first_seconds,
            "factor": self.factor,
            "capSeconds": self.cap_seconds,
        }


USUAL_RETRY = WorkflowRetry()


def retry_from(document: Mapping[str, Any]) -> WorkflowRetry:
    """Reads what `as_document` wrote; user input is parsed strictly elsewhere."""
    return WorkflowRetry(
        document["attempts"], document["firstSeconds"], document["factor"], document["capSeconds"]
    )


def _short(seconds: float) -> str:
    if seconds >= SECONDS_PER_MINUTE:
        return f"{seconds / SECONDS_PER_MINUTE:.4g} min"
    return f"{seconds:.4g} s"


def _long(seconds: float) -> str:
    if seconds < SECONDS_PER_MINUTE:
        return f"{seconds:.4g} seconds"
    minutes = f"{seconds / SECONDS_PER_MINUTE:.4g}"
    return "1 minute" if minutes == "1" else f"{minutes} minutes"
