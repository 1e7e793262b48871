"""Artifacts in an object store: S3, Google Cloud Storage, Azure, or this process's memory.

They are streamed in parts, so a put or a read holds only a few of them in memory; an object becomes
visible once complete. Credentials are the cloud's own: its environment variables, its role.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from outrider.domain.artifacts import refuse_name
from outrider.domain.errors import ArtifactsUnavailable, InvalidInput, NotFound
from outrider.limits.artifacts import (
    ARTIFACT_MAX_BYTES,
    ARTIFACT_PART_BYTES,
    ARTIFACT_PARTS_AT_ONCE,
    ARTIFACT_PIECE_BYTES,
    OBJECT_STORE_CONNECT_SECONDS,
    OBJECT_STORE_RETRIES,
    OBJECT_STORE_TIMEOUT_SECONDS,
)
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.artifacts import StoredArtifact

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CLOUDS = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
MEMORY = "memory"

Answer = TypeVar("Answer")


class ObjectArtifacts:
    """`s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `memory://name`."""

    def __init__(self, url: str) -> None:
        self._root = url.rstrip("/") + "/"
        self._store = _open(url)

    async def put(self, folder: str, name: str, content: AsyncIterator[bytes]) -> StoredArtifact:
        for part in (folder, name):
            refuse_name(part)
        writer = await _in_thread(self._writer, f"{folder}/{name}")
        digest, size = hashlib.sha256(), 0
        try:
            async for piece in content:
                size += len(piece)
                if size > ARTIFACT_MAX_BYTES:
                    raise InvalidInput(f"{name} is over {ARTIFACT_MAX_BYTES:,} bytes")
                digest.update(piece)
                await _in_thread(writer.write, piece)
            await _in_thread(writer.close)
        except BaseException as error:
            # Leaving with an error discards the uploaded parts; nothing becomes visible.
            await asyncio.to_thread(_give_up, writer, error)
            raise
        return StoredArtifact(f"{self._root}{folder}/{name}", digest.hexdigest(), size)

    async def read(self, reference: str) -> AsyncIterator[bytes]:
        pieces = await _in_thread(self._pieces, self._path(reference))
        if pieces is None:
            raise NotFound(
                f"the artifact {reference} was not found",
                hint="check that OUTRIDER_ARTIFACTS is the location that holds it",
            )
        while (piece := await _in_thread(next, pieces, None)) is not None:
            yield bytes(piece)

    def _writer(self, path: str) -> Any:
        import obstore

        return obstore.open_writer(
            self._store,
            path,
            buffer_size=ARTIFACT_PART_BYTES,
            max_concurrency=ARTIFACT_PARTS_AT_ONCE,
        )

    def _pieces(self, path: str) -> Iterator[Any] | None:
        import obstore

        try:
            found = obstore.get(self._store, path)
        except FileNotFoundError:
            return None
        return iter(found.stream(min_chunk_size=ARTIFACT_PIECE_BYTES))

    def _path(self, reference: str) -> str:
        path = reference.removeprefix(self._root)
        steps = path.split("/")
        try:
            for step in steps:
                refuse_name(step)
        except InvalidInput as error:
            raise NotFound("there is no such artifact") from error
        if not reference.startswith(self._root) or len(steps) != 2:
            raise NotFound(
                "there is no such artifact here",
                hint="check that OUTRIDER_ARTIFACTS is the location that holds it",
            )
        return path


async def _in_thread(work: Callable[..., Answer], *arguments: object) -> Answer:
    """The client's blocking side. Its asynchronous one sometimes aborts a process that ends."""
    from obstore.exceptions import BaseError

    try:
        return await asyncio.to_thread(work, *arguments)
    except (BaseError, OSError) as error:
        raise _unavailable(error) from error


def _give_up(writer: Any, error: BaseException) -> None:
    with suppress(Exception):
        writer.__exit__(type(error), error, error.__traceback__)


def _open(url: str) -> "ObjectStore":
    parts = urlsplit(url)
    if parts.scheme not in (*CLOUDS, MEMORY) or not parts.netloc:
        raise InvalidInput(
            "artifacts are kept in a folder or an object store, and this is neither",
            hint="use a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX",
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            "the artifact location must not contain a user name, password, query or fragment",
            hint="set credentials in the cloud provider's own environment variables",
        )
    try:
        from obstore.exceptions import BaseError
        from obstore.store import MemoryStore, from_url
    except ImportError as error:
        raise InvalidInput(
            "artifacts in an object store require the package obstore",
            hint='pip install "outrider[objects]"',
        ) from error
    if parts.scheme == MEMORY:
        return MemoryStore()
    try:
        return from_url(
            url,
            client_options={
                "allow_http": _allows_http(parts.scheme),
                "connect_timeout": timedelta(seconds=OBJECT_STORE_CONNECT_SECONDS),
                "timeout": timedelta(seconds=OBJECT_STORE_TIMEOUT_SECONDS),
            },
            retry_config={
                "max_retries": OBJECT_STORE_RETRIES,
                "retry_timeout": timedelta(seconds=OBJECT_STORE_TIMEOUT_SECONDS),
            },
        )
    except BaseError as error:
        raise InvalidInput(
            f"artifacts cannot be kept there: {_first_line(error)}",
            hint="set the cloud provider's own environment variables",
        ) from error


def _allows_http(scheme: str) -> bool:
    """Unencrypted only if the environment says so, as for a server on this machine."""
    return os.environ.get(f"{CLOUDS[scheme]}_ALLOW_HTTP", "").lower() == "true"


def _unavailable(error: Exception) -> ArtifactsUnavailable:
    return ArtifactsUnavailable(
        f"the object store failed: {_first_line(error)}",
        hint="check its address, the bucket and the credentials in the environment",
    )


def _first_line(error: Any) -> str:
    """The rest is internal to the client."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:ERROR_DETAIL_MAX_CHARACTERS]
