"""Six incidents as an on-call engineer sees them: what is reported, where, how soon, and when it
ends.

A clock runs from the beginning of each (`FirstWord`). As storms they last as long as in life.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from aiohttp import web

from outrider.gateways.sandbox import Sandbox
from outrider.telemetry import TRANSITIONS, WARNINGS, subject_of
from outrider.testing.launches import registry, target
from outrider.testing.postgres import PrivatePostgres, create_database
from tests.support.broken_server import closed_port
from tests.support.bus_receiver import SECRET
from tests.support.deployment import Deployment, Launched, deployed
from tests.support.eventually import observed_for
from tests.support.first_word import FirstWord
from tests.support.moody_provider import moody_provider
from tests.support.temporal_server import TemporalServer, running_temporal

TARGET = "sms.all"
PEOPLE = 12
WAIT_SECONDS = 90.0
LOOK_SECONDS = 0.1
Found = TypeVar("Found")
Record = Callable[[str, object], None]
TWO_MINUTES, MINUTE = 120.0, 60.0


def lasting(storm_seconds: float) -> pytest.MarkDecorator:
    """How long it lasts once everybody has said it: not at all, or as in life."""
    storm = pytest.param(storm_seconds, marks=pytest.mark.storm, id=f"{storm_seconds:.0f} s")
    return pytest.mark.parametrize("lasts_seconds", [pytest.param(0.0, id="short"), storm])


async def said(word: FirstWord, place: str, finding: Awaitable[Found]) -> Found:
    found = await finding
    word.on(place)
    return found


QUICK = {TARGET: {"breaker_failures": 1, "breaker_seconds": 1, "concurrency": 1}}


async def until(look: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """What is found, as soon as something is."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
    return found


async def until_blocked(deployment: Deployment, launched: Launched, code: str) -> dict[str, Any]:
    async def look() -> list[dict[str, Any]]:
        status = await deployment.server.get(f"/campaigns/{launched.campaign_id}/status")
        blockers = status["phases"]["launch"]["blockers"]
        return [each for each in blockers if each["code"] == code]

    found: dict[str, Any] = (await until(look))[0]
    return found


async def open_alerts(deployment: Deployment, code: str) -> list[dict[str, Any]]:
    page = await deployment.server.get("/alerts?standing=true")
    return [each for each in page["items"] if each["code"] == code]


async def until_alert(deployment: Deployment, code: str) -> dict[str, Any]:
    alert: dict[str, Any] = (await until(lambda: open_alerts(deployment, code)))[0]
    assert alert["runbook"].endswith(f"#{code.lower()}")
    return alert


async def until_resolved(deployment: Deployment, code: str) -> None:
    async def look() -> bool:
        return not await open_alerts(deployment, code)

    await until(look)


async def blockers_of(deployment: Deployment, launched: Launched) -> list[dict[str, Any]]:
    run = await deployment.run(launched.run_id)
    return list(run["blockers"])


@lasting(TWO_MINUTES)
async def test_a_provider_that_answers_503_to_everything_is_reported_and_recovers(
    tmp_path: Path, lasts_seconds: float, record_property: Record
) -> None:
    """U1: it was shown by no page, alert, log line or metric."""
    async with (
        Sandbox() as sandbox,
        moody_provider(sandbox.http_url) as (url, is_down),
        deployed(
            tmp_path, f"sqlite:///{tmp_path}/outrider.db", [target(TARGET, "sms", url)],
            settings={TARGET: {"breaker_seconds": 1}},
            environment={"OUTRIDER_METRICS_WITHOUT_KEY": "true"},
        ) as deployment,
    ):  # fmt: skip
        word = FirstWord(record_property)
        launched = await deployment.launch(TARGET, PEOPLE)
        blocker, alert, line = await asyncio.gather(
            said(word, "page", until_blocked(deployment, launched, "TARGET_THROTTLED")),
            said(word, "alert", until_alert(deployment, "TARGET_THROTTLED")),
            said(word, "log", deployment.server.logged("provider_error", WAIT_SECONDS)),
        )
        assert blocker["submissionTarget"] == TARGET
        assert "asks to retry later" in blocker["message"]
        assert (alert["subject"], alert["severity"]) == (TARGET, "P3")
        assert TARGET in line
        await observed_for(lasts_seconds)
        # Once a minute, however many calls fail.
        assert deployment.server.log.count('"provider_error"') <= 2 + lasts_seconds / 60
        metrics = await deployment.server.request("GET", "/metrics")
        assert b'outrider_messages_total{channel="sms",outcome="given_back"' in metrics.body
        is_down[0] = False
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert run["accounting"]["sent"] == PEOPLE
        assert run["blockers"] == []
        await until_resolved(deployment, "TARGET_THROTTLED")


async def test_a_registry_with_a_dead_host_is_reported_and_a_repoint_moves_the_run(
    tmp_path: Path, record_property: Record
) -> None:
    """U2: explain advised to start a worker while two ran."""
    dead = f"http://127.0.0.1:{closed_port()}"
    async with (
        Sandbox() as sandbox,
        deployed(
            tmp_path, f"sqlite:///{tmp_path}/outrider.db", [target(TARGET, "sms", dead)],
            settings=QUICK,
        ) as deployment,
    ):  # fmt: skip
        word = FirstWord(record_property)
        launched = await deployment.launch(TARGET, PEOPLE, batch_size=1)
        blocker, alert, line = await asyncio.gather(
            said(word, "page", until_blocked(deployment, launched, "TARGET_DOWN")),
            said(word, "alert", until_alert(deployment, "TARGET_DOWN")),
            said(word, "log", deployment.server.logged("target_door_down", WAIT_SECONDS)),
        )
        assert dead in blocker["message"]
        assert "outrider work`" not in blocker["hint"]
        assert alert["subject"] == TARGET
        assert TARGET in line
        fixed = json.loads(registry(target(TARGET, "sms", sandbox.http_url)))
        answer = await deployment.server.request("PUT", "/registry", fixed)
        assert answer.status == 200, answer.body

        async def repoint_is_advised() -> bool:
            return any(
                "run repoint" in each["hint"] for each in await blockers_of(deployment, launched)
            )

        await until(repoint_is_advised)

        async def is_moved() -> bool:
            """A job that a worker holds at that moment stays: the command is repeated."""
            answer = await deployment.server.post(f"/runs/{launched.run_id}/repoint")
            assert all(each["kept"] == 0 for each in answer["targets"]), "no call ever left"
            return not any(each["busyJobs"] for each in answer["targets"])

        await until(is_moved)
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert (run["accounting"]["sent"], run["blockers"]) == (PEOPLE, [])
        # Nobody calls the dead host any more: its door is forgotten, and the alert with it.
        await until_resolved(deployment, "TARGET_DOWN")


@lasting(TWO_MINUTES)
async def test_a_frozen_worker_is_named_and_continues_when_it_wakes(
    tmp_path: Path, lasts_seconds: float, record_property: Record
) -> None:
    async with (
        Sandbox() as sandbox,
        deployed(
            tmp_path, f"sqlite:///{tmp_path}/outrider.db",
            [target(TARGET, "sms", sandbox.http_url)], workers_of_server=0, worker_processes=1,
            # The call that was out is in doubt once its lease has run out: repeated, it settles.
            settings={TARGET: {"concurrency": 1, "remembers_references": "for_good"}},
        ) as deployment,
    ):  # fmt: skip
        sandbox.change_faults({"latencyMs": 300})
        (worker,) = deployment.workers
        launched = await deployment.launch(TARGET, PEOPLE)

        async def holds() -> bool:
            page = await deployment.server.get("/workers")
            return any(each["pid"] == worker.pid and each["holds"] for each in page["items"])

        await until(holds)
        word = FirstWord(record_property)
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            blocker, alert, logged = await asyncio.gather(
                said(word, "page", until_blocked(deployment, launched, "NO_WORKER")),
                said(word, "alert", until_alert(deployment, "NO_WORKER")),
                said(word, "log", deployment.server.logged("NO_WORKER", WAIT_SECONDS)),
            )
            assert f"/{worker.pid} holds 1 job" in blocker["message"]
            assert str(worker.pid) in logged
            page = await deployment.server.get("/workers")
            (line,) = (each for each in page["items"] if each["pid"] == worker.pid)
            assert (line["isAlive"], alert["severity"]) == (False, "P1")
            await observed_for(lasts_seconds)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert run["blockers"] == []
        await until_resolved(deployment, "NO_WORKER")


@lasting(MINUTE)
async def test_an_unavailable_database_is_reported_once_and_work_continues_afterwards(
    tmp_path: Path, lasts_seconds: float, record_property: Record
) -> None:
    with TemporaryDirectory(prefix="outrider-postgres-", ignore_cleanup_errors=True) as folder:
        postgres = PrivatePostgres(Path(folder))
        try:
            async with Sandbox() as sandbox:
                await _database_goes_away(
                    postgres, sandbox, tmp_path, lasts_seconds, record_property
                )
        finally:
            postgres.close()


async def _database_goes_away(
    postgres: PrivatePostgres,
    sandbox: Sandbox,
    folder: Path,
    lasts_seconds: float,
    record: Record,
) -> None:
    sms = target(TARGET, "sms", sandbox.http_url)
    sandbox.change_faults({"latencyMs": 300})
    async with deployed(
        folder, await create_database(postgres.url), [sms], settings={TARGET: {"concurrency": 1}}
    ) as deployment:
        launched = await deployment.launch(TARGET, PEOPLE)
        path = f"/campaigns/{launched.campaign_id}/status"
        word = FirstWord(record)
        await asyncio.to_thread(postgres.stop_immediately)

        async def away() -> list[dict[str, Any]]:
            answer = await deployment.server.request("GET", path)
            return answer.json["error"].get("blockers", []) if answer.status == 503 else []

        # No alert can be written: the server makes one of what it sees itself.
        (blocker,), alert, _ = await asyncio.gather(
            said(word, "page", until(away)),
            said(word, "alert", until_outage_alert(deployment)),
            said(word, "log", deployment.server.logged("database_down", WAIT_SECONDS)),
        )
        assert blocker["code"] == "DATABASE_DOWN"
        assert "has not answered since" in blocker["message"]
        assert (alert["subject"], alert["severity"]) == ("database", "P1")
        await observed_for(lasts_seconds)
        await asyncio.to_thread(postgres.start_again)
        await deployment.server.logged("database_back")
        assert deployment.server.log.count('"database_down"') == 1
        # Whatever else needs the database says so once, and then once a minute.
        times = said_of_each_subject(deployment.server.log)
        assert max(times.values()) <= 2 + lasts_seconds / 60, times.most_common(5)

        async def ended() -> bool:
            answer = await deployment.server.request("GET", f"/runs/{launched.run_id}")
            if answer.status != 200:
                return False
            accounting = answer.json["accounting"]
            return bool(accounting["sent"] + accounting["inDoubt"] == PEOPLE)

        await until(ended)
        await until_resolved(deployment, "DATABASE_DOWN")


async def until_outage_alert(deployment: Deployment) -> dict[str, Any]:
    async def look() -> list[dict[str, Any]]:
        answer = await deployment.server.request("GET", "/alerts?standing=true")
        if answer.status != 200:
            return []
        return [each for each in answer.json["items"] if each["code"] == "DATABASE_DOWN"]

    alert: dict[str, Any] = (await until(look))[0]
    assert alert["runbook"].endswith("#database_down")
    return alert


def said_of_each_subject(log: str) -> Counter[tuple[str, ...]]:
    """How often each warning was logged, of everything that a server logs while it lasts."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    unique = ("timestamp", "request_id", "level")
    return Counter(
        subject_of({name: value for name, value in line.items() if name not in unique})
        for line in lines
        if line["level"] in WARNINGS and line["event"] not in TRANSITIONS
    )


@lasting(TWO_MINUTES)
async def test_a_sink_that_is_away_is_reported_and_caught_up_with(
    tmp_path: Path, lasts_seconds: float, record_property: Record
) -> None:
    port = closed_port()
    bus = {
        "audit": {"url": f"http://127.0.0.1:{port}/", "secret": "env:HOOK_SECRET"},
    }
    environment = {"OUTRIDER_BUS": json.dumps(bus), "HOOK_SECRET": SECRET}
    async with deployed(
        tmp_path, f"sqlite:///{tmp_path}/outrider.db", [target(TARGET, "noop", "noop:")],
        environment=environment,
    ) as deployment:  # fmt: skip
        word = FirstWord(record_property)
        launched = await deployment.launch(TARGET, PEOPLE)
        # Its page is the one of alerts: no campaign waits for it.
        run, alert, _ = await asyncio.gather(
            deployment.until_run_ended(launched.run_id, WAIT_SECONDS),
            said(word, "page_and_alert", until_alert(deployment, "EVENT_BUS_STUCK")),
            said(word, "log", deployment.server.logged("bus_events_delayed", WAIT_SECONDS)),
        )
        assert run["accounting"]["sent"] == PEOPLE, "messages do not wait for a sink"
        assert alert["subject"] == "audit"
        assert "has not taken an event since" in alert["message"]
        await observed_for(lasts_seconds)

        async def take(_request: web.Request) -> web.Response:
            return web.Response(status=204)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            await until_resolved(deployment, "EVENT_BUS_STUCK")
        finally:
            await runner.cleanup()


async def test_an_engine_whose_server_is_away_is_reported_and_work_goes_on_after_it(
    tmp_path: Path, record_property: Record
) -> None:
    with running_temporal() as temporal:
        await temporal.until_ready()
        async with Sandbox() as sandbox:
            await _engine_goes_away(temporal, sandbox, tmp_path, record_property)


async def _engine_goes_away(
    temporal: TemporalServer, sandbox: Sandbox, folder: Path, record: Record
) -> None:
    sandbox.change_faults({"latencyMs": 300})
    async with deployed(
        folder, f"sqlite:///{folder}/outrider.db", [target(TARGET, "sms", sandbox.http_url)],
        settings={TARGET: {"concurrency": 1}},
        environment={
            "OUTRIDER_ENGINE": "temporal",
            "OUTRIDER_TEMPORAL_ADDRESS": temporal.address,
            "OUTRIDER_TEMPORAL_TASK_QUEUE": f"incident-{uuid4()}",
        },
    ) as deployment:  # fmt: skip
        launched = await deployment.launch(TARGET, PEOPLE, batch_size=1)
        await until(lambda: _is_sent(sandbox))
        word = FirstWord(record)
        temporal.kill()
        blocker, alert, _ = await asyncio.gather(
            said(word, "page", until_blocked(deployment, launched, "ENGINE_DOWN")),
            said(word, "alert", until_alert(deployment, "ENGINE_DOWN")),
            said(word, "log", deployment.server.logged("engine_not_told", WAIT_SECONDS)),
        )
        assert "The engine has not answered since" in blocker["message"]
        assert "for Temporal: its server" in blocker["hint"]
        assert (alert["subject"], alert["severity"]) == ("engine", "P1")
        temporal.start()
        await temporal.until_ready()
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert (run["accounting"]["sent"], run["blockers"]) == (PEOPLE, [])
        await until_resolved(deployment, "ENGINE_DOWN")


async def _is_sent(sandbox: Sandbox) -> bool:
    return sandbox.requests > 0
