"""`outrider retire`: old runs become their evidence bundles, old messages their keys."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, fail, out, print_json
from outrider.cli.documents import Document
from outrider.cli.session import execute
from outrider.domain.errors import InvalidInput
from outrider.domain.retention import parse_age
from outrider.domain.times import rfc3339
from outrider.kernel.proof.retention_keeper import Retired

SHOWN = 20


def retire(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="How long ago it ended: 90d, 12w.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what would be retired.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Retire old runs and messages: keep the evidence, remove the rows.

    A run's evidence bundle is written to the artifacts and verified before its rows are removed.
    """
    try:
        age = parse_age(older_than)
    except InvalidInput as error:
        fail(error, as_json=as_json)

    async def here(outrider: Outrider) -> Retired:
        keeper = outrider.retention_keeper
        return await (keeper.count(age) if dry_run else keeper.retire(age))

    done = execute(context, here, as_json=as_json)
    if as_json:
        print_json(_document(done, is_dry=dry_run))
    else:
        _print(done, is_dry=dry_run)


def _print(done: Retired, *, is_dry: bool) -> None:
    if is_dry:
        out.print(
            texts.Retire.WOULD.format(
                before=rfc3339(done.before), runs=done.runs.runs, rows=done.runs.rows,
                messages=done.messages.messages,
            )
        )  # fmt: skip
        return
    out.print(
        texts.Retire.DONE.format(
            before=rfc3339(done.before), runs=done.runs.runs, rows=done.runs.rows,
            messages=done.messages.messages, events=done.messages.events,
            receipts=done.messages.receipts,
        )
    )  # fmt: skip
    for run_id, why in done.runs.kept[:SHOWN]:
        out.print(texts.Retire.KEPT.format(run_id=run_id, why=escape(why)))
    if len(done.runs.kept) > SHOWN:
        out.print(texts.Retire.MORE_KEPT.format(runs=len(done.runs.kept) - SHOWN))


def _document(done: Retired, *, is_dry: bool) -> Document:
    return {
        "before": rfc3339(done.before),
        "dryRun": is_dry,
        "runs": done.runs.runs,
        "ledgerRows": done.runs.rows,
        "messages": done.messages.messages,
        "events": done.messages.events,
        "receipts": done.messages.receipts,
        "kept": [{"runId": run_id, "reason": why} for run_id, why in done.runs.kept],
        "success": True,
    }
