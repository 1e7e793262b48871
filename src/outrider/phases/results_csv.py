"""Ledger lines as CSV: a page goes in, bytes come out that no spreadsheet executes as formulas."""

import csv
import io
from collections.abc import Sequence

from outrider.ports.phases import ResultLine

MEDIA_TYPE = "text/csv; charset=utf-8"
COLUMNS = (
    "outboxId",
    "recipientId",
    "address",
    "channel",
    "submissionTarget",
    "status",
    "reason",
    "attempts",
    "providerMessageId",
    "updatedAt",
    "delivery",
    "deliveryReason",
    "variant",
)

# A spreadsheet evaluates a cell that begins with these. Some convert the wide forms to the others.
_ORDERS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def header() -> bytes:
    return _rows([COLUMNS])


def page(lines: Sequence[ResultLine]) -> bytes:
    return _rows([[harmless(cell) for cell in line] for line in lines])


def harmless(cell: object) -> str:
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith(_ORDERS) else text


def _rows(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    # All are quoted: a spreadsheet that splits at another separator must not split a cell.
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")
