"""`outrider receipts`: what providers have reported, and exports of theirs taken in."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.receipts import ReceiptAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, err, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.session import execute
from outrider.documents.receipt_export import read_export
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions import receipts
from outrider.kernel.transactions.alerts import LAST
from outrider.limits.receipts import IMPORT_WINDOW_ITEMS

app = typer.Typer(
    no_args_is_help=True,
    help="Receipts: what providers reported about messages after accepting them.",
)

Target = Annotated[
    str | None,
    typer.Option("--target", metavar="TARGET", help="Only receipts for this submission target."),
]


@app.command("list")
def list_(
    context: typer.Context,
    target: Target = None,
    unmatched: Annotated[
        bool, typer.Option("--unmatched", help="Only receipts that match no message.")
    ] = False,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List receipts, newest first."""

    async def here(outrider: Outrider) -> Document:
        found = await outrider.store.read(
            receipts.page(
                DEFAULT_SCOPE, target, limit, before=cursors.id_after(after, LAST),
                only_unmatched=unmatched,
            )
        )  # fmt: skip
        page = Page(
            items=[ReceiptAnswer.of(each) for each in found],
            next=cursors.encode(found[-1].id) if len(found) == limit else None,
        )
        return document_of(page)

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get(
            "receipts", submissionTarget=target, matched=False if unmatched else None,
            limit=limit, after=after,
        ),
    )  # fmt: skip
    if as_json:
        print_json(page)
        return
    print_rows(
        ["receipt", "target", "event", "when", "item", "reason"],
        [
            (each["id"], each["submissionTarget"],
             _event_words(each),
             (each["occurredAt"] or each["receivedAt"])[:19].replace("T", " "),
             each["outboxId"] or texts.Receipts.NO_ITEM, each["reason"])
            for each in page["items"]
        ],
        texts.Receipts.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Receipts.NEXT_PAGE.format(next=page["next"]), style="dim")


def _event_words(receipt: Document) -> str:
    event: str = receipt["event"]
    return texts.Receipts.PERMANENT.format(event=event) if receipt["permanent"] else event


@app.command("import")
def import_(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, metavar="FILE",
            help="NDJSON or CSV with the fields of a receipt: receiptId, event, referenceId or"
            " gatewayMessageId, permanent, reason, from, text, occurredAt.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="TARGET", help="The submission target that the receipts are for."
        ),
    ],
    as_json: Json = False,
) -> None:  # fmt: skip
    """Import receipts from a file. If it has mistakes, all are listed and nothing is imported."""

    async def here(outrider: Outrider) -> Document:
        if outrider.channel_of(target) is None:
            raise InvalidInput(
                texts.Receipts.NO_TARGET.format(target=target),
                [Problem("--target", texts.Receipts.NOT_IN_REGISTRY)],
            )
        found = read_export(file.read_bytes())
        taken = 0
        from rich.progress import Progress

        with Progress(console=err, transient=True, disable=as_json) as progress:
            bar = progress.add_task("receipts", total=len(found))
            for first in range(0, len(found), IMPORT_WINDOW_ITEMS):
                window = found[first : first + IMPORT_WINDOW_ITEMS]
                taken += len(await outrider.receipt_intake.take_in(DEFAULT_SCOPE, target, window))
                progress.advance(bar, len(window))
        return {"read": len(found), "taken": taken, "known": len(found) - taken, "success": True}

    done = execute(context, here, as_json=as_json)
    if as_json:
        print_json(done)
        return
    out.print(
        texts.Receipts.IMPORTED.format(
            taken=done["taken"], target=escape(target), known=done["known"]
        )
    )
