"""Where a page of a list ended, as one opaque text."""

import base64
import binascii
import re

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import is_uuid

_SEPARATOR = "\n"
_UNFIT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]")


def encode(*parts: str) -> str:
    raw = _SEPARATOR.join(parts).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(cursor: str, parts: int) -> list[str]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error, ValueError):
        raise _invalid() from None
    found = text.split(_SEPARATOR)
    if len(found) != parts or _UNFIT.search(text):
        raise _invalid()
    return found


def decode_ids(cursor: str, parts: int) -> list[str]:
    found = decode(cursor, parts)
    if not all(is_uuid(each) for each in found):
        raise _invalid()
    return found


def id_after(cursor: str | None, otherwise: str) -> str:
    return decode_ids(cursor, 1)[0] if cursor is not None else otherwise


def _invalid() -> InvalidInput:
    return InvalidInput(
        "the cursor is not valid for this list",
        [Problem("after", "should be the `next` of a previous page")],
    )
