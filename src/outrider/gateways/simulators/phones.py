"""What the simulated SMS providers share."""

import hashlib
import re
from typing import Final

_PHONE = re.compile(r"\+?[0-9]+\Z")
INVALID_NUMBER: Final = "15005550001"
"""Twilio's own test number for an invalid recipient; the others reuse it here."""
OUR_NUMBER: Final = "+15550001111"


def is_refused(to: str) -> bool:
    return _PHONE.match(to) is None or to.lstrip("+") == INVALID_NUMBER


def with_plus(to: str) -> str:
    return to if to.startswith("+") else f"+{to}"


def inbound_id(report_id: str) -> str:
    """Of a message that came in."""
    return hashlib.sha256(report_id.encode()).hexdigest()[:32]
