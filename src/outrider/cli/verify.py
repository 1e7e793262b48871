"""`outrider verify`: whether anything was changed since it was written."""

from typing import Annotated

import typer

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, fail, out, print_json, print_rows
from outrider.cli.documents import Document
from outrider.cli.session import execute
from outrider.domain.errors import InvalidInput
from outrider.kernel.proof.database_verifier import Proven, Verification

SHOWN = 50


def verify(
    context: typer.Context,
    database: Annotated[
        bool,
        typer.Option(
            "--database", help="Check the database: the chains of all runs and audit logs."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check hash chains, and name every row that was edited, removed or inserted.

    Exits with 1 if there is one.
    """
    if not database:
        fail(InvalidInput(texts.Verify.NOTHING_GIVEN), as_json=as_json)

    async def here(outrider: Outrider) -> Verification:
        return await outrider.database_verifier.verify()

    found = execute(context, here, as_json=as_json)
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    if not found.holds:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    out.print(
        texts.Verify.CHECKED.format(
            runs=found.checked[Proven.RUN],
            events=found.checked[Proven.RUN_EVENT],
            rows=found.checked[Proven.LEDGER_ROW],
            entries=found.checked[Proven.AUDIT_ENTRY],
        )
    )
    if found.before_chain:
        out.print(texts.Verify.BEFORE_CHAIN.format(events=found.before_chain), style="dim")
    if found.unsealed:
        out.print(texts.Verify.UNSEALED.format(runs=found.unsealed), style="dim")
    if found.receipts_since:
        out.print(texts.Verify.RECEIPTS_SINCE.format(receipts=found.receipts_since), style="dim")
    if found.other_keys:
        keys = ", ".join(sorted(found.other_keys))
        out.print(texts.Verify.OTHER_KEYS.format(keys=keys), style="dim")
    if found.waiting:
        out.print(texts.Verify.WAITING.format(entries=found.waiting), style="dim")
    if found.holds:
        out.print(texts.Verify.HOLDS)
        return
    print_rows(
        ["what", "how", "run or workspace", "which"],
        [
            (each.what.replace("_", " "), each.how.value, each.where, each.which)
            for each in found.findings[:SHOWN]
        ],
        "",
    )
    out.print(texts.Verify.TAMPERED.format(rows=found.tampered))


def _document(found: Verification) -> Document:
    return {
        "holds": found.holds,
        "checked": {
            "runs": found.checked[Proven.RUN],
            "runEvents": found.checked[Proven.RUN_EVENT],
            "sealedRows": found.checked[Proven.LEDGER_ROW],
            "auditEntries": found.checked[Proven.AUDIT_ENTRY],
        },
        "beforeChain": found.before_chain,
        "waiting": found.waiting,
        "unsealed": found.unsealed,
        "receiptsSince": found.receipts_since,
        "otherKeys": sorted(found.other_keys),
        "tampered": found.tampered,
        "findings": [
            {
                "what": each.what.value,
                "how": each.how.value,
                "where": each.where,
                "which": each.which,
            }
            for each in found.findings
        ],
        "success": found.holds,
    }
