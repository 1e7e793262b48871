"""`outrider serve`: the API and, by default, a worker, until SIGTERM or Ctrl-C."""

import errno
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import structlog
import typer

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json
from outrider.cli.session import actor, execute
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.paging import FIRST
from outrider.settings import Settings

log = structlog.get_logger()

BACKLOG = 2_048


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8400,
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            max=64,
            help="Number of workers. 1 runs in this process; more run as separate processes.",
        ),
    ] = 1,
    behind_tls: Annotated[
        bool,
        typer.Option("--behind-tls", help="Set this when a TLS proxy is in front of the server."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve the API and the console, and process jobs.

    SIGTERM or Ctrl-C: finish requests and jobs in progress, accept no new ones, then exit. SIGHUP:
    reload the registry.
    """

    async def work(outrider: Outrider) -> None:
        await _prepare_schema(outrider)
        # A sink that cannot be created is reported before anything is served.
        _ = outrider.bus_relays
        if workers > 0:
            await outrider.reach_engine()
        await _check_exposure(outrider, host, behind_tls=behind_tls)
        listening = bind(host, port)
        key = await outrider.key_keeper.ensure_first_key(actor())
        url = url_of(host, listening)
        # The web framework is a third of the start-up: help and early failures do not need it.
        from outrider.cli.web_server import run_server

        await run_server(
            outrider,
            listening,
            workers,
            lambda: announce(url, key, as_json=as_json),
            behind_tls=behind_tls,
        )

    execute(context, work, as_json=as_json, schema=False)


async def _prepare_schema(outrider: Outrider) -> None:
    """A missing database is created; an existing one is never changed unasked."""
    if _is_new_file(outrider.settings):
        await outrider.store.migrate()
    await outrider.store.verify_schema()


def _is_new_file(settings: Settings) -> bool:
    path = settings.database_url.removeprefix("sqlite:///")
    if path == settings.database_url:
        return False
    file = Path(path)
    return not file.exists() or file.stat().st_size == 0


async def _check_exposure(outrider: Outrider, host: str, *, behind_tls: bool) -> None:
    if _is_loopback(host):
        return
    if not behind_tls:
        raise InvalidInput(
            texts.Serve.NO_TLS.format(host=host),
            hint=texts.Serve.NO_TLS_HINT,
        )
    if outrider.settings.root_key is None and not await _has_key(outrider):
        raise InvalidInput(
            texts.Serve.NO_KEY.format(host=host),
            hint=texts.Serve.NO_KEY_HINT,
        )


async def _has_key(outrider: Outrider) -> bool:
    most = outrider.limits.page_items
    keys = await outrider.key_keeper.list(DEFAULT_SCOPE, FIRST, most)
    # A full page of revoked ones may be followed by a valid one.
    return any(key.revoked_at is None for key in keys) or len(keys) == most


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        why = (
            texts.Serve.IN_USE
            if error.errno == errno.EADDRINUSE
            else texts.Serve.CANNOT_BE_USED.format(strerror=error.strerror)
        )
        raise InvalidInput(
            texts.Serve.CANNOT_LISTEN.format(host=host, port=port, why=why),
            hint=texts.Serve.CANNOT_LISTEN_HINT,
        ) from error


def url_of(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def announce(url: str, key: str | None, *, as_json: bool) -> None:
    log.info("server_ready", url=url)
    if as_json:
        print_json({"url": url, "key": key})
        return
    out.print(texts.Serve.LISTENING.format(url=url))
    if key is not None:
        out.print(texts.Serve.KEY.format(key=key))
        shown = key
    else:
        shown = "$OUTRIDER_KEY"
        out.print(texts.Serve.KEY_HINT, style="dim")
    out.print(texts.Serve.TRY.format(shown=shown, url=url), style="dim")
