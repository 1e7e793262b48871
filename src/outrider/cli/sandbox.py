"""`outrider sandbox`: the provider simulator, really listening, with faults on request."""

import asyncio
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from outrider.cli.console import Json, err, fail, out, print_json
from outrider.cli.session import refuse_server
from outrider.domain.errors import InvalidInput


def require_simulator() -> None:
    """Its web and mail servers are an extra: whoever only sends needs none."""
    missing = [name for name in ("aiohttp", "aiosmtpd") if find_spec(name) is None]
    if missing:
        raise InvalidInput(
            f"the provider simulator is not installed: it needs {' and '.join(missing)}",
            hint='pip install "outrider[sandbox]"',
        )


def _receipts_secret(receipts_to: str | None, file: Path | None) -> str | None:
    if file is None:
        if receipts_to is not None:
            raise InvalidInput(
                "receipts need something to be signed with", hint="--receipts-secret-file FILE"
            )
        return None
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {type(error).__name__}") from error
    if not secret:
        raise InvalidInput(f"{file} holds no secret")
    return secret


def sandbox(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTP port; 0 picks one.")] = 8090,
    smtp_port: Annotated[
        int, typer.Option(min=0, max=65535, help="SMTP port; 0 picks one.")
    ] = 8025,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append one JSON line per request received."),
    ] = None,
    latency_ms: Annotated[float, typer.Option(min=0, help="Wait before each answer.")] = 0,
    fail_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of requests refused as each provider would.")
    ] = 0,
    drop_rate: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share received and delivered, then cut off unanswered."),
    ] = 0,
    throttle_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share answered 429 with Retry-After.")
    ] = 0,
    retry_after: Annotated[
        float, typer.Option(min=0, help="Seconds that a throttled client is asked to wait.")
    ] = 1,
    dedupe: Annotated[
        bool, typer.Option(help="Refuse a reference that was accepted before.")
    ] = True,
    seed: Annotated[int | None, typer.Option(help="Makes the faults repeatable.")] = None,
    receipts_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Report what became of each message there; {type} stands for the gateway type."
            " Twilio's go to each message's StatusCallback.",
        ),
    ] = None,
    receipts_secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What receipts are signed with.")
    ] = None,
    bounce_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of messages that bounce for good.")
    ] = 0,
    complaint_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share complained about, where a family can say so.")
    ] = 0,
    stop_rate: Annotated[float, typer.Option(min=0, max=1, help="Share answered with STOP.")] = 0,
    receipt_delay_ms: Annotated[
        float, typer.Option(min=0, help="How late receipts come, on average.")
    ] = 0,
    receipt_repeat_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of receipts that come twice.")
    ] = 0,
    receipt_reorder_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of messages whose receipts come reversed.")
    ] = 0,
    forged_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share with one more receipt that is forged.")
    ] = 0,
    receipt_batch: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most so many receipts in one request.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Simulate providers on loopback: every HTTP family of docs/gateways.md, and SMTP.

    Faults can be changed while it runs: PUT /sandbox/faults. What arrived: GET /sandbox/received.
    """
    refuse_server(context, as_json=as_json)
    try:
        require_simulator()
    except InvalidInput as error:
        fail(error, as_json=as_json)
    # A third of a start is its web server: whoever only reads the help does without it.
    from outrider.gateways.sandbox import Faults, ReceiptPlan, Sandbox

    rates = (bounce_rate, complaint_rate, stop_rate, receipt_delay_ms, receipt_repeat_rate)
    try:
        plan = ReceiptPlan(
            receipts_to, _receipts_secret(receipts_to, receipts_secret_file), *rates,
            receipt_reorder_rate, forged_rate, receipt_batch,
        )  # fmt: skip
    except InvalidInput as error:
        fail(error, as_json=as_json)
    faults = Faults(latency_ms, fail_rate, drop_rate, throttle_rate, retry_after, dedupe, seed)

    async def serve() -> None:
        simulator = Sandbox(
            faults, log_path=log, http_port=port, smtp_port=smtp_port, receipts=plan
        )
        try:
            await simulator.start()
        except OSError as error:
            raise InvalidInput(
                f"cannot listen: {error}", hint="choose other ports with --port and --smtp-port"
            ) from error
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if as_json:
            print_json({"http": simulator.http_url, "smtp": simulator.smtp_url})
        else:
            out.print(f"[green]listening[/green] {simulator.http_url} (HTTP providers)")
            out.print(f"          {simulator.smtp_url} (mail)")
            err.print("Ctrl-C stops it", style="dim")
        await stop.wait()
        await simulator.stop()

    try:
        uvloop.run(serve())
    except InvalidInput as error:
        fail(error, as_json=as_json)
