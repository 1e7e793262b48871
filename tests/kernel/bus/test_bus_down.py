"""A whole launch while the bus is down, and back: nothing is lost, and no message waits for it."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.cloud_events import event_id
from outrider.gateways.sandbox import Sandbox
from outrider.settings import Settings, SinkSettings
from outrider.testing.launches import registry, target
from tests.support.bus_receiver import SECRET
from tests.support.controls import begun, created, until, until_ended
from tests.support.raw_sql import raw_sql
from tests.support.run_logs import events_of
from tests.support.whole_runs import IMPATIENT, working

QUICK = replace(IMPATIENT, bus_poll_seconds=0.02)


@asynccontextmanager
async def told(database: str, folder: Path, sandbox: Sandbox, port: int) -> AsyncIterator[Outrider]:
    path = folder / "registry.json"
    path.write_bytes(registry(target("sms.all", "sms", sandbox.http_url)))
    (folder / "secret").write_text(SECRET)
    sink = SinkSettings.model_validate(
        {"url": f"http://127.0.0.1:{port}/events", "secret": f"file:{folder}/secret"}
    )
    settings = Settings(
        database_url=database,
        registry=path,
        artifacts=folder / "artifacts",
        spool=folder / "spool",
        bus={"audit": sink},
    )
    async with open_outrider(settings, limits=QUICK) as outrider:
        await outrider.store.migrate()
        yield outrider


@asynccontextmanager
async def listening(port: int, heard: list[str]) -> AsyncIterator[None]:
    async def receive(request: web.Request) -> web.Response:
        heard.append(json.loads(await request.read())["id"])
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/events", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield
    await runner.cleanup()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


async def test_a_bus_that_dies_mid_run_loses_nothing_and_holds_up_no_message(
    database: str, tmp_path: Path, port: int
) -> None:
    heard: list[str] = []
    async with Sandbox() as sandbox, told(database, tmp_path, sandbox, port) as outrider:
        sandbox.change_faults({"latencyMs": 30})
        campaign_id = await created(outrider, 100)
        async with working(outrider):
            async with listening(port, heard):
                run_id = await begun(outrider, campaign_id)
                await until(lambda: len(heard) >= 3)
            # Nobody listens any more, and the launch goes on to its end all the same.
            accounting = await until_ended(outrider, run_id)
            assert accounting.sent == 100
            expected = [event_id(event) for event in await events_of(outrider, run_id)]
            async with raw_sql(database) as raw:
                waiting = await raw.value("SELECT count(*) FROM event_bus_outbox")
            assert waiting >= len(set(expected) - set(heard)) > 0
            async with listening(port, heard):
                await until(lambda: set(heard) >= set(expected))
    assert sandbox.requests == 100
    first_heard = list(dict.fromkeys(heard))
    assert first_heard == expected, "each of them, in the order of the run's log"
