"""`outrider run repoint`: move what no provider can have to the registry's current addresses."""

import typer

from outrider.api.models.repointing import RepointedAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.run import Id, app
from outrider.cli.run_signals import operator
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId

__all__ = ["app"]


@app.command()
def repoint(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """Move what no provider can have to its target's current address in the registry.

    Items that may have arrived stay with the provider that may have received them.
    """

    async def here(outrider: Outrider) -> Document:
        actor = operator().actor
        done = await outrider.run_repointer.repoint(DEFAULT_SCOPE, RunId(run_id), actor)
        return document_of(RepointedAnswer.of(run_id, DEFAULT_SCOPE, done))

    answer = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post("runs", run_id, "repoint"),
    )
    if as_json:
        print_json(answer)
        return
    print_rows(
        ["target", "from", "to", "jobs moved", "items kept", "busy jobs"],
        [
            (each["submissionTarget"], each["fromUrl"], each["toUrl"], each["jobs"], each["kept"],
             each["busyJobs"])
            for each in answer["targets"]
        ],
        texts.RunRepointing.NOTHING_TO_MOVE,
    )  # fmt: skip
    if any(each["busyJobs"] for each in answer["targets"]):
        out.print(texts.RunRepointing.HELD_HINT, style="dim")
