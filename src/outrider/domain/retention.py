"""Retention: how old something has to be, and by which keys it is recognised afterwards."""

import re
from datetime import datetime, timedelta

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import IdempotencyKey, idempotency_key

_AGE = re.compile(r"([1-9][0-9]{0,5})([dw])")
_DAYS = {"d": 1, "w": 7}
DAYS_MAX = 36_500


def parse_age(text: str) -> timedelta:
    """`90d` or `12w`."""
    found = _AGE.fullmatch(text)
    days = int(found[1]) * _DAYS[found[2]] if found else 0
    if not 0 < days <= DAYS_MAX:
        raise InvalidInput(f"'{text}' is not an age", hint="write days or weeks: 90d, 12w")
    return timedelta(days=days)


def first_id_at(moment: datetime) -> str:
    """An id that sorts before all that are made from this time on."""
    digits = f"{max(0, int(moment.timestamp() * 1000)):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def event_memory_key(event_id: str) -> IdempotencyKey:
    """By which a retired event is recognised. Its sender's id may contain anything."""
    return idempotency_key("event", event_id.encode().hex())


def receipt_memory_key(submission_target: str, receipt_id: str) -> IdempotencyKey:
    return idempotency_key("receipt", submission_target.encode().hex(), receipt_id.encode().hex())
