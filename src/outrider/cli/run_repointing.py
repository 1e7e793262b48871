"""`outrider run repoint`: send what was never attempted to where the registry says now."""

import typer

from outrider.api.models.repointing import RepointedAnswer
from outrider.bootstrap import Outrider
from outrider.cli.console import Json, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.run import Id, app
from outrider.cli.run_signals import operator
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId

__all__ = ["app"]


@app.command()
def repoint(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """Send what was never attempted to where the registry has its target now.

    What was attempted stays where it was: the provider there may have it.
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
        ["target", "from", "to", "jobs moved", "items kept", "jobs with a worker"],
        [
            (each["submissionTarget"], each["fromUrl"], each["toUrl"], each["jobs"], each["kept"],
             each["busyJobs"])
            for each in answer["targets"]
        ],
        "the registry has no other address for its targets",
    )  # fmt: skip
    if any(each["busyJobs"] for each in answer["targets"]):
        out.print("run it again when those jobs are back", style="dim")
