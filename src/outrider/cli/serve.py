"""`outrider serve`: the API and, unless told otherwise, a worker, until SIGTERM or Ctrl-C."""

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import structlog
import typer
import uvicorn

from outrider.api.app import create_app
from outrider.api.services import Services
from outrider.bootstrap import Outrider
from outrider.cli.console import Json, out, print_json
from outrider.cli.session import actor, execute
from outrider.cli.worker_children import WorkerChildren
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.inspection import FIRST
from outrider.settings import ApiLimits, Settings
from outrider.telemetry import bridge_library_logs

log = structlog.get_logger()

BACKLOG = 2_048


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks one.")] = 8400,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="1 works in this process; more in others beside it.")
    ] = 1,
    behind_tls: Annotated[
        bool,
        typer.Option("--behind-tls", help="Something in front of this server speaks TLS."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve the API, and work on whatever is due.

    SIGTERM or Ctrl-C: no new requests and jobs, those under way are finished. SIGHUP: the registry
    is read again.
    """

    async def work(outrider: Outrider) -> None:
        await _prepare_schema(outrider)
        # A sink that cannot be made is told before anybody is served.
        _ = outrider.bus_relays
        await _check_exposure(outrider, host, behind_tls=behind_tls)
        listening = bind(host, port)
        key = await outrider.key_keeper.ensure_first_key(actor())
        url = url_of(host, listening)
        await run_server(outrider, listening, workers, lambda: announce(url, key, as_json=as_json))

    execute(context, work, as_json=as_json, schema=False)


class Server(uvicorn.Server):
    """uvicorn, with our own signals: the worker and the streams have to hear of them too."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_server(
    outrider: Outrider, listening: socket.socket, workers: int, on_listening: Callable[[], None]
) -> None:
    bridge_library_logs()
    limits = ApiLimits()
    failed = asyncio.Event()
    app = create_app(outrider, limits=limits, run_worker=workers > 0, on_failure=failed.set)
    services: Services = app.state.services
    config = uvicorn.Config(
        app,
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.stop_seconds),
    )
    server = Server(config, on_listening)
    children = WorkerChildren(outrider.settings, max(0, workers - 1), limits.child_restart_seconds)

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
        server.should_exit = True
        services.begin_stop()
        children.stop()

    async def stop_on_failure() -> None:
        await failed.wait()
        stop()

    async with AsyncExitStack() as stack:
        _hear(outrider, stop, children)
        watching = asyncio.create_task(stop_on_failure())
        stack.callback(watching.cancel)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(children.run())
        try:
            await server.serve([listening])
        finally:
            stop()
    log.info("server_stopped")
    if services.failure is not None:
        raise OutriderError("a role of the server failed; the log says why") from services.failure


def _hear(outrider: Outrider, stop: Callable[[], None], children: WorkerChildren) -> None:
    loop = asyncio.get_running_loop()

    def reload() -> None:
        loop.run_in_executor(None, outrider.registry_keeper.reload)
        children.send(signal.SIGHUP)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)


async def _prepare_schema(outrider: Outrider) -> None:
    """A database that is not there yet is made; one that is there is never changed unasked."""
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
            f"{host} can be reached from elsewhere, and keys would cross the network in the open",
            hint="put TLS in front of it and say --behind-tls, or listen on 127.0.0.1",
        )
    if outrider.settings.root_key is None and not await _has_key(outrider):
        raise InvalidInput(
            f"{host} can be reached from elsewhere, and there is no key yet",
            hint="`outrider key create NAME --scope admin` first, or set OUTRIDER_ROOT_KEY",
        )


async def _has_key(outrider: Outrider) -> bool:
    most = outrider.limits.page_items
    keys = await outrider.key_keeper.list(DEFAULT_SCOPE, FIRST, most)
    # A full page of revoked ones may have a good one behind it.
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
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        )
        raise InvalidInput(
            f"the address {host} port {port} {why}", hint="choose another with --host or --port"
        ) from error


def url_of(host: str, listening: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listening.getsockname()[1]}"


def announce(url: str, key: str | None, *, as_json: bool) -> None:
    log.info("server_ready", url=url)
    if as_json:
        print_json({"url": url, "key": key})
        return
    out.print(f"[green]listening[/green] {url}")
    if key is not None:
        out.print(f"[bold]key[/bold] {key}  [dim](shown once; keep it)[/dim]")
        shown = key
    else:
        shown = "$OUTRIDER_KEY"
        out.print("with a key you have; `outrider key create NAME` makes another", style="dim")
    out.print(f'try: curl -H "Authorization: Bearer {shown}" {url}/api/v2/campaigns', style="dim")
