"""Request bodies: bounded before they are read whole, and JSON that is nothing but JSON."""

import re
from typing import Any

from starlette.requests import Request

from outrider.api.errors import ApiError
from outrider.documents import Problems, load_json
from outrider.settings import BODY_DRAINED_BYTES

_SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])|\x00|\xed[\xa0-\xbf]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


def too_large(most: int) -> ApiError:
    return ApiError(
        413,
        "BODY_TOO_LARGE",
        f"the body has more than {most:,} bytes",
        # What is left of it will not be read, so the connection cannot be used again.
        headers={"Connection": "close"},
    )


def check_length(request: Request, most: int) -> None:
    """Refuse by what the client announces, before anything of it is read."""
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
        raise too_large(most)


async def read_bounded(request: Request, most: int) -> bytes:
    """What is a little too large is read on, and thrown away: a client that is cut off while it
    writes never reads why."""
    check_length(request, most)
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > most + BODY_DRAINED_BYTES:
            break
        if size <= most:
            pieces.append(piece)
    if size > most:
        raise too_large(most)
    return b"".join(pieces)


def require_json(request: Request) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in ("", "application/json") and not given.endswith("+json"):
        raise ApiError(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "the body should be JSON",
            hint="send Content-Type: application/json",
        )


def strict_json(raw: bytes) -> object:
    """No field twice, no NaN, no NUL, no half characters, not too deep; or every problem."""
    problems = Problems("body")
    given = load_json(raw, problems)
    if _SUSPECT.search(raw) and _holds_unstorable(given):
        problems.add("", "must not contain NUL or broken Unicode")
    if problems:
        raise problems.error()
    return given


def _holds_unstorable(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if _UNSTORABLE.search(each):
                return True
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            left += each
    return False
