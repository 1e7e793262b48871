"""`outrider run events` and `outrider run snapshot`: a run's log, and the state it adds up to."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from outrider.api.models.run_log import events_page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.run import Id
from outrider.cli.run_jobs import app
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.snapshot_documents import snapshot_document
from outrider.kernel.transactions import run_records
from outrider.kernel.transactions.run_log import LAST_SEQ
from outrider.limits.api import ApiLimits

__all__ = ["app"]

FOLLOW_SECONDS = 0.5
STEPS_SHOWN_MAX = 100
STEP_CHARACTERS = 8
GIST_CHARACTERS = 100
TYPE_COLUMNS = max(map(len, ("SignalAccepted", "SignalRejected", "StepCompleted")))

Fetch = Callable[[int, int], Awaitable[Document]]
"""One page of events after a sequence, at most this many."""
HasEnded = Callable[[], Awaitable[bool]]

After = Annotated[
    int,
    typer.Option(
        min=0, max=LAST_SEQ, metavar="SEQ", help="Show only events after this sequence number."
    ),
]


@app.command()
def events(
    context: typer.Context,
    run_id: Id,
    after: After = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=ApiLimits.page_max, help="Maximum number of events to show.")
    ] = ApiLimits.page_max,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep following until the run has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the run's events in order.

    With --json and --follow, prints one JSON document per line.
    """

    async def here(outrider: Outrider) -> Document:
        async def fetch(begin: int, most: int) -> Document:
            found = await outrider.run_reader.events(DEFAULT_SCOPE, RunId(run_id), begin, most)
            return document_of(events_page(found, most))

        async def has_ended() -> bool:
            run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, RunId(run_id)))
            return run.finished_at is not None

        return await _events(fetch, has_ended, after, limit, follow=follow, as_json=as_json)

    async def remote(server: Remote) -> Document:
        async def fetch(begin: int, most: int) -> Document:
            return await server.get("runs", run_id, "events", after=begin, limit=most)

        async def has_ended() -> bool:
            return (await server.get("runs", run_id))["finishedAt"] is not None

        return await _events(fetch, has_ended, after, limit, follow=follow, as_json=as_json)

    page = execute(context, here, as_json=as_json, remote=remote)
    if follow:
        return
    if as_json:
        print_json(page)
        return
    for event in page["items"]:
        out.print(_line(event))
    if page["next"] is not None:
        out.print(texts.RunLog.NEXT_PAGE.format(run_id=run_id, next=page["next"]), style="dim")
    elif not page["items"]:
        out.print(texts.RunLog.NO_EVENTS)


async def _events(
    fetch: Fetch,
    has_ended: HasEnded,
    after: int,
    limit: int,
    *,
    follow: bool,
    as_json: bool,
) -> Document:
    """The requested page; when following, the last one, after all were printed."""
    if not follow:
        return await fetch(after, limit)
    while True:
        # Asked first: if the run had already ended, the log is read to its end.
        ended = await has_ended()
        page = await fetch(after, limit)
        for event in page["items"]:
            after = event["runSeq"]
            if as_json:
                print_json(event)
            else:
                out.print(_line(event))
        if page["next"] is None:
            if ended:
                return page
            await asyncio.sleep(FOLLOW_SECONDS)


def _line(event: Mapping[str, Any]) -> str:
    attempt = event["logicalAttemptId"]
    if event["engineAttemptId"] is not None:
        attempt += f"/{event['engineAttemptId']}"
    cells = (
        f"{event['runSeq']:>6}",
        f"{event['occurredAt']:<27}",
        event["eventType"].ljust(TYPE_COLUMNS),
        (event["stepId"] or "")[-STEP_CHARACTERS:].ljust(STEP_CHARACTERS),
        attempt.ljust(4),
        _gist(event["payload"]),
    )
    return escape("  ".join(cells).rstrip())


def _gist(payload: Mapping[str, Any]) -> str:
    details = []
    for name, value in payload.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            details.append(f"{name}={value}")
        elif value:
            details.append(f"{name}={msgspec.json.encode(value).decode()}")
    gist = " ".join(" ".join(details).split())
    return gist if len(gist) <= GIST_CHARACTERS else gist[: GIST_CHARACTERS - 1] + "…"


@app.command()
def snapshot(
    context: typer.Context,
    run_id: Id,
    at: Annotated[
        int | None,
        typer.Option(
            "--at", min=0, max=LAST_SEQ, metavar="SEQ", help="The state after this event."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the run's state, now or after one of its events, including every job."""

    async def here(outrider: Outrider) -> Document:
        found = await outrider.run_reader.whole_snapshot(DEFAULT_SCOPE, RunId(run_id), at)
        return snapshot_document(found)

    async def remote(server: Remote) -> Document:
        return await server.get("runs", run_id, "snapshot", at=at)

    document = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(document)
    else:
        _print_snapshot(document)


def _print_snapshot(document: Document) -> None:
    steps = document["steps"]
    out.print(
        texts.RunLog.HEADING.format(
            run_id=document["runId"],
            status=document["status"],
            last_event_seq=document["lastEventSeq"],
        )
    )
    if document.get("cancelRequested"):
        out.print(texts.RunLog.CANCEL_REQUESTED)
    if "rootCause" in document:
        out.print(escape(texts.RunLog.ROOT_CAUSE.format(root_cause=document["rootCause"])))
    counted = Counter(step["status"] for step in steps)
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(counted.items()))
    out.print(texts.RunLog.JOBS.format(jobs=len(steps)) + (f": {counts}" if counts else ""))
    print_rows(
        ["job", "status", "attempt", "started", "completed", "outcome", "sent", "failed",
         "skipped", "reason"],
        [_step_row(step) for step in steps[:STEPS_SHOWN_MAX]],
        texts.RunLog.NO_JOBS,
    )  # fmt: skip
    if len(steps) > STEPS_SHOWN_MAX:
        out.print(texts.RunLog.MORE.format(more=len(steps) - STEPS_SHOWN_MAX), style="dim")


def _step_row(step: Mapping[str, Any]) -> tuple[object, ...]:
    attempt = step["logicalAttemptId"]
    if "engineAttemptId" in step:
        attempt += f"/{step['engineAttemptId']}"
    counts = step.get("counts", {})
    error = step.get("error")
    why = f"{error['code']}: {error['message']}" if error else step.get("reason")
    return (
        step["stepId"], step["status"], attempt, step.get("startedAt"), step.get("completedAt"),
        step.get("outcome"), counts.get("sent"), counts.get("failed"), counts.get("skipped"), why,
    )  # fmt: skip
