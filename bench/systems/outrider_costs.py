"""What a message costs Outrider on Postgres: a campaign in two parts, or single messages.

A campaign's audience is stored, then delivered by a warm worker in this process.
`bench/capacity.py` starts this, and gets the results as one line of JSON.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import structlog
import uvloop

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.phases import Action
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.phase_controls import Control
from outrider.testing.launches import message
from systems.child import Request, begin, read_request
from systems.outrider import BATCH_ITEMS, CHANNELS, InsideCrew, audience, settings
from systems.outrider_history import fill_terminal
from systems.outrider_meter import CountingStore, Meter, growth

ACTOR = "bench"
WARM_UP_ITEMS = 500
LOOK_SECONDS = 0.05
STALLED_SECONDS = 600.0
KEY_INDEX = "channel_outbox_tenant_id_workspace_id_idempotency_key_key"
"""The only index of the ledger into which new rows go at random positions."""
COMPRESSION = "pglz"

ENDED = "SELECT count(*) FROM campaign_runs WHERE status IN ('completed', 'partial', 'failed')"
SENT = "SELECT count(*) FROM channel_outbox WHERE origin = 'intent' AND status = 'sent'"
ROWS = "SELECT count(*) FROM channel_outbox"

Part = dict[str, Any]


class Bench:
    def __init__(
        self,
        request: Request,
        outrider: Outrider,
        meter: Meter,
        connection: "asyncpg.Connection[asyncpg.Record]",
    ) -> None:
        self._request = request
        self._outrider = outrider
        self._meter = meter
        self._connection = connection
        self._launches = 0

    async def parts(self) -> dict[str, Part]:
        count = self._request.count
        match self._request.measure:
            case "campaign":
                await self._campaign("warm", WARM_UP_ITEMS)
                return {self._request.options["name"]: await self._campaign("lead", count)}
            case "full":
                await fill_terminal(self._connection, self._request.terminal)
                await self._campaign("warm", WARM_UP_ITEMS)
                plain = await self._campaign("lead", count)
                await self._configure(f"SET wal_compression = {COMPRESSION}")
                try:
                    packed = await self._campaign("second", count)
                finally:
                    await self._configure("RESET wal_compression")
                return {"full": plain, "fullCompressed": packed}
            case "singles":
                at_once = int(self._request.options["atOnce"])
                await self._singles("warm", at_once, at_once)
                return {self._request.options["name"]: await self._singles("one", at_once, count)}
            case other:
                raise ValueError(f"nobody knows how to measure {other}")

    async def _campaign(self, prefix: str, count: int) -> Part:
        await self._checkpoint()
        sizes, before = await self._meter.sizes(), await self._meter.look()
        gateway = self._request.options["gateway"]
        messages = (message(CHANNELS[gateway], "bench"),)
        campaign_id, _ = await self._outrider.deployer.create(
            DEFAULT_SCOPE,
            CampaignDefinition("bench", (LAUNCH,), messages, BATCH_ITEMS),
            audience(prefix, count),
            ACTOR,
        )
        stored = await self._meter.look()
        await self._outrider.phase_controller.control(
            DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
        )
        self._launches += 1
        await self._until(ENDED, self._launches)
        delivered, sizes_after = await self._meter.look(), await self._meter.sizes()
        return {
            "messages": count,
            "store": await self._meter.costs(before, stored, count),
            "deliver": await self._meter.costs(stored, delivered, count),
            "bytesAtRest": growth(sizes, sizes_after, count),
            "ledgerRows": await self._connection.fetchval(ROWS),
            "keyIndex": KEY_INDEX,
            "keyIndexBytes": sizes_after[KEY_INDEX],
        }

    async def _singles(self, prefix: str, at_once: int, count: int) -> Part:
        """Submitted by this many concurrent callers, and finished when all of them are sent."""
        await self._checkpoint()
        sent = await self._connection.fetchval(SENT)
        sizes, before = await self._meter.sizes(), await self._meter.look()
        numbers = iter(range(count))
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._submit(prefix, numbers))
        await self._until(SENT, sent + count)
        after, sizes_after = await self._meter.look(), await self._meter.sizes()
        return {
            "messages": count,
            "atOnce": at_once,
            "deliver": await self._meter.costs(before, after, count),
            "bytesAtRest": growth(sizes, sizes_after, count),
        }

    async def _submit(self, prefix: str, numbers: Iterator[int]) -> None:
        for number in numbers:
            payload = {"to": f"+4477{number:08d}", "message": "Hi"}
            given = Submission(f"{prefix}-{number}", "bench", payload)
            await self._outrider.submissions.submit(DEFAULT_SCOPE, given)

    async def _checkpoint(self) -> None:
        """From here on the first change of a page puts the whole page into the log."""
        await self._connection.execute("CHECKPOINT", timeout=STALLED_SECONDS)

    async def _configure(self, what: str) -> None:
        await self._connection.execute(f"ALTER SYSTEM {what}")
        await self._connection.execute("SELECT pg_reload_conf()")

    async def _until(self, sql: str, count: int) -> None:
        async with asyncio.timeout(STALLED_SECONDS):
            while await self._connection.fetchval(sql) < count:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)


async def work(request: Request) -> dict[str, Part]:
    connection = await asyncpg.connect(request.database)
    async with open_outrider(settings(request)) as outrider:
        outrider.store = store = CountingStore(request.database)
        await store.migrate()
        meter = Meter(connection, store, int(request.options["postmaster"]))
        crew = InsideCrew(outrider)
        await crew.start()
        await crew.go()
        try:
            return await Bench(request, outrider, meter, connection).parts()
        finally:
            await crew.stop()
            await store.close()
            await connection.close()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    begin()
    print(json.dumps(uvloop.run(work(read_request()))), flush=True)
    sys.stdin.readline()
