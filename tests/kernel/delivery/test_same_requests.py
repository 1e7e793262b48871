"""Providers that refuse another request under a known key: what is changed is not repeated, and a
refusal of that kind proves the first call."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.gateways.sandbox import Faults, Outcome, Sandbox
from tests.support.doubt_scene import EAGER, doubted, ended, scene, submit, verdicts, waits_for
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working

SELDOM: dict[str, Any] = {
    "limits": replace(EAGER, doubt_first_seconds=600.0, doubt_cap_seconds=600.0),
    "policy": "one_shot",
}
"""So that it stays in doubt until its next check is asked for."""


@pytest.mark.parametrize(
    ("changed", "settles"), [({}, "key"), ({"from": "+15550002222"}, "person")], ids=str
)
async def test_a_repeat_that_would_not_be_the_same_request_is_not_made(
    database: str, tmp_path: Path, changed: dict[str, str], settles: str
) -> None:
    """The sender was changed between the call and its repeat, which its provider would refuse."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        async with scene(database, tmp_path, sandbox, "telnyx", **SELDOM) as outrider:
            await submit(outrider, "telnyx", 1)
            async with working(outrider):
                await doubted(outrider, 0)
        sandbox.change_faults({"dropRate": 0})
        async with (
            scene(
                database, tmp_path, sandbox, "telnyx", options=changed, policy="one_shot"
            ) as outrider,
            working(outrider),
        ):
            async with raw_sql(database) as raw:
                await raw.run("UPDATE doubt_checks SET next_check_at = doubted_at")
            if settles == "key":
                await ended(outrider, 1)
                assert await verdicts(outrider) == {("key", "ask_again"): 1}
            else:
                await waits_for(database, settles)
        assert sandbox.requests == (2 if settles == "key" else 1)
    assert not sandbox.outcomes[Outcome.OTHER_REQUEST]
    assert sandbox.deliveries.total() == 1


async def test_a_repeat_that_its_provider_refuses_as_another_request_proves_the_first_one(
    database: str, tmp_path: Path
) -> None:
    """Whoever does not know of the change repeats it all the same: that must not end it as failed,
    as the first one was sent."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        async with scene(database, tmp_path, sandbox, "telnyx", **SELDOM) as outrider:
            await submit(outrider, "telnyx", 1)
            async with working(outrider):
                await doubted(outrider, 0)
        sandbox.change_faults({"dropRate": 0})
        async with (
            scene(
                database,
                tmp_path,
                sandbox,
                "telnyx",
                options={"from": "+15550002222"},
                policy="one_shot",
            ) as outrider,
            raw_sql(database) as raw,
        ):
            # As if it had never been noted how the first one was made.
            await raw.run("DELETE FROM request_recipes")
            await raw.run("UPDATE doubt_checks SET next_check_at = doubted_at")
            async with working(outrider):
                [intent] = await ended(outrider, 1)
    assert sandbox.outcomes[Outcome.OTHER_REQUEST] == 1
    assert intent.item_status == "sent"
    assert sandbox.deliveries.total() == 1
