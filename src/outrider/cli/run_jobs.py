"""`outrider run jobs`: each job of a run, and what a phase found out in it."""

from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.runs import JobAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.run import Id
from outrider.cli.run_repointing import app
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.kernel.transactions import run_pictures
from outrider.kernel.transactions.paging import FIRST

__all__ = ["app"]

JOBS_SHOWN = 100
After = Annotated[
    str | None, typer.Option(help="Continue where the previous page ended.", metavar="CURSOR")
]


@app.command()
def jobs(context: typer.Context, run_id: Id, after: After = None, as_json: Json = False) -> None:
    """Show a run's jobs, and what each of them found: domains, links, or what a sender lacks."""

    async def here(outrider: Outrider) -> Document:
        begin = cursors.id_after(after, FIRST)
        lines = await outrider.store.read(
            run_pictures.jobs(DEFAULT_SCOPE, RunId(run_id), begin, JOBS_SHOWN)
        )
        found = [
            (line, msgspec.json.decode(line.result) if line.result else None) for line in lines
        ]
        return {
            "items": [document_of(JobAnswer.of(*each)) for each in found],
            "next": cursors.encode(lines[-1].id) if len(lines) == JOBS_SHOWN else None,
        }

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("runs", run_id, "jobs", limit=JOBS_SHOWN, after=after),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["job", "status", "items", "succeeded", "failed", "skipped"],
        [
            (job["jobId"], job["status"], job["items"], job["sent"], job["failed"], job["skipped"])
            for job in page["items"]
        ],
        texts.Run.NO_JOBS,
    )
    for job in page["items"]:
        if job["result"]:
            _print_result(job)
    if page["next"]:
        out.print(texts.Run.NEXT_JOBS.format(run_id=run_id, next=page["next"]))


def _print_result(job: Document) -> None:
    result = dict(job["result"])
    findings = result.pop("findings", None)
    heading = texts.Run.JOB_FOUND.format(job_id=job["jobId"], target=result.get("target", ""))
    out.print(f"\n{heading}")
    if findings is None:
        out.print(escape(msgspec.json.format(msgspec.json.encode(result), indent=2).decode()))
        return
    print_rows(
        ["check", "state", "found", "what to do"],
        [(each["check"], each["state"], each["found"], each.get("hint", "")) for each in findings],
        "",
    )
