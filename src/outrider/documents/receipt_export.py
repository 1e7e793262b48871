"""A provider's export of receipts: NDJSON or CSV goes in, receipts or every mistake come out.

Each line has the fields of a receipt as gateways post it. Nothing is taken of a file with mistakes.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from outrider.documents import Document, Problems, strict_json
from outrider.documents.instants import instant
from outrider.domain.errors import InvalidInput
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.limits.receipts import IMPORT_MAX_BYTES, RECEIPT_ID_MAX_CHARACTERS

_TRUE, _FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0", ""})


class _Line(Document):
    receipt_id: Annotated[str, Field(min_length=1, max_length=RECEIPT_ID_MAX_CHARACTERS)]
    event: Annotated[ReceiptEvent, Field(strict=False)]
    reference_id: str | None = None
    gateway_message_id: str | None = None
    permanent: bool = False
    reason: str = ""
    sender: Annotated[str | None, Field(alias="from")] = None
    text: str | None = None
    occurred_at: Annotated[datetime | None, BeforeValidator(instant)] = None

    def receipt(self) -> Receipt:
        return Receipt(
            self.receipt_id, self.event, self.reference_id, self.gateway_message_id,
            self.permanent, self.reason, self.sender, self.text, self.occurred_at,
        )  # fmt: skip


def read_export(raw: bytes) -> list[Receipt]:
    """The receipts, in the file's order; InvalidInput names every line that is none."""
    problems = Problems("export")
    if len(raw) > IMPORT_MAX_BYTES:
        problems.add("", f"is larger than {IMPORT_MAX_BYTES:,} bytes; import it in parts")
        raise problems.error()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add("", f"is not UTF-8: {error.reason} at byte {error.start}")
        raise problems.error() from None
    found = []
    for number, line in _lines(text, problems):
        try:
            found.append(_Line.model_validate(line).receipt())
        except ValidationError as error:
            for each in error.errors():
                place = ".".join(map(str, each["loc"]))
                problems.add(f"line {number}", f"{place}: {each['msg']}" if place else each["msg"])
    if problems:
        raise problems.error()
    return found


def _lines(text: str, problems: Problems) -> Iterator[tuple[int, Any]]:
    first = text.lstrip()[:1]
    if first == "{":
        yield from _ndjson(text, problems)
    else:
        yield from _csv(text, problems)


def _ndjson(text: str, problems: Problems) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, strict_json(line.encode())
        except InvalidInput as error:
            problems.add(f"line {number}", error.message)


def _csv(text: str, problems: Problems) -> Iterator[tuple[int, Any]]:
    rows = csv.reader(io.StringIO(text, newline=""))
    header: Sequence[str] | None = None
    for cells in rows:
        if header is None:
            header = [cell.strip() for cell in cells]
            continue
        if not cells:
            continue
        if len(cells) != len(header):
            problems.add(
                f"line {rows.line_num}", f"has {len(cells)} cells, and the header {len(header)}"
            )
            continue
        yield rows.line_num, _typed(dict(zip(header, cells, strict=True)))


def _typed(cells: Mapping[str, str]) -> dict[str, object]:
    """An empty cell of a CSV file means that there is no value."""
    line: dict[str, object] = {name: cell for name, cell in cells.items() if cell != ""}
    permanent = cells.get("permanent", "").strip().lower()
    if permanent in _TRUE | _FALSE:
        line["permanent"] = permanent in _TRUE
    return line
