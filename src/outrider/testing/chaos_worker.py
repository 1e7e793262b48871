"""A real worker process for crash tests: `python -m outrider.testing.chaos_worker --database URL`.

It is wired by bootstrap like any other, with short leases and intervals, and with an observer that
kills or stalls it at a given point. SIGTERM stops it cleanly.
"""

import argparse
import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import structlog
import uvloop

from outrider.bootstrap import open_outrider
from outrider.domain.retry import RetrySchedule
from outrider.engines.table import ENGINES
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.limits.kernel import Limits
from outrider.ports.stages import StageObserver, Unobserved
from outrider.settings import Settings, TargetSettings
from outrider.stores.sqlite.store import SqliteStore
from outrider.telemetry import configure_logging
from outrider.testing.chaos import Boundary, IdleWatch, KillAt, StallAt

RETRY = RetrySchedule(first_seconds=0.05)
LEASE_SECONDS = 1.0
IDLE_SECONDS = 1.0
"""Longer than a retry is parked, or a call takes, in these tests."""
NEVER_SECONDS = 3_600.0
READY = "chaos_worker_ready"
"""Logged once the SIGTERM handler is installed."""

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    configure_logging("json")
    uvloop.run(_work(options))


async def _work(options: argparse.Namespace) -> None:
    settings = Settings(
        database_url=options.database,
        registry=options.registry,
        engine=options.engine,
        temporal_address=options.temporal_address,
        temporal_task_queue=options.task_queue,
        conductor_url=options.conductor_url,
        conductor_domain=options.task_queue,
        targets={
            name: TargetSettings.model_validate(
                {"retry_first_seconds": RETRY.first_seconds, **json.loads(given)}
            )
            for name, given in (each.split("=", 1) for each in options.target)
        },
    )
    stopping = asyncio.Event()
    strike = _observer(options)
    observer = strike
    if options.stop_when_idle:
        observer = IdleWatch(stopping.set, IDLE_SECONDS, observer)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    log.info(READY)
    async with open_outrider(settings, limits=_limits(options)) as outrider:
        if _quiet(options):
            outrider.background_loops = BackgroundLoops({}, outrider.clock, outrider.limits)
        if isinstance(strike, StallAt) and isinstance(outrider.store, SqliteStore):
            strike.between_writes = outrider.store.between_writes
        async with (
            outrider.worker(retry=RETRY, observer=observer) as worker,
            asyncio.TaskGroup() as group,
        ):
            running = group.create_task(worker.run())
            stop_requested = group.create_task(stopping.wait())
            await asyncio.wait({running, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
            stop_requested.cancel()
            worker.stop()


def _quiet(options: argparse.Namespace) -> bool:
    """A worker that is to stall at a boundary writes nothing in the background."""
    return options.stall_at is not None


def _observer(options: argparse.Namespace) -> StageObserver:
    if options.kill_at:
        return KillAt(options.kill_at)
    if options.stall_at:
        return StallAt(options.stall_at, options.stall_file)
    return Unobserved()


def _limits(options: argparse.Namespace) -> Limits:
    quiet = _quiet(options)
    return Limits(
        lease_seconds=options.lease_seconds,
        # Routing an event twice does no harm, so the lease of a dead router can be short.
        router_lease_seconds=min(options.lease_seconds, LEASE_SECONDS),
        heartbeat_seconds=NEVER_SECONDS if quiet else options.lease_seconds / 3,
        rescue_interval_seconds=NEVER_SECONDS if quiet else 0.2,
        progress_seconds=NEVER_SECONDS if quiet else Limits.progress_seconds,
        idle_poll_seconds=0.02,
        jobs_in_parallel=options.jobs_in_parallel,
        close_group_seconds=options.close_group_seconds,
        close_backoff_seconds=0.05,
        store_backoff_seconds=0.1,
        stalled_retell_seconds=0.5,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chaos_worker", description=__doc__)
    parser.add_argument("--database", required=True)
    parser.add_argument("--registry", required=True, type=Path)
    strike = parser.add_mutually_exclusive_group()
    strike.add_argument("--kill-at", type=Boundary.parse, metavar="STAGE:MOMENT[:NTH]")
    strike.add_argument("--stall-at", type=Boundary.parse, metavar="STAGE:MOMENT[:NTH]")
    parser.add_argument("--stall-file", type=Path, default=Path("stalled"))
    parser.add_argument("--lease-seconds", type=float, default=LEASE_SECONDS)
    parser.add_argument("--jobs-in-parallel", type=int, default=2)
    parser.add_argument("--close-group-seconds", type=float, default=Limits.close_group_seconds)
    parser.add_argument(
        "--target", action="append", default=[], metavar="TARGET=JSON",
        help="how a target is executed",
    )  # fmt: skip
    parser.add_argument("--stop-when-idle", action="store_true")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="local")
    parser.add_argument("--temporal-address", default="127.0.0.1:7233")
    parser.add_argument("--conductor-url", default="http://127.0.0.1:8080")
    parser.add_argument("--task-queue", default="outrider")
    return parser


if __name__ == "__main__":
    main()
