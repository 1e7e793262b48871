"""Reads a message's attachments before its attempt opens, by artifact reference or from base64.

The result is the enclosures, or a description of what is wrong. An artifact is requested with the
hash of its bytes, so nobody can attach a file they do not know.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from outrider.domain.artifacts import uri_problem
from outrider.domain.errors import ArtifactsUnavailable, InvalidInput, NotFound
from outrider.domain.message_content import Attachment, Enclosure, MessageContent, decoded
from outrider.limits.workflows import ENCLOSURES_MAX_BYTES
from outrider.ports.artifacts import ArtifactStore

BASE64_GROUP_BYTES, BASE64_GROUP_CHARACTERS = 3, 4


class EnclosureReader:
    def __init__(self, artifacts: ArtifactStore, max_bytes: int = ENCLOSURES_MAX_BYTES) -> None:
        self._artifacts = artifacts
        self._max_bytes = max_bytes

    async def read(self, message: MessageContent) -> list[Enclosure] | str:
        """All of them, or what is wrong with one. ArtifactsUnavailable: they may be readable
        later."""
        enclosures: list[Enclosure] = []
        left = self._max_bytes
        for attachment in message.attachments:
            content = await self._content(attachment, left)
            if isinstance(content, str):
                return content
            left -= len(content)
            enclosures.append(Enclosure(attachment.name, attachment.content_type, content))
        return enclosures

    async def _content(self, attachment: Attachment, most: int) -> bytes | str:
        if attachment.base64 is not None:
            return self._inline(attachment.name, attachment.base64, most)
        name, reference = attachment.name, attachment.artifact or ""
        if wrong := uri_problem(reference):
            # Not repeated: it may contain a signature by mistake.
            return f"the artifact of the attachment '{name}' {wrong}"
        try:
            content = await _read(self._artifacts.read(reference), most)
        except (NotFound, InvalidInput):
            return _not_there(name)
        except OSError as error:
            raise ArtifactsUnavailable(
                f"the artifacts cannot be read: {error.strerror}",
                hint="check OUTRIDER_ARTIFACTS and its disk",
            ) from error
        if content is None:
            return _not_there(name)
        if hashlib.sha256(content).hexdigest() != (attachment.sha256 or "").lower():
            return _not_there(name)
        return content

    def _inline(self, name: str, text: str, most: int) -> bytes | str:
        # Checked before decoding; padding in the last group can mean two bytes fewer.
        if len(text) // BASE64_GROUP_CHARACTERS * BASE64_GROUP_BYTES > most + 2:
            return self._too_large()
        content = decoded(text)
        if content is None:
            return f"the attachment '{name}' is not in base64"
        return content if len(content) <= most else self._too_large()

    def _too_large(self) -> str:
        return f"the attachments have more than {self._max_bytes:,} bytes together"


def _not_there(name: str) -> str:
    """The same for missing, different and too large, so that guessing names reveals nothing."""
    return f"the attachment '{name}' has no artifact with this sha256, or is too large"


async def _read(pieces: AsyncIterator[bytes], most: int) -> bytes | None:
    """None if there is more than that; the rest is not read."""
    content = bytearray()
    try:
        async for piece in pieces:
            content += piece
            if len(content) > most:
                return None
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    return bytes(content)
