"""`outrider workers`: who works at this database, and what each holds."""

import typer

from outrider.api.worker_lines import worker_page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.session import execute


def workers(
    context: typer.Context, limit: Most = 100, after: After = None, as_json: Json = False
) -> None:
    """List servers and workers: which are alive, since when, and what each holds."""

    async def here(outrider: Outrider) -> Document:
        return document_of(await worker_page(outrider, after, limit))

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("workers", limit=limit, after=after),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["host", "pid", "role", "version", "state", "started", "last seen", "takes", "holds"],
        [
            (each["host"], each["pid"], each["role"], each["version"],
             texts.Workers.ALIVE if each["isAlive"] else texts.Workers.SILENT,
             _minute(each["startedAt"]), _minute(each["seenAt"]), _takes(each), _holds(each))
            for each in page["items"]
        ],
        texts.Workers.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Workers.NEXT_PAGE.format(next=page["next"]), style="dim")


def _minute(moment: str) -> str:
    return moment[:19].replace("T", " ")


def _takes(worker: Document) -> str:
    limited = [*(worker["targets"] or []), *([worker["mode"]] if worker["mode"] else [])]
    return ", ".join(limited) or texts.Workers.EVERYTHING


def _holds(worker: Document) -> str:
    return ", ".join(
        texts.Workers.HOLDS.format(jobs=each["jobs"], target=each["submissionTarget"])
        for each in worker["holds"]
    )
