"""`outrider sandbox`: the provider simulator, really listening, with faults on request."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from outrider.cli import texts
from outrider.cli.console import Json, err, fail, out, print_json
from outrider.cli.session import refuse_server
from outrider.domain.errors import InvalidInput


def _receipts_secret(receipts_to: str | None, file: Path | None) -> str | None:
    if file is None:
        if receipts_to is not None:
            raise InvalidInput(
                texts.Sandbox.NO_RECEIPTS_SECRET, hint=texts.Sandbox.NO_RECEIPTS_SECRET_HINT
            )
        return None
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = type(error).__name__
        raise InvalidInput(texts.Sandbox.SECRET_UNREADABLE.format(file=file, error=why)) from error
    if not secret:
        raise InvalidInput(texts.Sandbox.SECRET_EMPTY.format(file=file))
    return secret


def sandbox(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="HTTP port; 0 picks a free one.")
    ] = 8090,
    smtp_port: Annotated[
        int, typer.Option(min=0, max=65535, help="SMTP port; 0 picks a free one.")
    ] = 8025,
    http2_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="HTTP/2 port, with TLS, for apns; 0 picks a free one."),
    ] = 0,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append one JSON line per request received."),
    ] = None,
    latency_ms: Annotated[float, typer.Option(min=0, help="Delay before each response.")] = 0,
    fail_rate: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of requests refused, in each provider's own way."),
    ] = 0,
    drop_rate: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of requests received and delivered, but cut off without a response.",
        ),
    ] = 0,
    throttle_rate: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of requests answered with 429 and Retry-After."),
    ] = 0,
    retry_after: Annotated[float, typer.Option(min=0, help="Seconds in that Retry-After.")] = 1,
    dedupe: Annotated[
        bool, typer.Option(help="Refuse references that were accepted before.")
    ] = True,
    seed: Annotated[int | None, typer.Option(help="Seed that makes the faults repeatable.")] = None,
    receipts_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Post receipts for each message there; {type} stands for the gateway type."
            " Twilio's go to each message's StatusCallback.",
        ),
    ] = None,
    receipts_secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the secret that signs receipts.")
    ] = None,
    bounce_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of messages that bounce permanently.")
    ] = 0,
    complaint_rate: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of messages with a complaint, for families that report them."
        ),
    ] = 0,
    stop_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of messages answered with STOP.")
    ] = 0,
    receipt_delay_ms: Annotated[float, typer.Option(min=0, help="Average delay of receipts.")] = 0,
    receipt_repeat_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of receipts sent twice.")
    ] = 0,
    receipt_reorder_rate: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of messages whose receipts are sent in reverse order."
        ),
    ] = 0,
    forged_rate: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of messages with an additional, forged receipt."),
    ] = 0,
    receipt_batch: Annotated[
        int, typer.Option(min=1, max=1_000, help="Maximum number of receipts per request.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Simulate providers on loopback: HTTP gateway families (docs/reference/gateways.md), and SMTP.

    Change the faults while it runs with PUT /sandbox/faults. GET /sandbox/received shows what
    arrived.
    """
    refuse_server(context, as_json=as_json)
    # The web server is a third of the start-up: printing the help does not need it.
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
            faults,
            log_path=log,
            http_port=port,
            smtp_port=smtp_port,
            http2_port=http2_port,
            receipts=plan,
        )
        try:
            await simulator.start()
        except OSError as error:
            raise InvalidInput(
                texts.Sandbox.CANNOT_LISTEN.format(error=error),
                hint=texts.Sandbox.OTHER_PORTS,
            ) from error
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if as_json:
            urls = {"http": simulator.http_url, "smtp": simulator.smtp_url}
            http2 = {"http2": simulator.http2.url, "caFile": str(simulator.http2.certificate)}
            print_json(urls | http2)
        else:
            out.print(texts.Sandbox.LISTENING.format(http_url=simulator.http_url))
            out.print(texts.Sandbox.LISTENING_MAIL.format(smtp_url=simulator.smtp_url))
            out.print(
                texts.Sandbox.LISTENING_HTTP2.format(
                    http2_url=simulator.http2.url, certificate=simulator.http2.certificate
                )
            )
            err.print(texts.Sandbox.STOP_HINT, style="dim")
        await stop.wait()
        await simulator.stop()

    try:
        uvloop.run(serve())
    except InvalidInput as error:
        fail(error, as_json=as_json)
