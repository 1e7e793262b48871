"""Times as text: RFC 3339 in UTC, the form that keys, documents and people see."""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
