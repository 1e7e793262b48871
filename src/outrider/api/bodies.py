"""Request bodies: bounded before they are read whole, and strict JSON."""

import asyncio

from starlette.requests import Request

from outrider import documents
from outrider.api.errors import ApiError
from outrider.limits.api import BODY_DRAINED_BYTES, ApiLimits


def too_large(most: int) -> ApiError:
    return ApiError(
        413,
        "BODY_TOO_LARGE",
        f"the body has more than {most:,} bytes",
        # The rest of it will not be read, so the connection cannot be reused.
        headers={"Connection": "close"},
    )


def check_length(request: Request, most: int) -> None:
    """Refuse by the announced size, before reading any of it."""
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
        raise too_large(most)


def announced_bytes(request: Request, most: int) -> int:
    """The size of the body; without an announced size it may be as large as allowed."""
    return int(request.headers.get("content-length", most))


async def read_bounded(request: Request, most: int) -> bytes:
    """A slightly oversized body is read and discarded: a client that is cut off while it writes
    never reads the reason."""
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


async def strict_json(raw: bytes, here_max_bytes: int = ApiLimits.json_here_max_bytes) -> object:
    """Parses with `documents.strict_json`; in a thread if it would take a while."""
    if len(raw) <= here_max_bytes:
        return documents.strict_json(raw)
    return await asyncio.to_thread(documents.strict_json, raw)
