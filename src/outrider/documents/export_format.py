"""How a provider's export is written: its format, encoding, delimiter and header.

Nobody who downloads one chooses these. They are recognised from the first rows, and shown, so that
a wrong guess is seen before anything is changed.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from outrider.domain.errors import InvalidInput
from outrider.domain.provider_exports import reference_in, time_in
from outrider.limits.exports import EXPORT_LINE_MAX_CHARACTERS, EXPORT_SAMPLE_ROWS

DELIMITERS = (",", ";", "\t", "|")
PIECE_BYTES = 1024 * 1024
HEAD_BYTES = 64 * 1024

_NOT_TEXT = {
    b"PK\x03\x04": "is an Excel or ZIP file",
    b"\x1f\x8b": "is compressed",
    b"%PDF": "is a PDF file",
    b"\xd0\xcf\x11\xe0": "is an old Excel file",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_LINE = re.compile(r"sep=(.)\s*\Z", re.IGNORECASE)
_HAS_DIGITS = re.compile(r"\+?\d[\d .:/-]{5,}\Z")


@dataclass(frozen=True, slots=True)
class CsvShape:
    delimiter: str
    columns: tuple[str, ...]
    skipped_lines: int
    """Lines before the first row: titles, an Excel separator line, and the header, if any."""
    has_header: bool


def encoding_of(path: Path) -> str:
    """UTF-8 or UTF-16 if that is certain, otherwise the Western Windows code page."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        for mark, kind in _NOT_TEXT.items():
            if head.startswith(mark):
                raise InvalidInput(
                    f"the export {kind}", hint="export it as CSV, JSON or NDJSON, uncompressed"
                )
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                return encoding
        if head.count(b"\x00") > len(head) // 4:
            return "utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while head:
                decoder.decode(head)
                head = file.read(PIECE_BYTES)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def csv_shape(path: Path, encoding: str) -> CsvShape:
    lines = first_lines(path, encoding)
    start, given = 0, None
    if lines and (match := _SEPARATOR_LINE.match(lines[0].strip())):
        start, given = 1, match[1]
    delimiter = given or max(DELIMITERS, key=lambda each: _regularity(lines[start:], each))
    reader = csv.reader(lines[start:], delimiter=delimiter)
    rows = [(start + reader.line_num, row) for row in reader]
    widths = Counter(len(row) for _, row in rows if any(cell.strip() for cell in row))
    if not widths:
        return CsvShape(delimiter, (), start, has_header=False)
    width = max(widths, key=lambda each: (widths[each], each))
    before = start
    for line, row in rows:
        if len(row) == width and any(cell.strip() for cell in row):
            if _is_header(row):
                return CsvShape(delimiter, _named(row), line, has_header=True)
            named = tuple(f"column {number}" for number in range(1, width + 1))
            return CsvShape(delimiter, named, before, has_header=False)
        before = line
    raise AssertionError("a row of the commonest width is among the rows")


def first_lines(path: Path, encoding: str) -> list[str]:
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        lines = iter(lambda: file.readline(EXPORT_LINE_MAX_CHARACTERS), "")
        return list(islice(lines, EXPORT_SAMPLE_ROWS))


def _regularity(lines: Sequence[str], delimiter: str) -> tuple[int, int]:
    """How many rows have the commonest number of cells, if that is more than one."""
    widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter))
    widths.pop(0, None)
    widths.pop(1, None)
    if not widths:
        return 0, 0
    width, rows = max(widths.items(), key=lambda each: (each[1], each[0]))
    return rows, width


def _is_header(row: Sequence[str]) -> bool:
    """Names, that is: no cell that could only be data, and most of them not empty."""
    filled = [cell.strip() for cell in row if cell.strip()]
    data = any(
        reference_in(cell) or "@" in cell or _HAS_DIGITS.match(cell) or time_in(cell)
        for cell in filled
    )
    return not data and len(filled) * 2 > len(row)


def _named(row: Sequence[str]) -> tuple[str, ...]:
    """Each once: an empty name gets a number, and so does the second of two alike."""
    names: list[str] = []
    for number, cell in enumerate(row, start=1):
        name = " ".join(cell.split()) or f"column {number}"
        names.append(name if name not in names else f"{name} ({number})")
    return tuple(names)
