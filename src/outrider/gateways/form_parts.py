"""A form with files (RFC 7578), for providers that take attachments no other way."""

import re
from collections.abc import Mapping, Sequence

from yarl import URL

from outrider.domain.message_content import Enclosure
from outrider.gateways.mail_parts import boundary, safe_kind, safe_name
from outrider.gateways.provider import Request

_BREAKS = {ord("\r"): "%0D", ord("\n"): "%0A", ord('"'): "%22"}
"""As browsers write them in a name (WHATWG, multipart/form-data)."""


def multipart_request(
    url: URL,
    fields: Mapping[str, str],
    file_field: str,
    files: Sequence[Enclosure],
    headers: Mapping[str, str],
    reference: str,
) -> Request:
    """The same bytes for every attempt."""
    parts = [(f'name="{_name(name)}"', value.encode()) for name, value in fields.items()]
    for each in files:
        kind = safe_kind(each.content_type)
        described = f'name="{file_field}"; filename="{_name(safe_name(each.name))}"'
        parts.append((f"{described}\r\nContent-Type: {kind}", each.content))
    edge = _edge(reference, [content for _, content in parts])
    pieces = [
        f"--{edge}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + content + b"\r\n"
        for head, content in parts
    ]
    body = b"".join([*pieces, f"--{edge}--\r\n".encode()])
    return Request(url, body, f"multipart/form-data; boundary={edge}", headers)


def _edge(reference: str, contents: Sequence[bytes]) -> str:
    """Contents are not encoded, so that the boundary must not occur in any of them."""
    edge = re.sub(r"[^A-Za-z0-9]", "", boundary(reference))
    while any(edge.encode() in content for content in contents):
        edge += "x"
    return edge


def _name(text: str) -> str:
    return text.translate(_BREAKS)
