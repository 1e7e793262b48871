"""A small PDF 1.4 writer: lines of text go in, the bytes of a document with as many pages as they
need come out.

The same lines give the same bytes: no dates, no compression, no random ids. The fonts are the ones
that every reader has, so characters outside Windows-1252 are written with their nearest letters.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

PAGE_WIDTH: Final = 595.0
"""A4, in points, like all measures here."""
PAGE_HEIGHT: Final = 842.0
MARGIN: Final = 56.0
LINE_HEIGHT_FACTOR: Final = 1.4
FOOTER_SIZE: Final = 8.0
TEXT_WIDTH: Final = PAGE_WIDTH - 2 * MARGIN

_WIDTHS: Final = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
"""Helvetica's, in thousandths of the size, from the space to the tilde."""
_OTHER_WIDTH: Final = 611
_LETTER_WITH: Final = re.compile(r"LATIN (?P<size>CAPITAL|SMALL) LETTER (?P<letter>[A-Z]) WITH ")
INVISIBLE: Final = frozenset({"Cf", "Mn", "Me"})
"""Signs without a width of their own: joiners, directions, accents that follow a letter."""
_BOLD_FACTOR: Final = 1.1
_ESCAPES: Final = {
    byte: f"\\{byte:03o}" for byte in range(256) if chr(byte) in "\\()" or not 32 <= byte < 127
}
_HEAD: Final = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
"""The second line tells programs that copy files that this one is not text."""


class Cell(NamedTuple):
    """A text that begins at `left`, or ends there where it is aligned to the right."""

    text: str
    left: float = 0.0
    right_aligned: bool = False


class Line(NamedTuple):
    cells: Sequence[Cell] = ()
    size: float = 10.0
    bold: bool = False

    @property
    def height(self) -> float:
        return self.size * LINE_HEIGHT_FACTOR


def document(title: str, lines: Iterable[Line]) -> bytes:
    """The whole file."""
    pages = list(_pages(lines)) or [[]]
    fonts = "/Font << /F1 3 0 R /F2 4 0 R >>"
    first = 6
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        *(
            f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>"
            for name in ("Helvetica", "Helvetica-Bold")
        ),
        f"<< /Title {_string(title)} /Producer (Outrider) >>",
    ]
    for number, page in enumerate(pages):
        stream = "\n".join(_operators(page, f"{number + 1} / {len(pages)}"))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {PAGE_WIDTH:g} {PAGE_HEIGHT:g}] "
            f"/Resources << {fonts} >> /Contents {first + 2 * number + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    return _file(objects)


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """The text in lines of at most this width; a word that is wider is cut."""
    lines: list[str] = []
    space, used = text_width(" ", size, bold=bold), 0.0
    for word in win_ansi(text).split():
        for piece in _cut(word, width, size, bold=bold):
            needed = text_width(piece, size, bold=bold)
            if lines and used + space + needed <= width:
                lines[-1] += f" {piece}"
                used += space + needed
            else:
                lines.append(piece)
                used = needed
    return lines


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    total = sum(_WIDTHS[ord(each) - 32] if 32 <= ord(each) < 127 else _OTHER_WIDTH for each in text)
    return total * size / 1_000 * (_BOLD_FACTOR if bold else 1.0)


def win_ansi(text: str) -> str:
    """The same text with nothing in it that the fonts cannot show."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_nearest, unicodedata.normalize("NFC", text)))


def _nearest(character: str) -> str:
    if character.isspace():
        return " "
    if _has(character) and character.isprintable():
        return character
    if unicodedata.category(character) in INVISIBLE:
        return ""
    apart = unicodedata.normalize("NFKD", character)
    kept = [_without_stroke(each) for each in apart if not unicodedata.combining(each)]
    good = kept and all(_has(each) and each.isprintable() for each in kept)
    return "".join(kept) if good else "?"


def _without_stroke(character: str) -> str:
    """ł is a letter of its own to Unicode, but its name tells which one it comes from."""
    named = _LETTER_WITH.match(unicodedata.name(character, ""))
    if named is None:
        return character
    return named["letter"] if named["size"] == "CAPITAL" else named["letter"].lower()


def _has(character: str) -> bool:
    try:
        character.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return True


def _cut(word: str, width: float, size: float, *, bold: bool) -> Iterator[str]:
    if text_width(word, size, bold=bold) <= width:
        yield word
        return
    piece = ""
    for character in word:
        if piece and text_width(piece + character, size, bold=bold) > width:
            yield piece
            piece = ""
        piece += character
    yield piece


def _pages(lines: Iterable[Line]) -> Iterator[list[tuple[float, Line]]]:
    """Each line with its height above the page's foot."""
    top, foot = PAGE_HEIGHT - MARGIN, MARGIN + 2 * FOOTER_SIZE
    page: list[tuple[float, Line]] = []
    at = top
    for line in lines:
        at -= line.height
        if at < foot and page:
            yield page
            page, at = [], top - line.height
        page.append((at, line))
    if page:
        yield page


def _operators(page: list[tuple[float, Line]], footer: str) -> Iterator[str]:
    for at, line in page:
        for cell in line.cells:
            yield _shown(cell, at, line.size, bold=line.bold)
    yield _shown(Cell(footer, TEXT_WIDTH, right_aligned=True), MARGIN, FOOTER_SIZE)


def _shown(cell: Cell, at: float, size: float, *, bold: bool = False) -> str:
    text = win_ansi(cell.text)
    left = MARGIN + cell.left
    if cell.right_aligned:
        left -= text_width(text, size, bold=bold)
    font = "F2" if bold else "F1"
    return f"BT /{font} {size:g} Tf {left:.2f} {at:.2f} Td {_string(text)} Tj ET"


def _string(text: str) -> str:
    """A literal string: what would end it, and what is not ASCII, is written as octal digits."""
    return f"({win_ansi(text).encode('cp1252').decode('latin-1').translate(_ESCAPES)})"


def _file(objects: Sequence[str]) -> bytes:
    content = bytearray(_HEAD)
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{each}\nendobj\n".encode("ascii")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    count, start = len(objects) + 1, len(content)
    content += (
        f"xref\n0 {count}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {count} /Root 1 0 R /Info 5 0 R >>\nstartxref\n{start}\n%%EOF\n"
    ).encode("ascii")
    return bytes(content)
