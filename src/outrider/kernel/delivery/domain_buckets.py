"""Domain buckets: what this process knows of one recipient domain, and has not reported yet."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from outrider.domain.domain_limits import DomainLimits
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.targets import PROBE_LOOK_SECONDS, Report
from outrider.kernel.transactions.domain_doors import Drawn
from outrider.limits.delivery import (
    ANSWERS_LATELY_SECONDS,
    LONGEST_TURN_SECONDS,
    SHARE_LOOK_SECONDS,
)

TURNS_PER_SECOND = 20.0
MESSAGES_PER_TURN = 100
"""How many messages come back together to a domain without a rate, and how often."""


@dataclass
class Bucket:
    limits: DomainLimits
    most_at_once: int
    """The most calls of this process, where connections are not limited."""
    granted: int = 0
    granted_until: datetime | None = None
    wait_until: datetime | None = None
    is_throttled: bool = False
    epoch: int = 0
    is_probing: bool = False
    in_use: int = 0
    ended_at: float = float("-inf")
    """When a call to it ended last, by a monotonic clock."""
    share: int | None = None
    share_until: datetime | None = None
    next_turn: datetime | None = None
    unreported: list[Report] = field(default_factory=list)

    def free(self, now: datetime) -> int:
        """How many calls may begin without asking the database."""
        if self.granted_until is None or now >= self.granted_until:
            return 0
        return max(0, min(self.granted, self._at_once(now) - self.in_use))

    def may_ask(self, now: datetime) -> bool:
        """Whether the database might grant more."""
        if self.wait_until is not None and now < self.wait_until:
            return False
        return self.share_is_old(now) or self._at_once(now) > self.in_use

    def share_is_old(self, now: datetime) -> bool:
        if self.limits.connections is None:
            return False
        return self.share_until is None or now >= self.share_until

    def _at_once(self, now: datetime) -> int:
        if self.limits.connections is None:
            return self.most_at_once
        return 0 if self.share_is_old(now) else self.share or 0

    def answers(self, monotonic: float) -> bool:
        """Whether calls to it have been ending lately."""
        return monotonic - self.ended_at < ANSWERS_LATELY_SECONDS

    def is_idle(self, now: datetime) -> bool:
        return not (
            self.in_use
            or self.unreported
            or self.free(now)
            or (self.next_turn is not None and now < self.next_turn)
        )

    @property
    def waits_for(self) -> WaitsFor:
        return WaitsFor.DOMAIN_THROTTLED if self.is_throttled else WaitsFor.DOMAIN_LIMIT

    @property
    def messages_per_turn(self) -> int:
        rate = self.limits.rate_per_second
        return MESSAGES_PER_TURN if rate is None else max(1, int(rate))

    def turn(self, earliest: datetime) -> datetime:
        """When messages that are set aside now come back: one turn after another, so that not all
        of them look at the same time."""
        rate = self.limits.rate_per_second
        seconds = 1 / TURNS_PER_SECOND if rate is None else self.messages_per_turn / rate
        earliest = max(earliest, self.wait_until or earliest)
        turn, longest = earliest, earliest + timedelta(seconds=LONGEST_TURN_SECONDS)
        if self.next_turn is not None:
            turn = max(turn, self.next_turn)
        self.next_turn = min(turn, longest) + timedelta(seconds=seconds)
        return min(turn, longest)

    def learn(
        self,
        calls: int,
        found: Drawn,
        now: datetime,
        granted_until: datetime,
        share_until: datetime,
    ) -> None:
        """What the database granted, if `calls` were asked for."""
        self.epoch = found.epoch
        self.is_throttled = not found.is_open
        self.wait_until = found.wait_until
        if not calls:
            return
        self.granted, self.is_probing = found.granted, found.is_probe
        self.granted_until = granted_until
        if found.is_probe:
            self.wait_until = now + timedelta(seconds=PROBE_LOOK_SECONDS)
        if found.share is not None:
            self.share, self.share_until = found.share, share_until
            if not found.share:
                # Another worker holds all of them for now.
                look = now + timedelta(seconds=SHARE_LOOK_SECONDS)
                self.share_until = min(share_until, look)
                self.wait_until = max(look, self.wait_until or look)

    def take(self) -> None:
        self.granted -= 1
        self.in_use += 1

    def put_back(self, count: int) -> None:
        """These were taken, and are not called."""
        self.granted += count
        self.in_use -= count

    def return_probe(self) -> None:
        """A probe that nobody used in time is another's."""
        if self.is_probing and self.granted:
            self.unreported.append(Report(self.epoch, unused=1))
        self.granted, self.is_probing = 0, False

    def close(self, epoch: int, retry_after_seconds: float | None, reason: str | None) -> None:
        """It asked to retry later: what was admitted before no longer begins."""
        self.unreported.append(
            Report(
                epoch, throttled=1, retry_after_seconds=retry_after_seconds, in_flight=0,
                reason=reason,
            )
        )  # fmt: skip
        if self.epoch == epoch:
            self.epoch += 1
        self.granted, self.is_throttled, self.is_probing = 0, True, False
        self.wait_until = None

    def answered(self, epoch: int) -> None:
        if epoch == self.epoch and (self.is_throttled or self.is_probing):
            self.unreported.append(Report(epoch, answered=1))
            self.wait_until, self.is_probing = None, False

    def not_begun(self, epoch: int) -> None:
        if epoch == self.epoch and self.is_probing:
            self.unreported.append(Report(epoch, unused=1))
            self.wait_until, self.is_probing = None, False
