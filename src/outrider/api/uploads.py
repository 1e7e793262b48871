"""Large bodies: streamed to a file of the server, which is deleted with the request."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog
from fastapi import Request
from starlette.responses import Response

from outrider.api.bodies import announced_bytes, check_length, too_large
from outrider.api.context import services_of
from outrider.api.errors import ApiError
from outrider.api.idempotency import key_of, request_key
from outrider.api.route import answered
from outrider.domain.keys import Principal
from outrider.files.private_files import new_private_file
from outrider.limits.api import UPLOAD_PIECE_BYTES, ApiLimits

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Upload:
    path: Path
    sha256: str


@asynccontextmanager
async def received(
    request: Request, asker: Principal, most_bytes: int, name: str
) -> AsyncIterator[Upload]:
    """The body as a file, for the duration of the block."""
    check_length(request, most_bytes)
    size = announced_bytes(request, most_bytes)
    services = services_of(request)
    async with services.uploads.holding(asker.scope, size):
        try:
            with tempfile.TemporaryDirectory(dir=services.upload_folder.path) as folder:
                path = Path(folder) / name
                with new_private_file(path) as file:
                    digest = await _store(request, file, most_bytes)
                yield Upload(path, digest)
        except OSError as error:
            log.error("upload_not_kept", error=str(error))
            raise _not_kept() from error


def _not_kept() -> ApiError:
    return ApiError(
        503,
        "UPLOAD_NOT_KEPT",
        "the upload could not be stored while it was read",
        hint="the server's temporary folder may be full; try again later",
        # The rest of it will not be read, so the connection cannot be reused.
        headers={"Retry-After": str(ApiLimits.retry_after_seconds), "Connection": "close"},
    )


async def answer_once(
    request: Request, asker: Principal, upload: Upload, work: Callable[[], Awaitable[Response]]
) -> Response:
    """The first answer, if the request has a key and was answered before."""
    key = key_of(request.headers)
    if key is None:
        return await work()
    return await services_of(request).once.answer(
        request_key(request, asker.scope, key, upload.sha256), answered(work)
    )


async def _store(request: Request, file: BinaryIO, most_bytes: int) -> str:
    """The SHA-256 of the received bytes."""
    digest, size = hashlib.sha256(), 0
    pieces: list[bytes] = []
    waiting = 0

    def keep(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    async for piece in request.stream():
        size += len(piece)
        if size > most_bytes:
            raise too_large(most_bytes)
        pieces.append(piece)
        waiting += len(piece)
        if waiting >= UPLOAD_PIECE_BYTES:
            await asyncio.to_thread(keep, b"".join(pieces))
            pieces, waiting = [], 0
    await asyncio.to_thread(keep, b"".join(pieces))
    return digest.hexdigest()
