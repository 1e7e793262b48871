"""`outrider demo`: a campaign on a throw-away SQLite that loses its worker to SIGKILL midway.

Everything is real but the providers: sockets, processes, the kill, and the simulators' own log,
which proves that nothing was lost and nothing arrived twice.
"""

import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import uvloop

from outrider.bootstrap import Outrider, open_outrider
from outrider.cli import texts
from outrider.cli.console import (
    Json,
    accounting_line,
    delivery_terms,
    err,
    fail,
    out,
    print_json,
    print_rows,
)
from outrider.cli.demo_campaign import registry, target_settings
from outrider.cli.demo_children import child, ready_line
from outrider.cli.demo_conductor import conductor_url
from outrider.cli.demo_receipts import WayBack
from outrider.cli.demo_story import ACTOR, CampaignStory, Result
from outrider.cli.demo_temporal import temporal_address
from outrider.cli.run import certificate_document, print_certificate
from outrider.cli.serve import announce, bind, url_of
from outrider.cli.session import refuse_server
from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.phases.report import PAGE
from outrider.settings import Settings, TargetSettings
from outrider.telemetry import configure_logging

RECIPIENTS_DEFAULT = 2_000
LATENCY_MS = 2
ERRORS_ONLY = 40
HOST = "127.0.0.1"
SERVER_LEASE_SECONDS = 3.0
"""An engine's server reassigns a killed worker's jobs after its heartbeats have been missing for
this long: a demo should not wait for half a minute."""


class EngineChoice(StrEnum):
    LOCAL = "local"
    TEMPORAL = "temporal"
    CONDUCTOR = "conductor"


def demo(
    context: typer.Context,
    recipients: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of recipients.")
    ] = RECIPIENTS_DEFAULT,
    kill: Annotated[bool, typer.Option(help="Kill the worker with SIGKILL midway.")] = True,
    serving: Annotated[
        bool,
        typer.Option(
            "--serve", help="Afterwards, serve the API and console on the result until Ctrl-C."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for --serve; 0 picks a free one.")
    ] = 8400,
    engine: Annotated[
        EngineChoice,
        typer.Option(
            envvar="OUTRIDER_ENGINE",
            help="Execution engine. `temporal` and `conductor` start their own server unless one is"
            " configured.",
        ),
    ] = EngineChoice.LOCAL,
    as_json: Json = False,
) -> None:
    """Send a campaign through real sockets, kill the worker midway, recover, and prove the result.

    Everything is kept in a temporary folder. Exits with 0 only if the certificate holds and the
    providers' own log agrees with it.
    """
    refuse_server(context, as_json=as_json)
    configure_logging("console", level=ERRORS_ONLY)
    try:
        # Before anything is sent: a port that is taken should be reported at once.
        listening = bind(HOST, port) if serving else None
        with tempfile.TemporaryDirectory(prefix="outrider-demo-") as folder:
            result = uvloop.run(
                _demo(Path(folder), engine, recipients, kill, listening, as_json=as_json)
            )
    except OutriderError as error:
        fail(error, as_json=as_json)
    if not result.holds:
        raise typer.Exit(1)


async def _demo(
    folder: Path,
    engine: EngineChoice,
    recipients: int,
    kill: bool,
    listening: socket.socket | None,
    *,
    as_json: bool,
) -> Result:
    def say(sentence: str) -> None:
        if not as_json:
            err.print(sentence)

    witness = folder / "received.ndjson"
    way_back = WayBack(folder)
    async with _moved_by(engine, folder, say) as moving, child(
        "sandbox", "--port", "0", "--smtp-port", "0", "--log", str(witness),
        "--latency-ms", str(LATENCY_MS), *way_back.sandbox_arguments(), "--json",
    ) as simulator:  # fmt: skip
        urls = msgspec.json.decode(await ready_line(simulator))
        say(texts.Demo.PROVIDERS.format(http=urls["http"], smtp=urls["smtp"]))
        targets = way_back.reporting(target_settings(urls["http"]))
        settings = _settings(folder, urls["http"], urls["smtp"], targets, moving)
        async with open_outrider(settings) as outrider:
            await outrider.store.migrate()
            link = f"{urls['http']}/sandbox/received"
            story = CampaignStory(outrider, witness, say)
            async with way_back.server(settings):
                result = await story.tell(recipients, link, kill=kill)
            if not as_json:
                _print(result, kept_in=folder if listening else None)
            if listening is not None:
                await _serve(outrider, listening, result, as_json=as_json)
            elif as_json:
                print_json(result.as_document())
            return result


@asynccontextmanager
async def _moved_by(
    engine: EngineChoice, folder: Path, say: Callable[[str], None]
) -> AsyncIterator[dict[str, Any]]:
    """The settings of the engine, with its server where it needs one."""
    if engine is EngineChoice.LOCAL:
        yield {"engine": engine.value}
        return
    if engine is EngineChoice.CONDUCTOR:
        async with conductor_url(folder) as url:
            say(texts.Demo.CONDUCTOR.format(url=url))
            yield {
                "engine": engine.value,
                "conductor_url": url,
                "conductor_domain": folder.name,
                "lease_seconds": SERVER_LEASE_SECONDS,
            }
        return
    async with temporal_address(folder) as address:
        say(texts.Demo.TEMPORAL.format(address=address))
        yield {
            "engine": engine.value,
            "temporal_address": address,
            # On a shared server, only the demo's workers may take the demo's jobs.
            "temporal_task_queue": folder.name,
            "lease_seconds": SERVER_LEASE_SECONDS,
        }


def _settings(
    folder: Path,
    http_url: str,
    smtp_url: str,
    targets: dict[str, TargetSettings],
    moving: dict[str, Any],
) -> Settings:
    """The demo's own, whatever the machine's settings say: its providers are on loopback."""
    file = folder / "registry.json"
    file.write_bytes(registry(http_url, smtp_url))
    return Settings(
        database_url=f"sqlite:///{folder}/demo.db",
        registry=file,
        artifacts=folder / "artifacts",
        spool=folder / "spool",
        allow_private_gateways=True,
        allow_private_links=True,
        targets=targets,
        **moving,
    )


async def _serve(
    outrider: Outrider, listening: socket.socket, result: Result, *, as_json: bool
) -> None:
    from outrider.cli.web_server import run_server

    # The server that took the receipts has made the first key, and told nobody.
    _, key = await outrider.key_keeper.create(DEFAULT_SCOPE, "demo", {KeyScope.ADMIN}, ACTOR)

    def on_listening() -> None:
        announce(url_of(HOST, listening), key, as_json=as_json)
        if as_json:
            print_json(result.as_document())
        else:
            err.print(texts.Demo.STOP_HINT, style="dim")

    await run_server(outrider, listening, 1, on_listening)


def _kill_line(result: Result) -> str:
    sent, again = result.settled_as(DoubtVerdict.SENT), result.settled_as(DoubtVerdict.RESUBMIT)
    if not sent + again:
        return texts.Demo.KILL_WITHOUT_DOUBT.format(kills=result.kills)
    return texts.Demo.KILL.format(kills=result.kills, doubted=sent + again, sent=sent, again=again)


def _print(result: Result, *, kept_in: Path | None) -> None:
    out.print()
    out.print(texts.Demo.LEDGER.format(accounting=accounting_line(result.accounting)))
    if result.kills:
        out.print(_kill_line(result))
    if result.accounting.sent:
        out.print(
            texts.Demo.RECEIPTS.format(
                terms=delivery_terms(result.reported.as_document()), sent=result.accounting.sent
            )
        )
    files = ", ".join(
        texts.Demo.BYTES.format(name=each.name, size_bytes=each.size_bytes)
        for each in result.artifacts
    )
    out.print(texts.Demo.REPORT.format(files=files))
    for page in kept_in.rglob(PAGE) if kept_in else ():
        out.print(f"              {page}")
    print_rows(
        ["The providers", "received", "sent twice"],
        [
            *((name, f"{count:,}", "") for name, count in sorted(result.by_protocol.items())),
            ("all", f"{result.received:,}", result.duplicates),
        ],
        texts.Demo.PROVIDERS_RECEIVED_NOTHING,
    )
    out.print()
    print_certificate(certificate_document(result.certificate))
    if result.holds:
        out.print(texts.Demo.PROVEN)
    else:
        out.print(texts.Demo.NOT_PROVEN.format(lost=result.lost, duplicates=result.duplicates))
