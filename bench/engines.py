"""The engines compared: messages per second on worker loops, on Temporal's dev server and, where
its jar has been fetched, on Conductor's server.

The same launch in turn on each, on SQLite and on Postgres, one worker, no-op gateway, fsync on; and
the history Temporal writes for it. Absolute figures depend on the machine and its load: compare the
ratios of one run.
"""

import argparse
import asyncio
import json
import logging
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import structlog
import uvloop
from rich.console import Console
from rich.table import Table
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from outrider.bootstrap import Outrider, open_outrider
from outrider.cli.demo_conductor import conductor_url, find_jar
from outrider.cli.demo_temporal import temporal_address
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.phases import Action
from outrider.domain.states import TERMINAL_RUNS, Channel, RunStatus
from outrider.engines.temporal.engine import TemporalEngine, workflow_id
from outrider.kernel.transactions import run_records
from outrider.kernel.transactions.phase_controls import Control
from outrider.ports.engine import Work, WorkKind
from outrider.ports.stages import Stage
from outrider.settings import Settings
from outrider.testing.launches import message, people
from outrider.testing.postgres import PrivatePostgres, create_database, given_url

REGISTRY = Path(__file__).parent / "registry.json"
Engine = Literal["local", "temporal", "conductor"]
ACTOR = "bench"
BATCH_SIZE = 500
WATCH_SECONDS = 0.02


class Round(NamedTuple):
    """`first_call_seconds` counts from the start of the control; a local run writes no history."""

    messages_per_second: float
    first_call_seconds: float
    history_events: int


@dataclass
class FirstCall:
    """A stage observer that records when the first provider call began."""

    at: float | None = None

    def before(self, stage: Stage) -> None:
        if stage is Stage.CALL and self.at is None:
            self.at = time.perf_counter()

    def after(self, stage: Stage) -> None: ...


async def one_round(settings: Settings, count: int) -> Round:
    """From `start` to the run's end; its recipients are stored before."""
    first = FirstCall()
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        messages = (message(Channel.SMS, "noop"),)
        definition = CampaignDefinition("bench", (LAUNCH,), messages, BATCH_SIZE)
        campaign_id, _ = await outrider.deployer.create(
            DEFAULT_SCOPE, definition, people(count), ACTOR
        )
        async with outrider.worker(observer=first) as worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await until_polled(outrider)
            began = time.perf_counter()
            started = await outrider.phase_controller.control(
                DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
            )
            assert started.run_id is not None
            await ended(outrider, started.run_id)
            took = time.perf_counter() - began
            events = await history_events(outrider, started.run_id)
            worker.stop()
    assert first.at is not None
    return Round(count / took, first.at - began, events)


async def until_polled(outrider: Outrider) -> None:
    """What is measured is a worker that is up; the local one is after its first poll."""
    if not isinstance(outrider.engine, TemporalEngine):
        return
    client = await outrider.engine.client()
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=outrider.settings.temporal_task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    while not (await client.workflow_service.describe_task_queue(asked)).pollers:  # noqa: ASYNC110
        await asyncio.sleep(WATCH_SECONDS)


async def ended(outrider: Outrider, run_id: RunId) -> None:
    while True:
        record = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        if RunStatus(record.status) in TERMINAL_RUNS:
            return
        await asyncio.sleep(WATCH_SECONDS)


async def history_events(outrider: Outrider, run_id: RunId) -> int:
    """For the run's workflow when it has ended, and every execution that continued it."""
    if not isinstance(outrider.engine, TemporalEngine):
        return 0
    client = await outrider.engine.client()
    work = Work(WorkKind.RUN, DEFAULT_SCOPE.tenant_id, run_id)
    await client.get_workflow_handle(workflow_id(work)).result()
    events, execution = 0, None
    while True:
        handle = client.get_workflow_handle(workflow_id(work), run_id=execution)
        history = await handle.fetch_history()
        events += len(history.events)
        begun = history.events[0].workflow_execution_started_event_attributes
        execution = begun.continued_execution_run_id
        if not execution:
            return events


async def compare(
    servers: dict[Engine, dict[str, Any]],
    folder: Path,
    server_url: str,
    given: argparse.Namespace,
) -> dict[str, dict[str, list[Round]]]:
    """By store and engine; the engines alternate, and so does which goes first."""

    async def sqlite() -> str:
        return f"sqlite:///{folder}/{uuid4()}.db"

    async def postgres() -> str:
        return await create_database(server_url)

    both = {"SQLite": sqlite, "Postgres": postgres}
    stores = {name: both[name] for name in given.stores}
    engines = list(servers)
    rounds: dict[str, dict[str, list[Round]]] = {
        store: {engine: [] for engine in engines} for store in stores
    }
    for number in range(given.pairs):
        for store, new_database in stores.items():
            for engine in engines if number % 2 == 0 else reversed(engines):
                settings = Settings(
                    database_url=await new_database(),
                    registry=REGISTRY,
                    artifacts=folder / "artifacts",
                    spool=folder / "spool",
                    engine=engine,
                    temporal_task_queue=str(uuid4()),
                    conductor_domain=str(uuid4()),
                    **servers[engine],
                )
                rounds[store][engine].append(await one_round(settings, given.count))
    return rounds


def report(rounds: dict[str, dict[str, list[Round]]], count: int) -> None:
    table = Table(
        "store", "engine", "messages/s (median)", "lowest", "highest", "first call",
        "history events/1,000", box=None,
    )  # fmt: skip
    console = Console()
    for store, by_engine in rounds.items():
        for engine, each in by_engine.items():
            rates = [one.messages_per_second for one in each]
            first = statistics.median(one.first_call_seconds for one in each)
            events = statistics.median(one.history_events for one in each) * 1_000 / count
            numbers = (f"{n:,.0f}" for n in (statistics.median(rates), min(rates), max(rates)))
            table.add_row(store, engine, *numbers, f"{first * 1_000:,.0f} ms", f"{events:,.1f}")
    console.print(
        f"{count:,} messages in jobs of {BATCH_SIZE}, one worker, no-op gateway, fsync on"
    )
    console.print(table)
    for store, by_engine in rounds.items():
        medians = {
            engine: statistics.median(one.messages_per_second for one in each)
            for engine, each in by_engine.items()
        }
        for engine, rate in medians.items():
            if engine != "local":
                ratio = rate / medians["local"]
                console.print(f"{store}: {engine} has {ratio:.2f} of the local engine's rate")


async def measured(
    folder: Path, server_url: str, given: argparse.Namespace
) -> dict[str, dict[str, list[Round]]]:
    async with AsyncExitStack() as stack:
        servers: dict[Engine, dict[str, Any]] = {"local": {}}
        if "temporal" in given.engines:
            address = await stack.enter_async_context(temporal_address(folder))
            servers["temporal"] = {"temporal_address": address}
        if "conductor" in given.engines and find_jar() is not None:
            url = await stack.enter_async_context(conductor_url(folder))
            servers["conductor"] = {"conductor_url": url}
        return await compare(servers, folder, server_url, given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--engines", nargs="*", default=["temporal", "conductor"], help="beside the local one"
    )
    parser.add_argument("--stores", nargs="*", default=["SQLite", "Postgres"])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        server = None if given_url() else PrivatePostgres(folder / "postgres")
        url = given_url() or (server.url if server else "")
        try:
            rounds = uvloop.run(measured(folder, url, given))
        finally:
            if server:
                server.close()
    if given.json:
        found = {
            store: {engine: [one._asdict() for one in each] for engine, each in by_engine.items()}
            for store, by_engine in rounds.items()
        }
        print(json.dumps({"count": given.count, "rounds": found}))
    else:
        report(rounds, given.count)


if __name__ == "__main__":
    main()
