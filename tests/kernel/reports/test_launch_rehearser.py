"""A misspelt variable is found before anybody is written to (U4), and a failed phase says why."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.bootstrap import Outrider
from outrider.cli.app import app
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.kernel.reports import launch_rehearser
from outrider.kernel.transactions import snapshots, suppressions
from outrider.limits.api import ApiLimits
from outrider.testing.launches import launch, message, people, target
from tests.support.api_inside import serving
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, work_until_terminal

SMS = target("sms.all", "noop", "noop:")
MISSPELT = message(Channel.SMS, "sms.all", body="Hi {{ firstNme }}")


@pytest.fixture
async def outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, SMS) as made:
        yield made


async def test_a_dry_run_says_who_would_fail_on_a_misspelt_variable_and_why(
    outrider: Outrider,
) -> None:
    """U4: it renders; whoever would be skipped is not counted twice."""
    some = [
        recipient(f"nick-{number}", phone=f"+4477009001{number:02}", attributes='{"nick": "A"}')
        for number in range(30)
    ]
    good = message(Channel.SMS, "sms.all", message_id="good", body="Hi")
    halves = message(Channel.SMS, "sms.all", message_id="half", body="Hi {{ nick }}")
    definition = CampaignDefinition("test", (LAUNCH,), (good, halves), 10)
    gone = people(1)
    campaign_id, _ = await outrider.deployer.create(
        DEFAULT_SCOPE, definition, [*some, *people(620)], "test"
    )
    now = outrider.clock.now()
    await outrider.store.write(
        suppressions.suppress(DEFAULT_SCOPE, "sms", [gone[0].phone or ""], OptOut("asked"), now)
    )
    found: dict[str, Any] = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
    assert (found["wouldSend"], found["wouldFail"]) == (649 + 30, 619)
    assert (found["rendered"], found["skipped"]) == (2 * 649, {"suppressed": 2})
    [failure] = found["failures"]
    assert (failure["messageId"], failure["reason"]) == ("half", "render_failed")
    assert failure["detail"] == "body, line 1: `nick` is undefined"
    assert (failure["recipients"], failure["examples"][0]) == (619, "lead-1")
    by_message = {each["messageId"]: each["wouldFail"] for each in found["messages"]}
    assert by_message == {"good": 0, "half": 619}


async def test_a_sample_has_some_of_every_message(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a long first message would hide the mistakes of the second."""
    monkeypatch.setattr(launch_rehearser, "DRY_RUN_RENDERED_MAX", 20)
    good = message(Channel.SMS, "sms.all", message_id="good", body="Hi")
    bad = message(Channel.SMS, "sms.all", message_id="bad", body="Hi {{ firstNme }}")
    definition = CampaignDefinition("test", (LAUNCH,), (good, bad), 10)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(50), "test")
    found: dict[str, Any] = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
    assert (found["rendered"], found["wouldSend"], found["wouldFail"]) == (20, 90, 10)
    assert [each["messageId"] for each in found["failures"]] == ["bad"]


async def test_a_failed_phase_says_why_and_so_does_a_dry_run_of_what_is_left(
    outrider: Outrider, database: str
) -> None:
    """U4: the status has the root cause in words."""
    run_id = await launch(outrider, [MISSPELT], people(20), batch_size=5)
    await work_until_terminal(outrider, run_id)
    async with raw_sql(database) as raw:
        [(found,)] = await raw.run("SELECT id FROM campaigns")
    campaign_id = CampaignId(str(found))
    status = await outrider.store.read(snapshots.snapshot(DEFAULT_SCOPE, campaign_id))
    [phase] = status.phases
    assert phase.reason == (
        "20 of 20 messages failed, most of them with render_failed: body, line 1: `firstNme` is"
        " undefined"
    )
    await outrider.projector.project_once()
    projected = await outrider.run_reader.snapshot(DEFAULT_SCOPE, run_id)
    assert projected.root_cause == phase.reason
    again: dict[str, Any] = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
    assert (again["scope"], again["wouldSend"], again["wouldFail"]) == ("remainder", 0, 20)


CAMPAIGN = {
    "name": "Spring",
    "messages": [
        {"id": "m", "channel": "sms", "submissionTarget": "sms.all", "body": "Hi {{ firstNme }}"}
    ],
    "audience": {
        "recipients": [
            {"id": "a", "phone": "+447700900123", "attributes": {"firstName": "Ada", "city": "X"}}
        ]
    },
}  # fmt: skip
WARNING = (
    "message m: `firstNme` is in no column of the first 1 recipients; their columns are city,"
    " firstName"
)


async def test_creation_compares_variables_with_columns_and_warns(
    database: str, outrider: Outrider, tmp_path: Path
) -> None:
    """U4: by the API and at the command line."""
    async with serving(outrider, ApiLimits()) as server:
        created = await server.post("/campaigns", CAMPAIGN)
        assert created["warnings"] == [WARNING]
        right = json.loads(json.dumps(CAMPAIGN).replace("firstNme", "firstName"))
        assert (await server.post("/campaigns", right))["warnings"] == []
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(CAMPAIGN))
    places = ["--database", database, "--registry", str(tmp_path / "registry.json")]
    result = await asyncio.to_thread(
        CliRunner().invoke, app, [*places, "campaign", "create", str(file)]
    )
    assert result.exit_code == 0
    assert WARNING in " ".join(result.stderr.split())
