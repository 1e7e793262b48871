"""A run of which only doubts are left that evidence settles says so, wherever it is shown."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.limits.api import ApiLimits
from outrider.testing import launches
from tests.api.test_console_api import found
from tests.support.api_inside import Inside, serving
from tests.support.doubt_scene import EAGER, PATIENCE_SECONDS, scene


async def blocker_of(server: Inside, path: str, phase: str | None = None) -> Mapping[str, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            document = await found(server, path)
            of = document if phase is None else document["phases"][phase]
            if of["blockers"]:
                first: Mapping[str, Any] = of["blockers"][0]
                return first
            await asyncio.sleep(0.02)


async def test_it_says_how_many_by_what_and_when_the_next_check_is(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mails were taken, and the provider cannot be asked for now."""
    monkeypatch.setattr("outrider.domain.blockers.TURN_SECONDS", 0.0)
    limits = replace(EAGER, run_stall_seconds=0.1)
    async with (
        Sandbox(Faults(drop_rate=1, look_up_fail_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, "smtp", limits=limits) as outrider,
        serving(outrider, ApiLimits(), run_worker=True) as server,
    ):
        offer = launches.message(Channel.EMAIL, "t", body="An offer")
        run_id = await launches.launch(outrider, [offer], launches.people(2))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sandbox.look_ups < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        said = await blocker_of(server, f"/runs/{run_id}")
        assert said["code"] == "DOUBTS_SETTLING"
        assert "2 items are in doubt since" in said["message"]
        assert "2 by asking the provider. The next check is at" in said["message"]
        campaign_id = (await found(server, f"/runs/{run_id}"))["campaignId"]
        shown = await blocker_of(server, f"/campaigns/{campaign_id}/status", "launch")
        assert shown["code"] == "DOUBTS_SETTLING"
        [line, _] = (await found(server, f"/runs/{run_id}/outbox"))["items"]
        explained = await found(server, f"/outbox/{line['outboxId']}/explain")
        assert any(
            "That settles by asking its provider." in each for each in explained["sentences"]
        )
        await outrider.watcher.look_once()
        alerts = (await found(server, "/alerts"))["items"]
        assert "RUN_STALLED" not in [each["code"] for each in alerts]
        sandbox.change_faults({"lookUpFailRate": 0})
        await launches.until_terminal(outrider, run_id)
        assert (await found(server, f"/runs/{run_id}"))["blockers"] == []
