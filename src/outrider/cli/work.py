"""`outrider work`: worker processes. On SIGTERM they finish what they hold, then exit."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Annotated, Literal

import structlog
import typer

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, print_json
from outrider.cli.session import execute, refuse_server, settings_of
from outrider.domain.errors import OutriderError
from outrider.kernel.transactions import jobs
from outrider.kernel.work.queue_turns import WorkFilter
from outrider.ports.engine import Worker
from outrider.system import settle_process

log = structlog.get_logger()

IDLE_LOOKS = 3
IDLE_LOOK_SECONDS = 0.2


@asynccontextmanager
async def working(outrider: Outrider) -> AsyncIterator[None]:
    """A worker in this process for as long as the block runs; its failure ends the block."""
    async with outrider.worker() as worker, asyncio.TaskGroup() as group:
        group.create_task(worker.run(), name="worker")
        settle_process()
        yield
        worker.stop()


def work(
    context: typer.Context,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Number of worker processes.")] = 1,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=64, help="Concurrent jobs per process.")
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="T,T",
            help=(
                "Process only jobs for these submission targets, for example to dedicate"
                " a worker to one. Phases that send nothing are left to workers without "
                "this option."
            ),
        ),
    ] = None,
    mode: Annotated[
        Literal["realtime", "batch"] | None,
        typer.Option(help="Process only jobs for targets with this mode."),
    ] = None,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="Exit once no job is due. Useful for cron and scripts."),
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Serve Prometheus metrics of this worker on this port; with several processes,"
            " each takes the next one.",
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The address to serve metrics on.")
    ] = "127.0.0.1",
    as_json: Json = False,
) -> None:
    """Process jobs until SIGTERM or Ctrl-C.

    With --until-idle it exits once no job is due; later jobs are left for the next worker. Any
    number of workers may share a database. The jobs of a worker that dies are rescued by the next
    one that starts on its host, or when its lease expires.
    """
    if concurrency is not None:
        context.obj = {**(context.obj or {}), "jobs_in_parallel": concurrency}
    if processes > 1:
        if until_idle:
            raise typer.BadParameter(texts.Work.ONE_PROCESS)
        refuse_server(context, as_json=as_json)
        options = _options(concurrency, targets, mode)
        metrics = (metrics_host, metrics_port) if metrics_port is not None else None
        raise typer.Exit(_supervise(context, processes, options, metrics))
    if until_idle and (targets or mode):
        raise typer.BadParameter(texts.Work.ALL_WORK)
    wanted = WorkFilter(frozenset(targets.split(",")) if targets else None, mode)

    async def run(outrider: Outrider) -> None:
        await outrider.reach_engine()
        async with outrider.worker(work_filter=wanted) as worker:
            loop = asyncio.get_running_loop()

            def stop() -> None:
                worker.stop()
                outrider.stop_guard.begin()

            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop)
            # Items keep the contract they were submitted under; new submissions here use the new
            # one.
            loop.add_signal_handler(signal.SIGHUP, outrider.registry_keeper.reload)
            if metrics_port is not None:
                # With the web server's libraries, for those that want it.
                from outrider.api.metrics import serve_worker_metrics

                serve_worker_metrics(outrider.call_meter, metrics_host, metrics_port)
            if as_json:
                print_json({"worker": "ready"})
            settle_process()
            log.info("worker_ready", database=outrider.store.scheme)
            async with asyncio.TaskGroup() as group:
                watching = (
                    group.create_task(_stop_when_idle(outrider, worker)) if until_idle else None
                )
                working = asyncio.create_task(worker.run(), name="worker")
                if await outrider.stop_guard.ended(working):
                    await working
                if watching is not None:
                    watching.cancel()
            outrider.stop_guard.close()
            log.info("worker_stopped")

    execute(context, run, as_json=as_json)


async def _stop_when_idle(outrider: Outrider, worker: Worker) -> None:
    """After a few checks in a row: an event that was just routed is not a job yet."""
    quiet = 0
    while quiet < IDLE_LOOKS:
        await asyncio.sleep(IDLE_LOOK_SECONDS)
        soon = outrider.clock.now() + timedelta(seconds=outrider.limits.router_lease_seconds)
        quiet = 0 if await outrider.store.read(jobs.work_is_left(soon)) else quiet + 1
    worker.stop()


def _options(concurrency: int | None, targets: str | None, mode: str | None) -> list[str]:
    given = {"--concurrency": concurrency, "--targets": targets, "--mode": mode}
    return [
        word for name, value in given.items() if value is not None for word in (name, f"{value}")
    ]


def _supervise(
    context: typer.Context,
    processes: int,
    options: Sequence[str],
    metrics: tuple[str, int] | None,
) -> int:
    """Start N workers of one process each, pass signals on, and wait for all of them."""
    try:
        settings = settings_of(context)
    except OutriderError as error:
        raise typer.BadParameter(error.message) from error
    command = [sys.executable, "-m", "outrider", "work", *options]
    commands = [command] * processes
    if metrics is not None:
        host, port = metrics
        commands = [
            [*command, "--metrics-host", host, "--metrics-port", f"{port + place}"]
            for place in range(processes)
        ]
    # By environment, because anyone on the host can read a command line and its password.
    environment = {**os.environ, **settings.as_environment()}
    children = [subprocess.Popen(each, env=environment) for each in commands]

    def pass_on(number: int, _frame: object) -> None:
        for child in children:
            with suppress(ProcessLookupError):
                child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    return max(abs(child.wait()) for child in children)
