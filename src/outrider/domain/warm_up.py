"""A warm-up plan: how many messages a target sends on each of its first days, as pure state. A
recipient domain of it may have a plan of its own.

A day counts once something was sent on it, so a plan does not advance over days without messages.
After the last day there is no limit.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from outrider.domain.sending_hours import zone_named


@dataclass(frozen=True, slots=True)
class WarmUpPlan:
    messages: tuple[int, ...]
    """The most messages of the first day, the second, and so on."""
    time_zone: str = "UTC"
    """Where its days begin."""

    def limit(self, days_before: int) -> int | None:
        """None: the plan is over."""
        return self.messages[days_before] if days_before < len(self.messages) else None

    def day(self, now: datetime) -> str:
        return now.astimezone(self._zone).date().isoformat()

    def next_day(self, now: datetime) -> datetime:
        """When the next day begins there, in UTC. Where clocks skip midnight, after the change."""
        local = now.astimezone(self._zone)
        tomorrow = local.date() + timedelta(days=1)
        midnight = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=self._zone)
        return midnight.astimezone(UTC)

    @property
    def _zone(self) -> tzinfo:
        return zone_named(self.time_zone) or UTC


class WarmUp:
    """A target's plan, and what this process knows of it; the database counts."""

    def __init__(self, submission_target: str, plan: WarmUpPlan, domain: str = "") -> None:
        self.submission_target = submission_target
        self.plan = plan
        self.domain = domain
        """Whose messages count: those to this domain or mailbox provider; without one, all."""
        self.is_over = False
        self._used_up_until: datetime | None = None

    def learn(self, left: int | None, now: datetime) -> None:
        """How many more may be sent today; None: the plan is over."""
        self.is_over = left is None
        self._used_up_until = self.plan.next_day(now) if left is not None and left <= 0 else None

    def used_up_until(self, now: datetime) -> datetime | None:
        """None: as far as is known here, more may be sent today."""
        until = self._used_up_until
        return until if until is not None and now < until else None
