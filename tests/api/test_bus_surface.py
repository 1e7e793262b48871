"""The bus as people see it: over HTTP, on the command line, in metrics, and in `outrider check`."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.bootstrap import open_outrider
from outrider.cli.app import app
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.limits.api import ApiLimits
from outrider.settings import Settings
from tests.support.api_inside import Inside, serving
from tests.support.api_server import campaign, running_server
from tests.support.broken_server import closed_port
from tests.support.bus_receiver import SECRET, Receiver, answer, receiving
from tests.support.bus_scene import SINK, Scene
from tests.support.eventually import eventually


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(Receiver()) as running:
        yield running


async def given_up(scene: Scene, receiver: Receiver) -> int:
    """As many dead letters as there were events."""
    receiver.behave = answer(500)
    await scene.runs(2, events=2)
    sink = scene.sink(receiver.url, secret="env:HOOK_SECRET")
    relay = scene.relay(sink, max_attempts=1)
    count = (await scene.record()).waiting
    while (await scene.record()).waiting:
        await relay.relay_all()
    await sink.close()
    return count


async def asked(
    inside: Inside, method: str, path: str, key: str | None = None
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key or inside.key}"}
    async with inside.session.request(method, inside.url + path, headers=headers) as response:
        return response.status, await response.json()


async def of_the_bus(inside: Inside, path: str) -> list[dict[str, Any]]:
    """The runs here are as old as their tests' clock, so the projector raises alerts as well."""
    _, page = await asked(inside, "GET", path)
    return [each for each in page["items"] if each["code"].startswith("EVENT_BUS_")]


async def test_dead_letters_and_alerts_over_http(
    database: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with open_outrider(Settings(database_url=database)) as outrider:
        await outrider.store.migrate()
        scene = Scene(outrider.store)
        count = await given_up(scene, receiver)
        keeper = outrider.key_keeper
        elsewhere = await keeper.open_workspace("other", "project", "production")
        async with serving(outrider, ApiLimits()) as inside:
            _, stranger = await keeper.create(elsewhere, "stranger", [KeyScope.OPERATE], "test")
            _, reader = await keeper.create(DEFAULT_SCOPE, "reader", [KeyScope.READ], "test")
            seen: list[dict[str, Any]] = []
            after = ""
            while True:
                _, page = await asked(inside, "GET", f"/bus/dead-letters?limit=2{after}")
                seen += page["items"]
                if page["next"] is None:
                    break
                after = f"&after={page['next']}"
            assert len(seen) == count == len({each["id"] for each in seen})
            assert {each["error"] for each in seen} == {"http_500"}
            (alert,) = await of_the_bus(inside, "/alerts?standing=true")
            assert (alert["code"], alert["subject"]) == ("EVENT_BUS_DEAD_LETTER", SINK)
            assert alert["severity"] == "P2"

            one = f"/bus/dead-letters/{seen[0]['id']}/redrive"
            assert (await asked(inside, "POST", one, stranger))[0] == 404
            assert (await asked(inside, "POST", one, reader))[0] == 403
            for path in ("/bus/dead-letters", "/alerts"):
                _, theirs = await asked(inside, "GET", path, stranger)
                assert theirs == {"items": [], "next": None}
            _, none = await asked(inside, "POST", "/bus/dead-letters/redrive", stranger)
            assert none["redriven"] == 0

            status, redriven = await asked(inside, "POST", one)
            assert (status, redriven["sink"]) == (200, SINK)
            assert (await asked(inside, "POST", one))[0] == 409
            assert (await asked(inside, "POST", "/bus/dead-letters/unknown/redrive"))[0] == 404
            _, page = await asked(inside, "GET", "/bus/dead-letters?waiting=true")
            assert len(page["items"]) == count - 1
            _, rest = await asked(inside, "POST", "/bus/dead-letters/redrive")
            assert rest["redriven"] == count - 1
            assert await of_the_bus(inside, "/alerts?standing=true") == []
            (over,) = await of_the_bus(inside, "/alerts")
            assert over["resolvedAt"] is not None

            root = inside.url.removesuffix("/api/v2")
            async with inside.session.get(f"{root}/metrics", headers=inside.headers) as response:
                text = await response.text()
    lines = text.splitlines()
    assert f'outrider_bus_waiting{{sink="{SINK}"}} {float(count)}' in lines
    assert f'outrider_bus_failed_total{{sink="{SINK}"}} {float(count)}' in lines
    assert f'outrider_bus_published_total{{sink="{SINK}"}} 0.0' in lines
    assert 'outrider_alerts{code="EVENT_BUS_DEAD_LETTER"} 0.0' in lines


async def run(*arguments: str) -> tuple[int, Any]:
    """The command's exit code, and the JSON it printed."""
    done = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout else None


async def test_the_command_line_shows_redrives_and_forgets(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with open_outrider(Settings()) as outrider:
        await outrider.store.migrate()
        count = await given_up(Scene(outrider.store), receiver)
    _, sinks = await run("bus", "sinks")
    (sink,) = sinks["items"]
    assert (sink["name"], sink["deadLetters"], sink["waiting"]) == (SINK, count, 0)
    _, alerts = await run("alerts")
    assert [each["code"] for each in alerts["items"]] == ["EVENT_BUS_DEAD_LETTER"]
    _, page = await run("bus", "dead-letters", "--limit", "1")
    assert (len(page["items"]), page["next"] is not None) == (1, True)
    code, one = await run("bus", "redrive", page["items"][0]["id"])
    assert (code, one["sink"]) == (0, SINK)
    _, rest = await run("bus", "redrive", "--all")
    assert rest["redriven"] == count - 1
    assert (await run("alerts"))[1]["items"] == []
    assert len((await run("alerts", "--all"))[1]["items"]) == 1
    assert (await run("bus", "redrive"))[0] == 2
    assert (await run("bus", "forget", SINK))[0] == 2, "nobody could be asked"
    asked_first = await asyncio.to_thread(
        CliRunner().invoke, app, ["bus", "forget", SINK], input="n\n"
    )
    assert f"'{SINK}' has {count} waiting events" in asked_first.output
    assert asked_first.exit_code == 1
    assert len((await run("bus", "sinks"))[1]["items"]) == 1
    code, forgotten = await run("bus", "forget", SINK, "--yes")
    assert (code, forgotten["waiting"]) == (0, count)
    assert (await run("bus", "sinks"))[1]["items"] == []
    assert (await run("bus", "resume", SINK))[0] == 1


async def test_a_server_without_workers_relays_and_commands_can_ask_it(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The campaign is started over HTTP; the server alone tells of it, and of what a worker did."""
    root_key = "the-root-key-of-the-bus-test"
    bus = {"audit": {"url": receiver.url, "secret": "env:HOOK_SECRET"}}
    environment = {
        "OUTRIDER_BUS": json.dumps(bus), "HOOK_SECRET": SECRET, "OUTRIDER_ROOT_KEY": root_key,
    }  # fmt: skip
    async with running_server(tmp_path, environment=environment, workers=0) as server:
        created = await server.post("/campaigns", campaign(2))
        await server.post(f"/campaigns/{created['campaignId']}/phases/launch/start")
        await eventually(
            lambda: any(event["type"] == "outrider.run.RunApproved" for event in receiver.heard),
            seconds=60,
        )
        monkeypatch.setenv("OUTRIDER_KEY", root_key)
        monkeypatch.chdir(tmp_path)
        for command in (["bus", "dead-letters"], ["alerts"]):
            code, page = await run("--server", server.url, *command)
            assert (code, page) == (0, {"items": [], "next": None})
        code, redriven = await run("--server", server.url, "bus", "redrive", "--all")
        assert (code, redriven["redriven"]) == (0, 0)
    assert receiver.refused == 0


async def test_a_worker_with_the_setting_publishes_a_whole_run_in_order(
    tmp_path: Path, receiver: Receiver
) -> None:
    bus = {"audit": {"url": receiver.url, "secret": "env:HOOK_SECRET"}}
    environment = {"OUTRIDER_BUS": json.dumps(bus), "HOOK_SECRET": SECRET}
    async with running_server(tmp_path, environment=environment, workers=2) as server:
        created = await server.post("/campaigns", campaign(20, batchSize=5))
        await server.post(f"/campaigns/{created['campaignId']}/phases/launch/start")
        await eventually(
            lambda: any(event["type"] == "outrider.run.RunCompleted" for event in receiver.heard),
            seconds=60,
        )
    types = [event["data"]["eventType"] for event in receiver.heard]
    assert types[0] == "RunApproved"
    assert types[-1] == "RunCompleted"
    assert types.count("StepCompleted") == 4
    sequences = [event["data"]["runSeq"] for event in receiver.heard]
    assert sequences == sorted(set(sequences)), "in order, and none twice"


async def test_check_reports_sinks_that_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry.json").write_text('{"targets": []}')
    async with open_outrider(Settings()) as outrider:
        await outrider.store.migrate()
    port = closed_port()
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("SHORT", "short")
    bus = {
        "unset": {"url": f"http://127.0.0.1:{port}", "secret": "env:NOT_SET"},
        "short": {"url": f"http://127.0.0.1:{port}", "secret": "env:SHORT"},
        "nats": {"url": f"nats://127.0.0.1:{port}"},
    }
    monkeypatch.setenv("OUTRIDER_BUS", json.dumps(bus))
    code, found = await run("check")
    assert code == 1
    said = {each["path"]: each["message"] for each in found["error"]["fields"]}
    assert "NOT_SET is not set" in said["bus: unset"]
    assert "fewer than 24 bytes" in said["bus: short"]
    assert f"nothing can be reached at 127.0.0.1:{port}" in said["bus: nats"]


async def test_a_server_whose_sink_cannot_be_created_says_why_and_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTRIDER_BUS_SECRET", raising=False)
    monkeypatch.setenv("OUTRIDER_BUS", "https://hook.test/")
    (tmp_path / "registry.json").write_text('{"targets": []}')
    code, said = await run("serve", "--port", "0")
    assert code == 1
    assert said["error"]["message"] == "the secret env:OUTRIDER_BUS_SECRET is not set"
