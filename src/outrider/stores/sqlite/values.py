"""How times are written in SQLite, which has no type for them."""

from datetime import UTC, datetime


def time_to_text(moment: datetime) -> str:
    """Always in UTC and with microseconds: text order is time order."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
