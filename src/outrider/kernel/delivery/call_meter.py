"""The call meter: counts calls and how long they took, in memory, for whoever scrapes this process.

A call costs it two additions. Labels are targets of the registry, channels and outcomes: few.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from outrider.domain.states import ItemStatus
from outrider.domain.submission import Verdict

CALL_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram's buckets."""

SENT, FAILED, IN_DOUBT, RETRIED, GIVEN_BACK = "sent", "failed", "in_doubt", "retried", "given_back"


@dataclass(slots=True)
class Durations:
    """Calls per bucket, the last of which has no bound; and their sum."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(CALL_SECONDS) + 1))
    seconds: float = 0.0


class CallMeter:
    def __init__(self) -> None:
        self.messages: dict[tuple[str, str, str], int] = {}
        """By channel, target and outcome."""
        self.durations: dict[str, Durations] = {}

    def note(self, channel: str, submission_target: str, verdict: Verdict, seconds: float) -> None:
        self.count(channel, submission_target, outcome_of(verdict), seconds)

    def count(self, channel: str, submission_target: str, outcome: str, seconds: float) -> None:
        key = channel, submission_target, outcome
        self.messages[key] = self.messages.get(key, 0) + 1
        taken = self.durations.get(submission_target)
        if taken is None:
            taken = self.durations[submission_target] = Durations()
        taken.buckets[bisect_left(CALL_SECONDS, seconds)] += 1
        taken.seconds += seconds


def outcome_of(verdict: Verdict) -> str:
    if verdict.in_doubt:
        return IN_DOUBT
    if verdict.given_back:
        return GIVEN_BACK
    if verdict.status is ItemStatus.QUEUED:
        return RETRIED
    return FAILED if verdict.status in (ItemStatus.FAILED, ItemStatus.SKIPPED) else SENT
