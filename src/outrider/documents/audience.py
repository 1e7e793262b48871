"""Recipients from a campaign document or from a CSV or NDJSON file, one by one.

A file is streamed: good recipients are yielded until the first mistake; from then on only mistakes
are collected, and reading ends in `InvalidInput` with the line of each of them.
"""

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TextIO

import msgspec

from outrider.documents import Problems, key_field, load_json, twice
from outrider.domain.errors import InvalidInput
from outrider.domain.recipients import Recipient, recipient
from outrider.limits.campaigns import (
    ATTRIBUTES_DEPTH_MAX,
    ATTRIBUTES_MAX_BYTES,
    AUDIENCE_LINE_MAX_CHARACTERS,
    RECIPIENT_ID_MAX_CHARACTERS,
    RECIPIENTS_MAX,
)

ADDRESSES = ("email", "phone", "pushToken")
FIELDS = frozenset({"id", *ADDRESSES, "attributes", "message"})
FORMATS = (".csv", ".ndjson", ".jsonl")

_PLAIN_ID = re.compile(r"[\w.@:+-]+\Z", re.ASCII)
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class AudienceReader:
    """Turns raw recipients into domain values and remembers the ids it has seen."""

    def __init__(self, problems: Problems, message_ids: Collection[str]) -> None:
        self._problems = problems
        self._message_ids = message_ids
        self._seen: dict[str, str] = {}

    def read(self, raw: object, path: str, dot: str = ".") -> Recipient | None:
        """The recipient, or None and at least one problem. A bad address is not a problem here."""
        if not isinstance(raw, dict):
            self._problems.add(path, "should be an object")
            return None
        mistakes: list[tuple[str, str]] = []
        if not raw.keys() <= FIELDS:
            mistakes += [(str(name), "is not a known field") for name in raw.keys() - FIELDS]
        for name in ADDRESSES:
            if not isinstance(raw.get(name), (str, NoneType)):
                mistakes.append((name, "should be a string"))
        recipient_id, message = raw.get("id"), raw.get("message")
        if wrong := self._id_mistake(recipient_id, path):
            mistakes.append(("id", wrong))
        if message is not None and not (isinstance(message, str) and message in self._message_ids):
            mistakes.append(("message", "is not the id of a message of this campaign"))
        attributes, wrong = attributes_text(raw.get("attributes"))
        if wrong:
            mistakes.append(("attributes", wrong))
        if mistakes or not isinstance(recipient_id, str):
            for field, mistake in mistakes:
                self._problems.add(f"{path}{dot}{field}", mistake)
            return None
        return recipient(
            recipient_id,
            email=raw.get("email"),
            phone=raw.get("phone"),
            push_token=raw.get("pushToken"),
            attributes=attributes,
            message_id=message,
        )

    def _id_mistake(self, given: object, path: str) -> str | None:
        if not isinstance(given, str):
            return "is required" if given is None else "should be a string"
        if not 0 < len(given) <= RECIPIENT_ID_MAX_CHARACTERS:
            return f"should have 1 to {RECIPIENT_ID_MAX_CHARACTERS} characters"
        if not _PLAIN_ID.match(given):
            try:
                key_field(given)
            except ValueError as error:
                return str(error)
        first = self._seen.setdefault(given, path)
        if first is not path:
            return f"is the same as that of {first}"
        if len(self._seen) > RECIPIENTS_MAX:
            return f"is one more than the {RECIPIENTS_MAX} recipients allowed"
        return None


def attributes_text(given: object) -> tuple[str, str | None]:
    """Attributes as the JSON text the ledger keeps, and their problem, if any."""
    if not given and (given is None or isinstance(given, dict)):
        return "{}", None
    if not isinstance(given, dict):
        return "{}", "should be an object"
    if _deeper_than(ATTRIBUTES_DEPTH_MAX, given):
        return "{}", f"should be nested at most {ATTRIBUTES_DEPTH_MAX} deep"
    try:
        encoded = msgspec.json.encode(given)
    except UnicodeEncodeError:
        return "{}", "must not contain broken Unicode"
    if len(encoded) > ATTRIBUTES_MAX_BYTES:
        return "{}", f"should be at most {ATTRIBUTES_MAX_BYTES} bytes of JSON"
    text = encoded.decode()
    # The search for the exact escape is slow, and almost no text has anything like it.
    has_nul = "\\u0000" in text and _NUL.search(text)
    return text, "must not contain NUL" if has_nul else None


def _deeper_than(levels: int, value: Any) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(
        _deeper_than(levels - 1, inner) for inner in value if isinstance(inner, dict | list)
    )


def source_problem(path: Path) -> str | None:
    """Why this file cannot be an audience, as far as can be seen without reading it."""
    if path.suffix.lower() not in FORMATS:
        return f"should name a file ending in {', '.join(FORMATS)}"
    if not path.is_file():
        return f"there is no file {path}; the path is relative to the campaign file"
    return None


def read_audience(path: Path, message_ids: Collection[str]) -> Iterator[Recipient]:
    """Stream the recipients of a file. Raises InvalidInput at its end, if it had mistakes."""
    problems = Problems(f"audience {path.name}")
    reader = AudienceReader(problems, message_ids)
    if wrong := source_problem(path):
        problems.add("", wrong)
        raise problems.error()
    records = _csv_records if path.suffix.lower() == ".csv" else _ndjson_records
    try:
        # Bytes that are not UTF-8 become surrogates, and are then refused on their line.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for line, raw in records(file, problems):
                found = reader.read(raw, f"line {line}", ", ")
                if found is not None and not problems:
                    yield found
                if problems.full:
                    break
    except OSError as error:
        problems.add("", f"cannot be read: {error.strerror}")
    if problems:
        raise problems.error()


def _lines(file: TextIO) -> Iterator[str]:
    """Lines of bounded length: a file without line breaks must not become one string."""
    while line := file.readline(AUDIENCE_LINE_MAX_CHARACTERS):
        yield line


def _ndjson_records(file: TextIO, problems: Problems) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(_lines(file), start=1):
        if len(line) == AUDIENCE_LINE_MAX_CHARACTERS:
            problems.add(f"line {number}", "is too long")
            return
        if not line.strip():
            continue
        of_this_line = Problems("line")
        try:
            value = load_json(line.encode(errors="surrogateescape"), of_this_line)
            if of_this_line:
                raise of_this_line.error()
        except InvalidInput as error:
            for problem in error.problems:
                problems.add(f"line {number}", problem.message)
            if problems.full:
                return
            continue
        yield number, value


def _csv_records(file: TextIO, problems: Problems) -> Iterator[tuple[int, Mapping[str, object]]]:
    rows = csv.reader(_lines(file), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        if wrong := _header_mistake(header):
            problems.add("line 1", wrong)
            return
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                problems.add(
                    f"line {rows.line_num}", f"has {len(row)} columns, the header {len(header)}"
                )
                if problems.full:
                    return
                continue
            yield rows.line_num, _csv_recipient(header, row)
    except csv.Error as error:
        problems.add(f"line {rows.line_num}", f"is not CSV: {error}")


def _header_mistake(header: list[str]) -> str | None:
    if "id" not in header:
        return "the header should have a column 'id'"
    if "" in header:
        return "every column should have a name"
    if repeated := twice(header):
        return f"the column {repeated[0]!r} is given twice"
    return None


def _csv_recipient(header: list[str], row: list[str]) -> dict[str, object]:
    """Known columns are fields, where an empty cell means none; all others are attributes."""
    cells = dict(zip(header, row, strict=True))
    raw: dict[str, object] = {"id": cells.pop("id")}
    for name in (*ADDRESSES, "message"):
        raw[name] = cells.pop(name, None) or None
    raw["attributes"] = cells
    return raw
