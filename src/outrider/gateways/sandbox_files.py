"""What the simulator records of a message's attachments: enough to recognise each of them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from email.parser import BytesParser
from email.policy import default as STRICTLY_READ
from typing import Any, NamedTuple

from outrider.domain.message_content import decoded


class ReceivedFile(NamedTuple):
    name: str
    content_type: str
    size_bytes: int
    sha256: str

    def as_document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "contentType": self.content_type,
            "size": self.size_bytes,
            "sha256": self.sha256,
        }


def files_of_mail(headers: Message, message: bytes) -> Sequence[ReceivedFile]:
    """Only a multipart message is read whole: most have no files, and speed matters here."""
    if headers.get_content_maintype() != "multipart":
        return ()
    whole = BytesParser(policy=STRICTLY_READ).parsebytes(message)
    return [
        received_file(part.get_filename() or "", part.get_content_type(), _content(part))
        for part in whole.walk()
        if part.get_content_disposition() == "attachment"
    ]


def files_of_resend(document: Mapping[str, Any]) -> Sequence[ReceivedFile] | None:
    """None if they are not in Resend's format."""
    return files_of(document.get("attachments", []), "filename", "content", "content_type")


def files_of(given: Any, name: str, data: str, kind: str = "") -> Sequence[ReceivedFile] | None:
    """A list of JSON objects with base64 in them, under these names; None if it is none."""
    if not isinstance(given, list):
        return None
    files = list(_files(given, name, data, kind))
    return files if len(files) == len(given) else None


def _files(given: Sequence[Any], name: str, data: str, kind: str) -> Iterator[ReceivedFile]:
    for each in given:
        if not isinstance(each, dict):
            return
        called, content = each.get(name), each.get(data)
        raw = decoded(content) if isinstance(content, str) else None
        if not isinstance(called, str) or not called or raw is None:
            return
        yield received_file(called, str(each.get(kind, "")), raw)


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def received_file(name: str, content_type: str, content: bytes) -> ReceivedFile:
    return ReceivedFile(name, content_type, len(content), hashlib.sha256(content).hexdigest())
