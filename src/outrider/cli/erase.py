"""`outrider erase`: destroy what identifies a person, and keep what happened."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api.models.people import ErasureAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows, shown
from outrider.cli.documents import Document, document_of
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE

ACTOR = "cli"


def erase(
    context: typer.Context,
    address: Annotated[
        str, typer.Argument(help="Email address, phone number, push token or recipient ID.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be erased.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Erase a person: addresses, attributes and messages are destroyed, opt-outs and proofs stay.

    Messages that were not sent yet are cancelled. Exits with 1 if something has to be waited for;
    the erasure goes on by itself, or when the command is given again.
    """

    async def here(outrider: Outrider) -> Document:
        eraser = outrider.person_eraser
        if dry_run:
            done = await eraser.find(DEFAULT_SCOPE, address)
        else:
            done = await eraser.erase(DEFAULT_SCOPE, address, ACTOR)
        return document_of(ErasureAnswer.of(done, dry_run=dry_run))

    done = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post(
            "people", address, "erase", dryRun="true" if dry_run else None
        ),
    )
    if as_json:
        print_json(done)
    else:
        _print(done)
    if not (dry_run or done["complete"]):
        raise typer.Exit(1)


def _print(done: Document) -> None:
    known = ", ".join(each["address"] for each in done["addresses"])
    out.print(texts.Erase.KNOWN_AS.format(addresses=shown(known)))
    tables = [(each["table"], f"{each['rows']:,}") for each in done["tables"]]
    files = [
        (texts.Erase.ARTIFACT.format(run_id=each["runId"]), each["name"])
        for each in done["artifacts"]
    ]
    print_rows(["where", "what"], [*tables, *files], texts.Erase.NOTHING)
    for rule_id in done["rules"]:
        out.print(texts.Erase.RULE.format(rule_id=escape(rule_id)), style="yellow")
    if done["dryRun"]:
        out.print(texts.Erase.WOULD)
    elif done["complete"]:
        out.print(texts.Erase.DONE)
    else:
        out.print(
            texts.Erase.WAITS.format(messages=done["waiting"], jobs=done["jobs"]), style="yellow"
        )
    if not (done["dryRun"] or done["rewritten"]):
        out.print(texts.Erase.NOT_REWRITTEN, style="yellow")
