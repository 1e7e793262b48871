"""`outrider doubts`: list what is in doubt, resolve it by hand, or reconcile it with evidence."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.items import DoubtAnswer, Resolved
from outrider.bootstrap import Outrider
from outrider.cli import texts
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
    help="Items whose call may or may not have arrived. They are never resent on a guess.",
)

Run = Annotated[
    str | None, typer.Option("--run", metavar="RUN", help="Show only items of this run.")
]


@app.command(name="list")
def list_doubts(
    context: typer.Context,
    run_id: Run = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number to show.")] = 100,
    as_json: Json = False,
) -> None:
    """List items in doubt, with the reference to look up at the provider."""

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
        ["item", "recipient", "provider", "reason", "since", "reference"],
        [
            (doubt["outboxId"], doubt["recipientId"], doubt["provider"], doubt["reason"],
             doubt["doubtedAt"][:19].replace("T", " "), doubt["reference"])
            for doubt in page["items"]
        ],
        texts.Doubts.NONE,
    )  # fmt: skip
    if page["items"]:
        out.print(
            texts.Doubts.NEXT_RESOLVE,
            style="dim",
        )


@app.command()
def resolve(
    context: typer.Context,
    outbox_id: Annotated[str, typer.Argument(metavar="ITEM", help="Item ID.")],
    verdict: Annotated[
        DoubtVerdict,
        typer.Option(help="What the evidence shows; `resubmit` means that it never arrived."),
    ],
    evidence: Annotated[str, typer.Option(help="How you know. Kept permanently in the audit log.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Resolve it even if the worker that made the call may still be running.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Resolve one item by hand. The verdict and its evidence are recorded."""
    if not evidence.strip():
        raise typer.BadParameter(texts.Doubts.NO_EVIDENCE, param_hint="--evidence")

    async def here(outrider: Outrider) -> Document:
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, OutboxId(outbox_id), verdict, evidence, actor(), force=force
        )
        return document_of(Resolved(outbox_id=outbox_id, verdict=verdict))

    body = {"verdict": verdict.value, "evidence": evidence, "force": force}
    resolved = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post("doubts", outbox_id, "resolve", json=body),
    )
    if as_json:
        print_json(resolved)
    else:
        out.print(
            texts.Doubts.RESOLVED.format(
                outbox_id=resolved["outboxId"], verdict=resolved["verdict"]
            )
        )


@app.command()
def reconcile(
    context: typer.Context,
    run_id: Run = None,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "A complete record of what the provider received: one JSON object per "
                "line, each with a `referenceId`. Without it, Outrider asks the targets "
                "that can look up references or that recognise repeated ones."
            ),
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The submission target that the record covers."),
    ] = None,
    absent: Annotated[
        DoubtVerdict | None,
        typer.Option(help="What to do with items that never arrived according to the evidence."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Include items whose worker may still be running."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Resolve every item that the evidence covers. The rest stays in doubt."""
    if evidence is not None and target is None:
        raise typer.BadParameter(
            texts.Doubts.NEEDS_TARGET,
            param_hint="--target",
        )

    async def work(outrider: Outrider) -> Reconciliation:
        received = references_in(evidence) if evidence else None
        return await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE,
            run_id=run_id,
            received=received,
            absent=absent,
            evidence=texts.Doubts.RECONCILED_WITH.format(name=evidence.name)
            if evidence
            else texts.Doubts.GATEWAY_LOOK_UP,
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
        texts.Doubts.RECONCILED.format(
            sent=done.sent,
            resubmitted=done.resubmitted,
            failed=done.failed,
            asked_again=done.asked_again,
            left=done.left,
        )
    )
    if done.left and evidence is not None and absent is None:
        out.print(texts.Doubts.NEXT_ABSENT, style="dim")


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
                        texts.Doubts.NOT_EVIDENCE.format(
                            name=path.name, number=number, error=error
                        ),
                        hint=texts.Doubts.NOT_EVIDENCE_HINT,
                    ) from error
                if entry.delivered:
                    received.add(IdempotencyKey(entry.reference_id))
    except OSError as error:
        raise InvalidInput(
            texts.Doubts.CANNOT_BE_READ.format(path=path, strerror=error.strerror)
        ) from error
    return received
