"""The web server of `outrider serve`, and what stops, fails and reloads together with it."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import structlog
import uvicorn

from outrider.api.app import create_app
from outrider.api.http_connections import bounded_protocol
from outrider.api.services import Services
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.worker_children import WorkerChildren
from outrider.domain.errors import OutriderError
from outrider.limits.api import CONNECTIONS_MIN, HANDLES_RESERVED, ApiLimits
from outrider.system import raise_handle_limit
from outrider.telemetry import bridge_library_logs

log = structlog.get_logger()


class Server(uvicorn.Server):
    """uvicorn, with our own signal handling: the worker and the streams need the signals too."""

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
    outrider: Outrider,
    listening: socket.socket,
    workers: int,
    on_listening: Callable[[], None],
    *,
    behind_tls: bool = False,
) -> None:
    bridge_library_logs()
    limits = ApiLimits()
    handles = raise_handle_limit()
    failed = asyncio.Event()
    app = create_app(
        outrider,
        limits=limits,
        run_worker=workers > 0,
        behind_tls=behind_tls,
        on_failure=failed.set,
    )
    services: Services = app.state.services
    config = uvicorn.Config(
        app,
        http=bounded_protocol(limits, max(CONNECTIONS_MIN, handles - HANDLES_RESERVED)),
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
        raise OutriderError(texts.WebServer.FAILED) from services.failure


def _hear(outrider: Outrider, stop: Callable[[], None], children: WorkerChildren) -> None:
    loop = asyncio.get_running_loop()

    def reload() -> None:
        loop.run_in_executor(None, outrider.registry_keeper.reload)
        children.send(signal.SIGHUP)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
