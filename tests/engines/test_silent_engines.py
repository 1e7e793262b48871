"""An engine whose server takes connections and never answers: no control waits for it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.testing.launches import target, until_terminal
from tests.support.controls import begun, control, created
from tests.support.eventually import eventually
from tests.support.whole_runs import IMPATIENT, PATIENCE_SECONDS, opened, working

PATIENT = replace(IMPATIENT, engine_tell_seconds=3_600.0, engine_deaf_seconds=0.0)
"""The engine may take an hour to answer: whoever waits for that fails this test."""


class SilentServer:
    def __init__(self) -> None:
        self.address = ""
        self.waiting = 0
        """Clients that are connected, and have not given up."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waiting += 1
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            pass
        finally:
            self.waiting -= 1
            writer.close()


@pytest.fixture
async def silent() -> AsyncIterator[SilentServer]:
    server = SilentServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    server.address = f"{host}:{port}"
    yield server
    listening.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("engine", ["temporal", "conductor"])
async def test_controls_are_answered_while_the_engine_is_still_silent(
    database: str, tmp_path: Path, silent: SilentServer, engine: str
) -> None:
    noop = target("sms.all", "noop", "noop:")
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        opened(
            database, tmp_path, noop, limits=PATIENT, engine=engine,
            temporal_address=silent.address, conductor_url=f"http://{silent.address}",
        ) as outrider,
    ):  # fmt: skip
        campaign_id = await created(outrider, 10)
        run_id = await begun(outrider, campaign_id)
        await eventually(lambda: silent.waiting > 0)
        for action, state in (
            (Action.PAUSE, PhaseState.PAUSED),
            (Action.RESUME, PhaseState.IN_PROGRESS),
        ):
            assert (await control(outrider, campaign_id, action)).state is state
            assert silent.waiting > 0, "it was answered because the engine's client gave up"
    async with opened(database, tmp_path, noop) as outrider, working(outrider):
        assert (await until_terminal(outrider, run_id)).sent == 10
