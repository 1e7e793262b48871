"""What push families have in common: options of a message, and the names by which a repeat replaces
the first on the device."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from outrider.domain.errors import InvalidInput

COLLAPSE_ID_MAX_BYTES: Final = 64
"""https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns"""
TOPIC_MAX_CHARACTERS: Final = 32
"""https://www.rfc-editor.org/rfc/rfc8030#section-5.4"""


def collapse_id(reference: str) -> str:
    if len(reference.encode()) <= COLLAPSE_ID_MAX_BYTES:
        return reference
    return hashlib.sha256(reference.encode()).hexdigest()


def topic(reference: str) -> str:
    """In the URL-safe alphabet, which is all that a topic may have."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(reference.encode()).digest())
    return digest.decode()[:TOPIC_MAX_CHARACTERS]


def ttl_seconds(given: object, most: int) -> int | None:
    """Of an option or a payload. InvalidInput: it is not such a number."""
    if given is None:
        return None
    try:
        seconds = int(given) if isinstance(given, str | int) else -1
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= most:
        raise InvalidInput(f"ttlSeconds is not a number from 0 to {most}")
    return seconds


def text_data(given: object) -> dict[str, str]:
    """For providers whose data is text only: another type would be refused after the call."""
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise InvalidInput("the payload's 'data' is not an object of strings")
    return given


def object_of(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object of a direct intent's payload; empty if it has none."""
    found = payload.get(name, {})
    if not isinstance(found, dict):
        raise InvalidInput(f"the payload's '{name}' is not an object")
    return found


def merged(usual: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a message says of itself, over what its family would say. Objects are merged field by
    field; of anything else, the given one is taken."""
    result = dict(usual)
    for name, value in given.items():
        known = result.get(name)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[name] = merged(known, value)
        else:
            result[name] = value
    return result
