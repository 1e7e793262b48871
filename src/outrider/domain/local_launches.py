"""A launch at local time: each recipient is sent to when it is that time where they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

FIRST_ZONE = timezone(timedelta(hours=14))
"""Where every day begins."""


@dataclass(frozen=True, slots=True)
class LocalLaunch:
    at: datetime
    """A time on the wall, without a zone."""
    fallback_zone: str
    """For recipients whose zone is not known."""

    @property
    def begins_at(self) -> datetime:
        """When it is that time somewhere for the first time: nobody can be sent to before."""
        return self.at.replace(tzinfo=FIRST_ZONE).astimezone(UTC)

    def instant(self, zones: Sequence[tzinfo]) -> datetime:
        """For a recipient who may be in any of these zones: when it has come in all of them. A time
        that clocks skip is as long after the change as it would have been without it."""
        return max(self.at.replace(tzinfo=zone).astimezone(UTC) for zone in zones)

    def as_document(self) -> dict[str, str]:
        return {"local": self.at.isoformat(), "fallbackZone": self.fallback_zone}
