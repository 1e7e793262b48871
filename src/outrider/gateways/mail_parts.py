"""The parts of an e-mail: its text in two forms, and its files, become one multipart body.

A file's bytes are in base64, so no line of them is a boundary; its name and type are written so
that nothing in them ends a header or names a folder.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from outrider.domain.message_content import Enclosure

NAME_PIECE_MAX_CHARACTERS: Final = 50
UNKNOWN_KIND: Final = "application/octet-stream"

_TOKEN = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_KIND = re.compile(rf"{_TOKEN}/{_TOKEN}(; ?{_TOKEN}={_TOKEN})?")
_OTHER_MESSAGES = ("multipart/", "message/")


class Part(NamedTuple):
    """Headers with bare line feeds, and content with mail line ends; the last one is left out."""

    headers: str
    content: bytes


def mixed(text: Part, reference: str, enclosures: Sequence[Enclosure]) -> Part:
    """The text and then the files."""
    return _joined("mixed", boundary(reference), (text, *map(_enclosed, enclosures)))


def alternative(plain: Part, rich: Part, reference: str) -> Part:
    """The same in two forms; a program shows the last one that it understands (RFC 2046, 5.1.4)."""
    return _joined("alternative", boundary(reference, "text_"), (plain, rich))


def _joined(kind: str, edge: str, parts: Iterable[Part]) -> Part:
    pieces: list[bytes] = []
    for part in parts:
        head = f"--{edge}\n{part.headers}\n".replace("\n", "\r\n")
        # The line end before a boundary belongs to the boundary.
        pieces += (head.encode("ascii"), part.content, b"\r\n")
    pieces.append(f"--{edge}--".encode("ascii"))
    headers = f'Content-Type: multipart/{kind};\n boundary="{edge}"\n'
    return Part(headers, b"".join(pieces))


def boundary(reference: str, use: str = "") -> str:
    """The same for every attempt. Its `=_` is in no encoded part, and in no part that is not."""
    return f"=_outrider_{use}{hashlib.sha256(reference.encode()).hexdigest()[:40]}"


def base64_lines(content: bytes) -> bytes:
    return base64.encodebytes(content).replace(b"\n", b"\r\n").removesuffix(b"\r\n")


def safe_name(name: str) -> str:
    """A file's name and nothing more: no folder, no control character, no hidden file."""
    kept = "".join(
        character if character.isprintable() and character not in '/\\:"' else "_"
        for character in name
    ).strip()
    return "_" + kept[1:] if kept.startswith(".") else kept or "attachment"


def safe_kind(content_type: str) -> str:
    """An invalid type, or one that would be read as a separate message, becomes unknown."""
    known = _KIND.fullmatch(content_type) is not None
    return content_type if known and not _opens(content_type) else UNKNOWN_KIND


def _opens(content_type: str) -> bool:
    return content_type.lower().startswith(_OTHER_MESSAGES)


def _enclosed(enclosure: Enclosure) -> Part:
    headers = (
        f"Content-Type: {safe_kind(enclosure.content_type)}\n"
        "Content-Transfer-Encoding: base64\n"
        f"Content-Disposition: attachment;{_file_name(safe_name(enclosure.name))}\n"
    )
    return Part(headers, base64_lines(enclosure.content))


def _file_name(name: str) -> str:
    if name.isascii() and len(name) <= NAME_PIECE_MAX_CHARACTERS:
        return f'\n filename="{name}"'
    # RFC 2231: percent-encoding for non-ASCII, and numbered pieces for long values.
    pieces = list(_pieces(name))
    if len(pieces) == 1:
        return f"\n filename*=utf-8''{pieces[0]}"
    pieces[0] = f"utf-8''{pieces[0]}"
    return ";".join(f"\n filename*{number}*={piece}" for number, piece in enumerate(pieces))


def _pieces(name: str) -> Iterable[str]:
    """Percent-encoded, cut between characters."""
    piece = ""
    for character in name:
        encoded = quote(character, safe="")
        if len(piece) + len(encoded) > NAME_PIECE_MAX_CHARACTERS:
            yield piece
            piece = ""
        piece += encoded
    yield piece
