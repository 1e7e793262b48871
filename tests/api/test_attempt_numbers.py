"""An item has two attempt numbers: the contract's, and which call of that attempt it was."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.limits.api import ApiLimits
from outrider.testing import launches
from tests.api.test_console_api import found
from tests.support.api_inside import Inside, serving
from tests.support.doubt_scene import PATIENCE_SECONDS, payload, repeated, scene

BY_KEY = {"remembers_references": "for_good", "look_up_url": None}


def numbers(of: dict[str, Any]) -> tuple[int, bool]:
    """The contract's, and whether there was more than one call."""
    return of["contractAttempt"], of["engineAttempt"] > 1


async def doubt_of(server: Inside, run_id: str) -> dict[str, Any]:
    """It is in doubt between one call and the next."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await found(server, f"/doubts?runId={run_id}")
            if page["items"]:
                doubt: dict[str, Any] = page["items"][0]
                return doubt
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_repeated_calls_of_one_attempt_are_told_apart_wherever_an_item_is_shown(
    database: str, tmp_path: Path
) -> None:
    """Contracts allow one attempt here, and every call of it is cut off until the provider is
    well."""
    async with (
        Sandbox(Faults(drop_rate=1)) as sandbox,
        scene(
            database, tmp_path, sandbox, "sms", settings=BY_KEY, policy="one_shot"
        ) as outrider,
        serving(outrider, ApiLimits(), run_worker=True) as server,
    ):  # fmt: skip
        offer = launches.message(Channel.SMS, "t", body="An offer")
        run_id = await launches.launch(outrider, [offer], launches.people(1))
        intent = {"intentId": "i-0", "submissionTarget": "t", "payload": payload("sms", 0)}
        await server.post("/intents", intent)
        await repeated(outrider, 6)
        doubt = await doubt_of(server, run_id)
        assert numbers(doubt) == (1, True)
        sandbox.change_faults({"dropRate": 0})
        await launches.until_terminal(outrider, run_id)

        [line] = (await found(server, f"/runs/{run_id}/outbox"))["items"]
        item = await found(server, f"/outbox/{line['outboxId']}")
        assert numbers(line) == numbers(item) == (1, True)
        calls = item["attempts"]
        assert [each["contractAttempt"] for each in calls] == [1] * len(calls)
        assert [each["engineAttempt"] for each in calls] == list(range(1, len(calls) + 1))
        assert calls[-1]["engineAttempt"] == item["engineAttempt"]
        explained = await found(server, f"/outbox/{line['outboxId']}/explain")
        counted = f"Its contract counts 1 of these {len(calls)} calls"
        assert any(counted in each for each in explained["sentences"]), explained["sentences"]

        [submitted] = (await found(server, "/intents"))["items"]
        one = await found(server, "/intents/i-0")
        assert numbers(submitted) == (1, True)
        assert {each["contractAttempt"] for each in one["attempts"]} == {1}
        assert one["attempts"][-1]["engineAttempt"] > 1
