"""`outrider campaign advance`, `decide` and `variants`: a launch in steps, and what it tests."""

from typing import Annotated
from uuid import uuid4

import typer
from rich.markup import escape

from outrider.api.models.signals import SignalDone
from outrider.api.models.variants import RunVariantsAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.campaign import Id, snapshot_of
from outrider.cli.campaign_controls import app
from outrider.cli.console import Json, out, print_json
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.run_signals import operator
from outrider.cli.session import execute
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict
from outrider.domain.ids import RunId
from outrider.domain.signals import AskedSignal, Signal
from outrider.kernel.transactions.variants import of_run

__all__ = ["app"]


@app.command()
def advance(context: typer.Context, campaign_id: Id, as_json: Json = False) -> None:
    """Release the next step of a launch's rollout now, without waiting for the end of its hold."""
    done = _signal_launch(context, campaign_id, AskedSignal(Signal.ADVANCE, str(uuid4())), as_json)
    if as_json:
        print_json(done)
        return
    if done["changed"]:
        out.print(texts.CampaignControls.ADVANCED.format(run_id=done["runId"]))
    else:
        out.print(texts.CampaignControls.NOT_ADVANCED.format(run_id=done["runId"]))


@app.command()
def decide(
    context: typer.Context,
    campaign_id: Id,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE")],
    variant: Annotated[str, typer.Argument(metavar="VARIANT")],
    as_json: Json = False,
) -> None:
    """Choose the variant of a message that the last step of a launch's rollout is sent."""
    asked = AskedSignal(Signal.DECIDE, str(uuid4()), message_id=message_id, variant=variant)
    done = _signal_launch(context, campaign_id, asked, as_json)
    if as_json:
        print_json(done)
        return
    name, message = escape(variant), escape(message_id)
    if done["changed"]:
        line = texts.CampaignControls.DECIDED.format(
            variant=name, message_id=message, run_id=done["runId"]
        )
    else:
        line = texts.CampaignControls.DECIDED_BEFORE.format(
            variant=name, message_id=message, run_id=done["runId"]
        )
    out.print(line)


@app.command()
def variants(context: typer.Context, campaign_id: Id, as_json: Json = False) -> None:
    """Compare the A/B variants of a launch's messages."""

    async def here(outrider: Outrider) -> Document:
        run_id = RunId(_launched(campaign_id, await snapshot_of(outrider, campaign_id)))
        found = await outrider.store.read(of_run(operator().scope, run_id))
        return document_of(RunVariantsAnswer.of(run_id, *found))

    async def remote(server: Remote) -> Document:
        status = await server.get("campaigns", campaign_id, "status")
        return await server.get("runs", _launched(campaign_id, status), "variants")

    found = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(found)
        return
    if not found["messages"]:
        out.print(texts.CampaignControls.NO_VARIANTS.format(run_id=found["runId"]))
    for message in found["messages"]:
        note = texts.CampaignControls.VARIANTS_AWAIT if message["awaitsWinner"] else ""
        if message["winner"]:
            winner = message["winner"]
            note = texts.CampaignControls.VARIANTS_WINNER.format(
                variant=winner["variant"], decided_by=winner["decidedBy"]
            )
        out.print(
            texts.CampaignControls.VARIANTS.format(
                message_id=escape(message["messageId"]), note=escape(note)
            )
        )
        for each in message["variants"]:
            out.print(
                texts.CampaignControls.VARIANT.format(
                    variant=escape(each["variant"]), items=each["items"], sent=each["sent"],
                    delivered=each["rates"]["delivered"], read=each["rates"]["read"],
                    replied=each["rates"]["replied"],
                )
            )  # fmt: skip


def _launched(campaign_id: str, snapshot: Document) -> str:
    run_id = snapshot["phases"][LAUNCH]["runId"]
    if run_id is None:
        raise Conflict(texts.CampaignControls.NO_RUN.format(campaign_id=campaign_id))
    return str(run_id)


def _signal_launch(
    context: typer.Context, campaign_id: str, asked: AskedSignal, as_json: bool
) -> Document:
    async def here(outrider: Outrider) -> Document:
        run_id = RunId(_launched(campaign_id, await snapshot_of(outrider, campaign_id)))
        return document_of(
            SignalDone.of(await outrider.run_signaller.signal(operator(), run_id, asked))
        )

    async def remote(server: Remote) -> Document:
        run_id = _launched(campaign_id, await server.get("campaigns", campaign_id, "status"))
        body = {"signal": asked.signal.value, "signalId": asked.signal_id}
        if asked.message_id is not None:
            body |= {"messageId": asked.message_id, "variant": asked.variant or ""}
        return await server.post("runs", run_id, "signals", json=body)

    return execute(context, here, as_json=as_json, remote=remote)
