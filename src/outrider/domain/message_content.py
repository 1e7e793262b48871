"""The content of a workflow's item, as the ledger keeps it in its payload.

A payload is written once, when the item is enqueued, and read before each attempt. Another program
may have written it, so malformed content is reported as a problem, not raised.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from outrider.domain.texts import breaks_header

ATTACHMENTS_MAX = 10
ATTACHMENT_NAME_MAX_CHARACTERS = 200


class Enclosure(NamedTuple):
    """An attachment with its bytes, ready for a gateway."""

    name: str
    content_type: str
    content: bytes


class Attachment(NamedTuple):
    """An attached file: its bytes in base64, or an artifact and its hash."""

    name: str
    content_type: str
    base64: str | None = None
    artifact: str | None = None
    sha256: str | None = None

    def as_document(self) -> dict[str, object]:
        known = {"name": self.name, "contentType": self.content_type}
        others = {"base64": self.base64, "artifact": self.artifact, "sha256": self.sha256}
        return {**known, **{name: each for name, each in others.items() if each is not None}}


class MessageContent(NamedTuple):
    subject: str | None
    body: str
    attachments: tuple[Attachment, ...] = ()
    time_zone: str | None = None
    """The recipient's own time zone, if the event gave it."""
    html: bool = False

    def as_document(self) -> dict[str, object]:
        document: dict[str, object] = {"body": self.body}
        if self.subject is not None:
            document["subject"] = self.subject
        if self.attachments:
            document["attachments"] = [each.as_document() for each in self.attachments]
        if self.time_zone is not None:
            document["timeZone"] = self.time_zone
        if self.html:
            document["html"] = True
        return document


def read_letter(document: Any) -> MessageContent | str:
    """The content, or what is wrong with it."""
    if not isinstance(document, Mapping):
        return "the payload is not an object"
    subject, body = document.get("subject"), document.get("body")
    zone, given = document.get("timeZone"), document.get("attachments", [])
    if not isinstance(body, str):
        return "the payload has no string 'body'"
    if not isinstance(subject, str | None) or not isinstance(zone, str | None):
        return "the payload's 'subject' and 'timeZone' should be strings"
    html = document.get("html", False)
    if not isinstance(html, bool):
        return "the payload's 'html' should be true or false"
    if not isinstance(given, list) or len(given) > ATTACHMENTS_MAX:
        return f"the payload's 'attachments' should be a list of at most {ATTACHMENTS_MAX}"
    attachments = []
    for each in given:
        attachment = read_attachment(each)
        if isinstance(attachment, str):
            return attachment
        attachments.append(attachment)
    return MessageContent(subject, body, tuple(attachments), zone, html)


def read_attachment(document: Any) -> Attachment | str:
    if not isinstance(document, Mapping):
        return "an attachment is not an object"
    fields = ("name", "contentType", "base64", "artifact", "sha256")
    name, content_type, inline, artifact, sha256 = (document.get(field) for field in fields)
    if not isinstance(name, str) or not isinstance(content_type, str):
        return "an attachment requires the strings 'name' and 'contentType'"
    if not 0 < len(name) <= ATTACHMENT_NAME_MAX_CHARACTERS:
        return f"an attachment's name should have 1-{ATTACHMENT_NAME_MAX_CHARACTERS} characters"
    if breaks_header(name):
        return "an attachment's name should have no control characters"
    if not content_type.isascii() or not content_type.isprintable() or "/" not in content_type:
        return f"the attachment '{name}' has no content type such as application/pdf"
    if (inline is None) == (artifact is None):
        return f"the attachment '{name}' requires either 'base64' or 'artifact'"
    if artifact is not None and not (isinstance(artifact, str) and isinstance(sha256, str)):
        return f"the attachment '{name}' requires the strings 'artifact' and 'sha256'"
    if inline is not None and (not isinstance(inline, str) or decoded(inline) is None):
        return f"the attachment '{name}' is not in base64"
    return Attachment(name, content_type, inline, artifact, sha256 if artifact else None)


def decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
