"""What the command line says of work that does not move, and of who works; a worker's metrics."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.testing.launches import registry, target
from tests.support.broken_server import closed_port
from tests.support.eventually import eventually
from tests.support.forked import ForkedProcess

CAMPAIGN = {
    "name": "Offer",
    "audience": {"recipients": [{"id": "lead-1", "phone": "+447700900123"}]},
    "messages": [{"id": "text", "channel": "sms", "submissionTarget": "noop", "body": "Hi"}],
}


@pytest.fixture
def campaign(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A launch that has begun, and nobody who works on it."""
    registry_file, file = tmp_path / "registry.json", tmp_path / "campaign.json"
    registry_file.write_bytes(registry(target("noop", "noop", "noop:")))
    file.write_text(json.dumps(CAMPAIGN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
    monkeypatch.setenv("OUTRIDER_REGISTRY", str(registry_file))
    monkeypatch.setenv("OUTRIDER_SPOOL", str(tmp_path / "spool"))
    answered("migrate", "--json")
    created: str = answered("campaign", "create", str(file), "--json")["campaignId"]
    answered("campaign", "start", created, "--json")
    return created


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    return result


def answered(*arguments: str) -> Any:
    return json.loads(invoke(*arguments).stdout.splitlines()[-1])


def test_the_status_of_a_campaign_says_why_it_does_not_move_and_what_to_do(campaign: str) -> None:
    (found,) = answered("campaign", "status", campaign, "--json")["phases"]["launch"]["blockers"]
    assert (found["code"], found["submissionTarget"]) == ("NO_WORKER", "noop")
    said = invoke("campaign", "status", campaign).stdout
    assert "NO_WORKER" in said
    assert found["message"] in said
    assert "Start a worker with `outrider work`" in said


def test_a_watch_ends_with_what_the_campaign_waits_for(campaign: str) -> None:
    answered("campaign", "pause", campaign, "--json")
    (found,) = answered("campaign", "watch", campaign, "--json")["blockers"]
    assert found["code"] == "PAUSED"
    said = invoke("campaign", "watch", campaign).stdout
    assert found["message"] in said
    assert found["hint"] in said


async def test_a_worker_is_listed_and_serves_what_it_sent_as_metrics(
    campaign: str, tmp_path: Path
) -> None:
    assert await listed() == []
    port = closed_port()
    process = await ForkedProcess.start(
        "outrider", ("work", "--json", "--metrics-port", str(port)), os.environ, tmp_path
    )
    output = asyncio.gather(process.stdout.read(), process.stderr.read())
    try:
        sent = {"channel": "sms", "target": "noop", "outcome": "sent"}

        async def is_sent() -> bool:
            return await counted(port, "outrider_messages_total", sent) == 1

        await eventually(is_sent)
        await eventually(listed)
        assert await counted(port, "outrider_call_seconds_count", {"target": "noop"}) == 1
        (worker,) = [each for each in await listed() if each["role"] == "worker"]
        assert (worker["pid"], worker["isAlive"]) == (process.pid, True)
        said = (await asyncio.to_thread(invoke, "workers")).stdout
        assert str(process.pid) in said
        assert "everything" in said
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await output
    status = await asyncio.to_thread(answered, "campaign", "status", campaign, "--json")
    assert status["phases"]["launch"]["state"] == "completed"


async def listed() -> list[dict[str, Any]]:
    page = await asyncio.to_thread(answered, "workers", "--json")
    found: list[dict[str, Any]] = page["items"]
    return found


async def counted(port: int, name: str, labels: dict[str, str]) -> float | None:
    """None while the worker is starting, or has not counted any."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            page = await answer.text()
    except aiohttp.ClientError:
        return None
    samples = [each for family in text_string_to_metric_families(page) for each in family.samples]
    found = [each.value for each in samples if each.name == name and each.labels == labels]
    return found[0] if found else None
