"""Request bodies: bounded before they are read whole, and JSON that is nothing but JSON."""

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
        # What is left of it will not be read, so the connection cannot be used again.
        headers={"Connection": "close"},
    )


def check_length(request: Request, most: int) -> None:
    """Refuse by what the client announces, before anything of it is read."""
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
        raise too_large(most)


def announced_bytes(request: Request, most: int) -> int:
    """How large the body is; one that does not say may become as large as any."""
    return int(request.headers.get("content-length", most))


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


async def strict_json(raw: bytes, here_max_bytes: int = ApiLimits.json_here_max_bytes) -> object:
    """What `documents.strict_json` reads; not in the event loop where it would take a while."""
    if len(raw) <= here_max_bytes:
        return documents.strict_json(raw)
    return await asyncio.to_thread(documents.strict_json, raw)
