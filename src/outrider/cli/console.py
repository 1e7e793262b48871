"""Command output: tables and sentences for people, one JSON document with `--json`.

Errors go to standard error with what to do next; standard output carries answers only.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from outrider.cli import texts
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.domain.outbox import Accounting

out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Most = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number to show.")]
After = Annotated[
    str | None,
    typer.Option(help="Continue after a page, using its `next` value.", metavar="CURSOR"),
]


def shown(text: str) -> str:
    """For the terminal verbatim: no markup of ours, and no terminal control sequences."""
    return escape(_CONTROL.sub(lambda found: repr(found[0])[1:-1], text))


def print_json(document: object) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """A table, or a sentence that says what to do when there is nothing to show.

    Cells stay whole, whatever the width of the terminal: a truncated id cannot be copied.
    """
    if not rows:
        out.print(shown(empty))
        return
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        return shown("  ".join(padded).rstrip())

    out.print(line(columns), style="bold")
    for row in cells:
        out.print(line(row))


ACCOUNTING_COLOURS = {
    "waiting": "cyan", "inDoubt": "yellow", "sent": "green", "failed": "red", "skipped": "dim",
}  # fmt: skip


def accounting_line(accounting: Accounting) -> str:
    """`2,000 intended = 0 waiting + …`: the identity with its current figures."""
    return accounting_of(accounting.as_document())


def accounting_of(document: Mapping[str, int], success: str = "sent") -> str:
    """`success` is the word for what went well: only messages are sent."""
    names = {"inDoubt": texts.Console.IN_DOUBT, "sent": success}
    terms = [
        f"[{colour}]{document[key]:,} {names.get(key, key)}[/{colour}]"
        for key, colour in ACCOUNTING_COLOURS.items()
    ]
    return texts.Console.INTENDED.format(intended=document["intended"], terms=" + ".join(terms))


DELIVERY_COLOURS = {
    "delivered": "green", "read": "green", "replied": "green", "bounced": "red",
    "complained": "red", "optedOut": "yellow", "failed": "red", "unknown": "dim",
}  # fmt: skip


def delivery_terms(delivery: Mapping[str, int]) -> str:
    """What receipts say about sent messages; zeros are left out."""
    names = {
        "optedOut": texts.Console.OPTED_OUT,
        "failed": texts.Console.NOT_DELIVERED,
        "unknown": texts.Console.UNKNOWN,
    }
    return ", ".join(
        f"[{colour}]{delivery[key]:,} {names.get(key, key)}[/{colour}]"
        for key, colour in DELIVERY_COLOURS.items()
        if delivery[key]
    )


def print_deliveries(accounting: Mapping[str, Any]) -> None:
    """Printed only if receipts have arrived. A server of an earlier release does not report
    them."""
    delivery = accounting.get("delivery")
    if delivery and accounting["sent"] > delivery["unknown"]:
        out.print(texts.Console.DELIVERIES.format(terms=delivery_terms(delivery)))


def attempt_words(item: Mapping[str, Any]) -> str:
    """The contract's attempt, and which call of it, if a lost worker's call was repeated."""
    attempt, call = item["attemptsMade"], item.get("engineAttempt", 1)
    return texts.Console.REPEATED.format(attempt=attempt, call=call) if call > 1 else f"{attempt}"


def fail(
    error: OutriderError, *, as_json: bool, more: Mapping[str, object] | None = None
) -> NoReturn:
    """Print what is wrong, every problem of it, and what to do next; exit 1.

    `more` goes into the JSON document beside the error.
    """
    problems = error.problems if isinstance(error, InvalidInput) else []
    if as_json:
        print_json(
            {
                "error": {
                    "code": error.code,
                    "message": error.message,
                    "hint": error.hint,
                    "fields": [{"path": each.path, "message": each.message} for each in problems],
                },
                **(more or {}),
                "success": False,
            }
        )
    else:
        err.print(texts.Console.ERROR.format(message=escape(error.message)))
        for problem in problems:
            err.print(f"  [bold]{escape(problem.path)}[/bold] {escape(problem.message)}")
        if error.hint:
            err.print(texts.Console.NEXT.format(hint=escape(error.hint)))
    raise typer.Exit(1)


def print_blockers(blockers: Sequence[Mapping[str, Any]]) -> None:
    """Why it is not moving, and what to do."""
    for each in blockers:
        out.print(texts.Blockers.LINE.format(code=each["code"], message=escape(each["message"])))
        out.print(escape(each["hint"]), style="dim")
