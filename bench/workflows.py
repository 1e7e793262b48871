"""Domain events: events per second accepted, routed to ledger rows, and delivered to a no-op
provider.

Through SQLite and through Postgres, one process, on throw-away databases. `EVENTS=50000` sends more
of them.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.transactions import jobs
from outrider.settings import Settings
from outrider.testing.launches import registry, target
from outrider.testing.postgres import PrivatePostgres, create_database

EVENTS = int(os.environ.get("EVENTS", "10000"))
AT_ONCE = 500
LOOK_SECONDS = 0.02

RULE = WrittenRule(
    "lead_welcome",
    Channel.SMS,
    "lead",
    steps=(
        WrittenStep(
            1,
            Channel.SMS,
            "Hi {{ lead.firstName }}, your quote {{ quote.number }} is here.",
            recipients=RecipientConfig(include_lead_contact=True),
        ),
    ),
)


def emission(number: int) -> Emission:
    lead = {"id": f"lead-{number}", "phone": f"+4477{number:08d}", "firstName": f"Ada {number}"}
    return Emission(
        f"event-{number}", "lead_welcome", {"lead": lead}, {"quote": {"number": number}}
    )


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    print(f"  {what:<32}{seconds * 1000:>10.0f} ms{EVENTS / seconds:>12,.0f} events/s")


async def through(name: str, url: str, folder: Path) -> None:
    path = folder / "registry.json"
    path.write_bytes(registry(target("sms.all", "noop", "noop:")))
    settings = Settings(
        database_url=url, registry=path, artifacts=folder / "artifacts", spool=folder / "spool"
    )
    print(f"{name}, {EVENTS:,} events, one step each")
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        await outrider.rule_keeper.apply(DEFAULT_SCOPE, [RULE], "bench", prune=False)
        # The first of them starts the render process, which is not what is measured.
        await outrider.event_intake.emit(DEFAULT_SCOPE, emission(EVENTS))
        await outrider.event_router.route_due()
        with timed("taken, routed and delivered"):
            with timed(f"taken, {AT_ONCE} at once"):
                for first in range(0, EVENTS, AT_ONCE):
                    window = [emission(first + number) for number in range(AT_ONCE)]
                    await outrider.event_intake.emit_all(DEFAULT_SCOPE, window)
            with timed("routed"):
                while await outrider.event_router.route_due():
                    pass
            with timed("delivered"):
                await deliver(outrider)


async def deliver(outrider: Outrider) -> None:
    async with outrider.worker() as worker:
        running = asyncio.create_task(worker.run())
        while await outrider.store.read(jobs.work_is_left(outrider.clock.now())):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        worker.stop()
        await running


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as place:
        folder = Path(place)
        await through("SQLite", f"sqlite:///{folder}/outrider.db", folder)
        server = PrivatePostgres(folder / "postgres")
        try:
            await through("Postgres", await create_database(server.url), folder)
        finally:
            server.close()


if __name__ == "__main__":
    asyncio.run(main())
