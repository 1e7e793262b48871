"""`outrider doubts`: list what is in doubt, resolve it by hand, or reconcile it with evidence."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.items import DoubtAnswer, Resolved
from outrider.bootstrap import Outrider
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.session import actor, execute
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, OutboxId
from outrider.kernel.delivery.doubt_resolver import Reconciliation
from outrider.kernel.transactions.doubts import DoubtVerdict, doubts_page
from outrider.kernel.transactions.paging import FIRST

app = typer.Typer(
    no_args_is_help=True,
    help="Items whose call may or may not have arrived. They are never called again on a guess.",
)

Run = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only items of this run.")]


@app.command(name="list")
def list_doubts(
    context: typer.Context,
    run_id: Run = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at the most.")] = 100,
    as_json: Json = False,
) -> None:
    """What is in doubt, since when, and the reference to look for at the provider."""

    async def here(outrider: Outrider) -> Document:
        found = await outrider.store.read(doubts_page(DEFAULT_SCOPE, run_id, FIRST, limit))
        page = Page(
            items=[DoubtAnswer.of(doubt) for doubt in found],
            next=cursors.encode(found[-1].id) if len(found) == limit else None,
        )
        return document_of(page)

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("doubts", runId=run_id, limit=limit),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["item", "recipient", "provider", "why", "since", "reference"],
        [
            (doubt["outboxId"], doubt["recipientId"], doubt["provider"], doubt["reason"],
             doubt["doubtedAt"][:19].replace("T", " "), doubt["reference"])
            for doubt in page["items"]
        ],
        "nothing is in doubt",
    )  # fmt: skip
    if page["items"]:
        out.print(
            "next: look for the references at the provider, then `outrider doubts resolve ITEM"
            " --verdict sent|failed|resubmit --evidence TEXT`",
            style="dim",
        )


@app.command()
def resolve(
    context: typer.Context,
    outbox_id: Annotated[str, typer.Argument(metavar="ITEM", help="The item's id.")],
    verdict: Annotated[
        DoubtVerdict,
        typer.Option(help="What the evidence says; `resubmit` means it never arrived."),
    ],
    evidence: Annotated[
        str, typer.Option(help="How you know; it is kept in the audit log for good.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="Although the worker that called it may still be alive."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Settle one item by hand. What you say, and how you know it, is recorded."""
    if not evidence.strip():
        raise typer.BadParameter("say how you know", param_hint="--evidence")

    async def here(outrider: Outrider) -> Document:
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, OutboxId(outbox_id), verdict, evidence, actor(), force=force
        )
        return document_of(Resolved(outbox_id=outbox_id, verdict=verdict))

    said = {"verdict": verdict.value, "evidence": evidence, "force": force}
    resolved = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post("doubts", outbox_id, "resolve", json=said),
    )
    if as_json:
        print_json(resolved)
    else:
        out.print(f"[green]resolved[/green] {resolved['outboxId']}: {resolved['verdict']}")


@app.command()
def reconcile(
    context: typer.Context,
    run_id: Run = None,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A complete record of what the provider received: one JSON object a line with a"
            " `referenceId`. Without it, targets that remember or can look up are asked.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The submission target whose provider's record it is."),
    ] = None,
    absent: Annotated[
        DoubtVerdict | None,
        typer.Option(help="What to do with items that the evidence shows never arrived."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where the worker that called may still be alive."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Settle all that evidence can settle; what it cannot stays in doubt."""
    if evidence is not None and target is None:
        raise typer.BadParameter(
            "one provider's record says nothing of another's: name the target it is of",
            param_hint="--target",
        )

    async def work(outrider: Outrider) -> Reconciliation:
        received = references_in(evidence) if evidence else None
        return await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE,
            run_id=run_id,
            received=received,
            absent=absent,
            evidence=f"reconciled with {evidence.name}" if evidence else "gateway look-up",
            actor=actor(),
            submission_target=target,
            wait_for_workers=not force,
        )

    done = execute(context, work, as_json=as_json)
    if as_json:
        print_json(
            {"sent": done.sent, "resubmitted": done.resubmitted, "failed": done.failed,
             "askedAgain": done.asked_again, "left": done.left, "success": True}
        )  # fmt: skip
        return
    out.print(
        f"{done.sent:,} were sent, {done.resubmitted:,} will be sent again,"
        f" {done.failed:,} failed, {done.asked_again:,} are asked again under their reference,"
        f" {done.left:,} stay in doubt"
    )
    if done.left and evidence is not None and absent is None:
        out.print(
            "next: --absent resubmit sends again what the record shows never arrived", style="dim"
        )


class _Line(msgspec.Struct, rename="camel"):
    reference_id: str
    delivered: bool = True


def references_in(path: Path) -> set[IdempotencyKey]:
    """The references that a provider's record says it received."""
    received: set[IdempotencyKey] = set()
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    entry = msgspec.json.decode(line, type=_Line)
                except msgspec.MsgspecError as error:
                    raise InvalidInput(
                        f"{path.name} line {number} is not evidence: {error}",
                        hint='each line is a JSON object with a "referenceId"',
                    ) from error
                if entry.delivered:
                    received.add(IdempotencyKey(entry.reference_id))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    return received
