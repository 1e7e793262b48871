"""`outrider doubts`: list what is in doubt, resolve it by hand, or reconcile it with evidence."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.doubts import DoubtAnswer, DoubtCountsAnswer, Resolved
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Settles
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId
from outrider.kernel.receipts.doubt_resolver import Reconciliation
from outrider.kernel.receipts.export_reconciler import AbsenceRefused
from outrider.kernel.transactions.doubt_lists import DoubtFilter, named_counts, page
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.campaigns import DOUBTS_COUNTED_MAX

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
    campaign_id: Annotated[
        str | None,
        typer.Option("--campaign", metavar="CAMPAIGN", help="Show only items of this campaign."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Show only items that were called at this target."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Show only items with this reason.")] = None,
    settles: Annotated[
        Settles | None,
        typer.Option(help="Show only items waiting for this evidence."),
    ] = None,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List items in doubt, what each waits for, and the reference to look up at the provider."""
    matching = DoubtFilter(run_id, campaign_id, target, reason, settles)
    query = {"runId": run_id, "campaignId": campaign_id, "submissionTarget": target,
             "reason": reason, "settles": settles.value if settles else None}  # fmt: skip

    async def here(outrider: Outrider) -> tuple[Document, Document]:
        begin = cursors.id_after(after, FIRST)
        found = await outrider.store.read(page(DEFAULT_SCOPE, matching, begin, limit))
        counts, names = await outrider.store.read(
            named_counts(DEFAULT_SCOPE, matching, DOUBTS_COUNTED_MAX)
        )
        listed = Page(
            items=[DoubtAnswer.of(doubt) for doubt in found],
            next=cursors.encode(found[-1].id) if len(found) == limit else None,
        )
        counted = DoubtCountsAnswer.of(counts, names, DOUBTS_COUNTED_MAX)
        return document_of(listed), document_of(counted)

    async def remote(server: Remote) -> tuple[Document, Document]:
        listed = await server.get("doubts", **query, limit=limit, after=after)
        return listed, await server.get("doubts", "counts", **query)

    listed, counted = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(listed)
        return
    print_rows(
        ["item", "recipient", "target", "reason", "settles by", "since", "next check", "reference"],
        [
            (each["outboxId"], each["recipientId"], each["submissionTarget"], each["reason"],
             each["settles"] or texts.Doubts.UNCHECKED, _time(each["since"]),
             _time(each["nextCheckAt"]), each["reference"])
            for each in listed["items"]
        ],
        texts.Doubts.NONE,
    )  # fmt: skip
    if not listed["items"]:
        return
    out.print(
        texts.Doubts.COUNTS.format(
            total=counted["total"], people=counted["leftToPeople"],
            themselves=counted["settlingByThemselves"],
        )
    )  # fmt: skip
    if listed["next"]:
        out.print(texts.Doubts.NEXT_PAGE.format(next=listed["next"]), style="dim")
    if counted["leftToPeople"]:
        out.print(texts.Doubts.NEXT_RESOLVE, style="dim")


def _time(text: str | None) -> str | None:
    return text[:19].replace("T", " ") if text else None


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
    campaign_id: Annotated[
        str | None,
        typer.Option("--campaign", metavar="CAMPAIGN", help="Only items of this campaign."),
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "The provider's own export of what it received: CSV, JSON or NDJSON. Without it,"
                " Outrider asks the targets that can look up references or that recognise"
                " repeated ones."
            ),
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The submission target that the export covers."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="The column of a field: reference, providerMessageId, recipient, time or status."
            " By default all are guessed.",
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS=MEANING",
            help="What a status of the export means: sent, failed, not_received or unclear.",
        ),
    ] = None,
    absent: Annotated[
        DoubtVerdict | None,
        typer.Option(help="What to do with items that never arrived according to the evidence."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what the export would settle, and change nothing."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Include items whose worker may still be running."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Resolve every item that the evidence covers. The rest stays in doubt."""
    if evidence is None:
        _ask_targets(context, run_id, target, absent, force=force, as_json=as_json)
        return
    if target is None:
        raise typer.BadParameter(texts.Doubts.NEEDS_TARGET, param_hint="--target")
    done = _reconcile_export(
        context, evidence, target, _pairs(column or (), "--column"),
        _pairs(status or (), "--status"), absent, run_id, campaign_id,
        apply=not dry_run, force=force, as_json=as_json,
    )  # fmt: skip
    counts = done["counts"]
    if as_json:
        print_json(
            {"sent": counts["sent"], "resubmitted": counts["resubmit"], "failed": counts["failed"],
             "askedAgain": 0, "left": counts["inDoubt"], **done}
        )  # fmt: skip
        return
    _print_export(done)
    verdicts = texts.Doubts.VERDICTS.format(
        sent=counts["sent"], resubmit=counts["resubmit"], failed=counts["failed"],
        in_doubt=counts["inDoubt"],
    )  # fmt: skip
    out.print(verdicts if done["applied"] else texts.Doubts.WOULD_BECOME.format(verdicts=verdicts))
    if counts["ambiguous"]:
        out.print(texts.Doubts.AMBIGUOUS.format(count=counts["ambiguous"]), style="dim")
    if counts["notCovered"]:
        out.print(texts.Doubts.NOT_COVERED.format(count=counts["notCovered"]), style="dim")
    if counts["held"]:
        out.print(texts.Doubts.HELD.format(count=counts["held"]), style="dim")
    if absent is not None and done["absenceRefused"]:
        unread = done["absenceRefused"] == AbsenceRefused.UNREADABLE_ROWS
        out.print(texts.Doubts.UNREADABLE_ROWS if unread else texts.Doubts.NOTHING_MATCHED)
    elif counts["inDoubt"] and absent is None:
        out.print(texts.Doubts.NEXT_ABSENT, style="dim")


def _reconcile_export(
    context: typer.Context,
    path: Path,
    target: str,
    columns: dict[str, str],
    statuses: dict[str, str],
    absent: DoubtVerdict | None,
    run_id: str | None,
    campaign_id: str | None,
    *,
    apply: bool,
    force: bool,
    as_json: bool,
) -> Document:
    # It loads the web framework, which the other commands do without.
    from outrider.api.doubt_exports import ExportRequest, mapping_of, meanings_of
    from outrider.api.doubt_exports import reconcile as reconcile_export

    async def here(outrider: Outrider) -> Document:
        given = ExportRequest(
            target, path.name, await asyncio.to_thread(_digest, path),
            mapping_of(columns, "--column") if columns else None,
            meanings_of(statuses, "--status"), absent, run_id, campaign_id, force,
        )  # fmt: skip
        done = await reconcile_export(outrider, DEFAULT_SCOPE, path, given, actor(), apply=apply)
        return document_of(done)

    async def remote(server: Remote) -> Document:
        _digest(path)
        return await server.upload(
            "doubts", "reconcile", file=path, media_type="application/octet-stream",
            submissionTarget=target, fileName=path.name,
            mapping=msgspec.json.encode(columns).decode() if columns else None,
            statuses=msgspec.json.encode(statuses).decode() if statuses else None,
            absent=absent.value if absent else None, runId=run_id, campaignId=campaign_id,
            confirm="true" if apply else None, force="true" if force else None,
        )  # fmt: skip

    return execute(context, here, as_json=as_json, remote=remote)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(
            texts.Doubts.CANNOT_BE_READ.format(path=path, strerror=error.strerror)
        ) from error


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = dict(each.partition("=")[::2] for each in given)
    if any("=" not in each for each in given):
        raise typer.BadParameter(texts.Doubts.NOT_A_PAIR, param_hint=option)
    return pairs


def _print_export(done: Document) -> None:
    file = done["file"]
    out.print(
        texts.Doubts.EXPORT.format(
            name=escape(file["name"]), rows=file["rows"], format=file["format"],
            encoding=file["encoding"], unreadable=file["unreadable"],
        )
    )  # fmt: skip
    for problem in file["problems"]:
        out.print(
            texts.Doubts.NOT_READ.format(line=problem["line"], message=escape(problem["message"]))
        )
    mapped = [(name, column) for name, column in done["mapping"].items()]
    print_rows(["field", "column"], mapped, texts.Doubts.NO_COLUMNS)
    print_rows(
        ["item", "recipient", "verdict", "by", "line", "status"],
        [
            (each["outboxId"], each["recipientId"], each["verdict"],
             each["matchedBy"] or texts.Doubts.NOT_IN_EXPORT,
             (each["row"] or {}).get("line"), (each["row"] or {}).get("status"))
            for each in done["sample"]
        ],
        texts.Doubts.NOTHING_MATCHES,
    )  # fmt: skip
    out.print(
        texts.Doubts.ROWS.format(known=done["knownRows"], unknown=done["unknownRows"]), style="dim"
    )


def _ask_targets(
    context: typer.Context,
    run_id: str | None,
    target: str | None,
    absent: DoubtVerdict | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    async def work(outrider: Outrider) -> Reconciliation:
        return await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE,
            run_id=run_id,
            received=None,
            absent=absent,
            evidence=texts.Doubts.GATEWAY_LOOK_UP,
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
