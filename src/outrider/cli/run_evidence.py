"""`outrider run evidence`: a run's signed bundle, or one recipient's proof."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json
from outrider.cli.remote import Remote
from outrider.cli.run import Id
from outrider.cli.run_log import app
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId

__all__ = ["app"]


@app.command()
def evidence(
    context: typer.Context,
    run_id: Id,
    file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file to write; it is replaced.")
    ],
    recipient: Annotated[
        str | None, typer.Option(help="Only the proof for this recipient's items.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a signed bundle that proves what a run did, without bodies and addresses.

    `outrider verify FILE` checks it, without a database.
    """

    async def here(outrider: Outrider) -> int:
        writer = outrider.evidence_writer
        if recipient is not None:
            proof = await writer.inclusion(DEFAULT_SCOPE, RunId(run_id), recipient)
            return file.write_bytes(proof)
        written = 0
        beside = file.with_name(f".{file.name}.part")
        try:
            with beside.open("wb") as opened:
                async for line in writer.bundle(DEFAULT_SCOPE, RunId(run_id)):
                    written += opened.write(line)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
        return written

    async def remote(server: Remote) -> int:
        return file.write_bytes(
            await server.download("runs", run_id, "evidence", recipientId=recipient)
        )

    size = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json({"runId": run_id, "file": str(file), "sizeBytes": size, "success": True})
    else:
        out.print(texts.Verify.WRITTEN.format(file=file, size=size))
