"""`outrider run signal`: approve, pause, resume, cancel or advance a run, or retry a step."""

import getpass
from typing import Annotated
from uuid import uuid4

import typer

from outrider.api.models.signals import SignalDone
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json
from outrider.cli.documents import Document, document_of
from outrider.cli.run import Id, app
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.keys import KeyId, KeyScope, Principal
from outrider.domain.signals import AskedSignal, Signal

__all__ = ["app"]


@app.command()
def signal(
    context: typer.Context,
    run_id: Id,
    sent: Annotated[Signal, typer.Argument(metavar="SIGNAL", case_sensitive=False)],
    step: Annotated[str | None, typer.Option(help="Job to retry, for RETRY_STEP.")] = None,
    message: Annotated[str | None, typer.Option(help="Message to decide, for DECIDE.")] = None,
    variant: Annotated[str | None, typer.Option(help="Variant to choose, for DECIDE.")] = None,
    signal_id: Annotated[
        str | None,
        typer.Option(
            help="Idempotency ID: repeating the signal with the same ID has no further effect."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Send a run a signal: APPROVE, PAUSE, RESUME, CANCEL, ADVANCE, RETRY_STEP with --step, or
    DECIDE with --message and --variant.

    The decision on it is recorded in the run's log (`outrider run events RUN`).
    """
    asked = AskedSignal(sent, signal_id or str(uuid4()), step, message, variant)

    async def here(outrider: Outrider) -> Document:
        answer = await outrider.run_signaller.signal(operator(), RunId(run_id), asked)
        return document_of(SignalDone.of(answer))

    body = {"signal": sent.value, "stepId": step, "signalId": asked.signal_id}
    if asked.message_id is not None or asked.variant is not None:
        body |= {"messageId": message, "variant": variant}
    done = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post("runs", run_id, "signals", json=body),
    )
    if as_json:
        print_json(done)
        return
    how = "[green]accepted[/green]" if done["changed"] else texts.RunSignals.NO_CHANGE
    out.print(
        texts.RunSignals.DONE.format(
            signal=done["signal"], how=how, run_seq=done["runSeq"], run_id=done["runId"]
        )
    )


def operator() -> Principal:
    """Anyone who can open the database may do anything with it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return Principal(DEFAULT_SCOPE, KeyId(""), name, frozenset({KeyScope.ADMIN}), kind="cli")
