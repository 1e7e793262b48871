"""A provider's export, row by row: CSV, JSON or NDJSON as its web pages and APIs produce them.

Lines that cannot be read are counted and named, and the others are still read; a line that was not
understood decides nothing.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Any

from outrider.documents.export_format import csv_shape, encoding_of
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.provider_exports import (
    ColumnMapping,
    ExportField,
    ExportRow,
    guessed,
    reference_in,
    time_in,
)
from outrider.limits.exports import (
    EXPORT_CELL_MAX_CHARACTERS,
    EXPORT_COLUMNS_MAX,
    EXPORT_LINE_MAX_CHARACTERS,
    EXPORT_MAX_BYTES,
    EXPORT_NESTED_MAX,
    EXPORT_PROBLEMS_SHOWN,
    EXPORT_ROWS_MAX,
    EXPORT_ROWS_SHOWN,
    EXPORT_SAMPLE_ROWS,
    EXPORT_STATUSES_SHOWN,
)


class ExportFormat(StrEnum):
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"


Cells = Mapping[str, str]
Record = tuple[int, Cells]


@dataclass(slots=True)
class ExportSummary:
    """How an export was understood; filled in while its rows are read."""

    format: ExportFormat
    encoding: str
    delimiter: str | None = None
    columns: tuple[str, ...] = ()
    has_header: bool = True
    mapping: ColumnMapping = field(default_factory=dict)
    rows: int = 0
    unreadable: int = 0
    problems: list[Problem] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    sample: list[Cells] = field(default_factory=list)
    first_time: datetime | None = None
    last_time: datetime | None = None

    def unread(self, line: int, why: str) -> None:
        self.unreadable += 1
        if len(self.problems) < EXPORT_PROBLEMS_SHOWN:
            self.problems.append(Problem(f"line {line}", why))

    def counted(self, row: ExportRow) -> ExportRow:
        self.rows += 1
        if row.status is not None:
            known = row.status in self.statuses or len(self.statuses) < EXPORT_STATUSES_SHOWN
            self.statuses[row.status if known else ""] += 1
        if row.time is not None:
            self.first_time = min(row.time, self.first_time or row.time)
            self.last_time = max(row.time, self.last_time or row.time)
        return row


def open_export(
    path: Path, mapping: Mapping[ExportField, str] | None = None
) -> tuple[ExportSummary, Iterator[ExportRow]]:
    """The given mapping, or a guess; InvalidInput if one of its columns does not exist."""
    size = path.stat().st_size
    if size > EXPORT_MAX_BYTES:
        raise InvalidInput(
            f"the export is larger than {EXPORT_MAX_BYTES:,} bytes",
            hint="narrow it down to the days in question, or give it in parts",
        )
    encoding = encoding_of(path)
    summary = ExportSummary(_format_of(path, encoding), encoding)
    records = _records(path, summary)
    first = list(islice(records, EXPORT_SAMPLE_ROWS))
    if summary.format is not ExportFormat.CSV:
        names = dict.fromkeys(name for _, cells in first for name in cells)
        summary.columns = tuple(names)[:EXPORT_COLUMNS_MAX]
    samples = [cells for _, cells in first]
    summary.sample = samples[:EXPORT_ROWS_SHOWN]
    summary.mapping = dict(guessed(summary.columns, samples) if mapping is None else mapping)
    _check(summary, mapping or {})
    rows = (
        summary.counted(_row(line, cells, summary.mapping)) for line, cells in chain(first, records)
    )
    return summary, islice(rows, EXPORT_ROWS_MAX + 1)


def _check(summary: ExportSummary, mapping: Mapping[ExportField, str]) -> None:
    there = ", ".join(summary.columns) or "none"
    problems = [
        Problem(f"mapping.{each.value}", f"the export has no column {column!r}; it has: {there}")
        for each, column in mapping.items()
        if column not in summary.columns
    ]
    if problems:
        raise InvalidInput("the columns do not fit the export", problems)


def _format_of(path: Path, encoding: str) -> ExportFormat:
    with path.open(encoding=encoding, errors="replace") as file:
        head = ""
        while not head.strip() and (piece := file.read(4096)):
            head = piece
        start = head.lstrip()[:1]
        if start == "[":
            return ExportFormat.JSON
        if start != "{":
            return ExportFormat.CSV
        file.seek(0)
        lines = (each for each in iter(file.readline, "") if each.strip())
        first, second = next(lines, ""), next(lines, None)
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return ExportFormat.JSON
    if second is not None or not isinstance(value, dict) or _list_in(value) is None:
        return ExportFormat.NDJSON
    # A whole document may be written on one line; and one row may hold a list.
    is_row = any(reference_in(each) for each in value.values() if isinstance(each, str))
    return ExportFormat.NDJSON if is_row else ExportFormat.JSON


def _records(path: Path, summary: ExportSummary) -> Iterator[Record]:
    match summary.format:
        case ExportFormat.CSV:
            shape = csv_shape(path, summary.encoding)
            summary.delimiter, summary.has_header = shape.delimiter, shape.has_header
            summary.columns = shape.columns[:EXPORT_COLUMNS_MAX]
            return _csv(path, summary, shape.skipped_lines)
        case ExportFormat.NDJSON:
            return _ndjson(path, summary)
        case ExportFormat.JSON:
            return _json(path, summary)


def _csv(path: Path, summary: ExportSummary, skipped_lines: int) -> Iterator[Record]:
    with path.open(encoding=summary.encoding, errors="replace", newline="") as file:
        for _ in range(skipped_lines):
            file.readline(EXPORT_LINE_MAX_CHARACTERS)
        lines = iter(lambda: file.readline(EXPORT_LINE_MAX_CHARACTERS), "")
        reader = csv.reader(lines, delimiter=summary.delimiter or ",")
        while True:
            line = skipped_lines + reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                summary.unread(line, f"is not CSV: {error}")
                continue
            if row is None:
                return
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(summary.columns):
                columns = len(summary.columns)
                summary.unread(line, f"has {len(row)} cells, and the header {columns}")
                continue
            yield line, dict(zip(summary.columns, row, strict=True))


def _ndjson(path: Path, summary: ExportSummary) -> Iterator[Record]:
    with path.open(encoding=summary.encoding, errors="replace") as file:
        lines = iter(lambda: file.readline(EXPORT_LINE_MAX_CHARACTERS), "")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                summary.unread(number, f"is not JSON: {error}")
                continue
            if isinstance(value, dict):
                yield number, _flat(value)
            else:
                summary.unread(number, "should be an object")


def _json(path: Path, summary: ExportSummary) -> Iterator[Record]:
    try:
        value = json.loads(path.read_text(encoding=summary.encoding))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the export is not JSON: {error}") from error
    rows = value if isinstance(value, list) else _list_in(value) if value else None
    if rows is None:
        raise InvalidInput(
            "the export has no list of messages", hint="give an array of objects, or NDJSON"
        )
    for number, each in enumerate(rows, start=1):
        if isinstance(each, dict):
            yield number, _flat(each)
        else:
            summary.unread(number, "should be an object")


def _list_in(value: Mapping[str, Any]) -> Sequence[Any] | None:
    """Of a document around the list, such as `{"messages": [...], "page": 0}`."""
    lists = [each for each in value.values() if isinstance(each, list)]
    objects = [each for each in lists if each and isinstance(each[0], dict)]
    return max(objects or lists, key=len, default=None)


def _flat(value: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, str]:
    """`{"to": {"number": 1}}` has the column `to.number`."""
    cells: dict[str, str] = {}
    for name, each in value.items():
        if isinstance(each, dict) and depth < EXPORT_NESTED_MAX:
            cells |= _flat(each, f"{prefix}{name}.", depth + 1)
        elif each is not None and len(cells) < EXPORT_COLUMNS_MAX:
            text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
            cells[f"{prefix}{name}"] = text
    return cells


def _row(line: int, cells: Cells, mapping: ColumnMapping) -> ExportRow:
    def cell(each: ExportField) -> str | None:
        text = cells.get(mapping.get(each, ""), "").strip()
        return text if 0 < len(text) <= EXPORT_CELL_MAX_CHARACTERS else None

    reference, time = cell(ExportField.REFERENCE), cell(ExportField.TIME)
    return ExportRow(
        line,
        (reference_in(reference) or reference) if reference else None,
        cell(ExportField.PROVIDER_MESSAGE_ID),
        cell(ExportField.RECIPIENT),
        time_in(time) if time else None,
        cell(ExportField.STATUS),
    )
