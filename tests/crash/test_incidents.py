"""Five incidents, as an on-call engineer meets them: what is said, where, and that it ends.

How soon the first word may come is added up in `tests/api/test_operations_kit.py`.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from aiohttp import web

from outrider.gateways.sandbox import Sandbox
from outrider.testing.launches import registry, target
from outrider.testing.postgres import PrivatePostgres, create_database
from tests.support.broken_server import closed_port
from tests.support.bus_receiver import SECRET
from tests.support.deployment import Deployment, Launched, deployed

TARGET = "sms.all"
PEOPLE = 12
WAIT_SECONDS = 90.0
LOOK_SECONDS = 0.1
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


@asynccontextmanager
async def moody_provider(behind: str) -> AsyncIterator[tuple[str, list[bool]]]:
    """Answers 503 to everything while its list says so; otherwise the provider behind it does."""
    is_down = [True]

    async def answer(request: web.Request) -> web.Response:
        if is_down[0]:
            return web.Response(status=503)
        async with aiohttp.ClientSession() as session:
            body, headers = await request.read(), {"Content-Type": request.content_type}
            if "Authorization" in request.headers:
                headers["Authorization"] = request.headers["Authorization"]
            async with session.post(behind + request.path, data=body, headers=headers) as response:
                return web.Response(
                    status=response.status,
                    body=await response.read(),
                    content_type=response.content_type,
                )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = closed_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}", is_down
    finally:
        await runner.cleanup()


async def test_a_provider_that_answers_503_to_everything_is_reported_and_recovers(
    tmp_path: Path,
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
        launched = await deployment.launch(TARGET, PEOPLE)
        blocker = await until_blocked(deployment, launched, "TARGET_THROTTLED")
        assert blocker["submissionTarget"] == TARGET
        assert "asks to retry later" in blocker["message"]
        alert = await until_alert(deployment, "TARGET_THROTTLED")
        assert (alert["subject"], alert["severity"]) == (TARGET, "P3")
        assert TARGET in await deployment.server.logged("provider_error")
        metrics = await deployment.server.request("GET", "/metrics")
        assert b'outrider_messages_total{channel="sms",outcome="given_back"' in metrics.body
        is_down[0] = False
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert run["accounting"]["sent"] == PEOPLE
        assert run["blockers"] == []
        await until_resolved(deployment, "TARGET_THROTTLED")


async def test_a_registry_with_a_dead_host_is_reported_and_a_repoint_moves_the_run(
    tmp_path: Path,
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
        launched = await deployment.launch(TARGET, PEOPLE, batch_size=1)
        blocker = await until_blocked(deployment, launched, "TARGET_DOWN")
        assert dead in blocker["message"]
        assert "outrider work`" not in blocker["hint"]
        assert (await until_alert(deployment, "TARGET_DOWN"))["subject"] == TARGET
        assert TARGET in await deployment.server.logged("target_door_down")
        fixed = json.loads(registry(target(TARGET, "sms", sandbox.http_url)))
        answer = await deployment.server.request("PUT", "/registry", fixed)
        assert answer.status == 200, answer.body

        async def repoint_is_advised() -> bool:
            return any(
                "run repoint" in each["hint"] for each in await blockers_of(deployment, launched)
            )

        await until(repoint_is_advised)
        moved: dict[str, Any] = await deployment.server.post(f"/runs/{launched.run_id}/repoint")
        kept = moved["targets"][0]["kept"]

        def is_sent(run: dict[str, Any]) -> bool:
            return bool(run["accounting"]["sent"] >= PEOPLE - kept - 1)

        assert kept < PEOPLE
        await deployment.until_run(launched.run_id, is_sent, WAIT_SECONDS)


async def test_a_frozen_worker_is_named_and_goes_on_when_it_wakes(tmp_path: Path) -> None:
    async with (
        Sandbox() as sandbox,
        deployed(
            tmp_path, f"sqlite:///{tmp_path}/outrider.db",
            [target(TARGET, "sms", sandbox.http_url)], workers_of_server=0, worker_processes=1,
            settings={TARGET: {"concurrency": 1}},
        ) as deployment,
    ):  # fmt: skip
        sandbox.change_faults({"latencyMs": 300})
        (worker,) = deployment.workers
        launched = await deployment.launch(TARGET, PEOPLE)

        async def holds() -> bool:
            page = await deployment.server.get("/workers")
            return any(each["pid"] == worker.pid and each["holds"] for each in page["items"])

        await until(holds)
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            blocker = await until_blocked(deployment, launched, "NO_WORKER")
            assert f"/{worker.pid} holds 1 job" in blocker["message"]
            alert = await until_alert(deployment, "NO_WORKER")
            assert str(worker.pid) in await deployment.server.logged("NO_WORKER")
            page = await deployment.server.get("/workers")
            (line,) = (each for each in page["items"] if each["pid"] == worker.pid)
            assert (line["isAlive"], alert["severity"]) == (False, "P1")
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert run["blockers"] == []
        await until_resolved(deployment, "NO_WORKER")


async def test_a_database_that_is_away_is_said_once_and_work_goes_on_after_it(
    tmp_path: Path,
) -> None:
    with TemporaryDirectory(prefix="outrider-postgres-", ignore_cleanup_errors=True) as folder:
        postgres = PrivatePostgres(Path(folder))
        try:
            async with Sandbox() as sandbox:
                await _database_goes_away(postgres, sandbox, tmp_path)
        finally:
            postgres.close()


async def _database_goes_away(postgres: PrivatePostgres, sandbox: Sandbox, folder: Path) -> None:
    sms = target(TARGET, "sms", sandbox.http_url)
    sandbox.change_faults({"latencyMs": 300})
    async with deployed(
        folder, await create_database(postgres.url), [sms], settings={TARGET: {"concurrency": 1}}
    ) as deployment:
        launched = await deployment.launch(TARGET, PEOPLE)
        path = f"/campaigns/{launched.campaign_id}/status"
        await asyncio.to_thread(postgres.stop_immediately)

        async def away() -> list[dict[str, Any]]:
            answer = await deployment.server.request("GET", path)
            return answer.json["error"].get("blockers", []) if answer.status == 503 else []

        (blocker,) = await until(away)
        assert blocker["code"] == "DATABASE_DOWN"
        assert "has not answered since" in blocker["message"]
        await deployment.server.logged("database_down")
        await asyncio.to_thread(postgres.start_again)
        await deployment.server.logged("database_back")
        assert deployment.server.log.count('"database_down"') == 1

        async def ended() -> bool:
            answer = await deployment.server.request("GET", f"/runs/{launched.run_id}")
            if answer.status != 200:
                return False
            accounting = answer.json["accounting"]
            return bool(accounting["sent"] + accounting["inDoubt"] == PEOPLE)

        await until(ended)


async def test_a_sink_that_is_away_is_reported_and_caught_up_with(tmp_path: Path) -> None:
    port = closed_port()
    bus = {
        "audit": {"url": f"http://127.0.0.1:{port}/", "secret": "env:HOOK_SECRET"},
    }
    environment = {"OUTRIDER_BUS": json.dumps(bus), "HOOK_SECRET": SECRET}
    async with deployed(
        tmp_path, f"sqlite:///{tmp_path}/outrider.db", [target(TARGET, "noop", "noop:")],
        environment=environment,
    ) as deployment:  # fmt: skip
        launched = await deployment.launch(TARGET, PEOPLE)
        run = await deployment.until_run_ended(launched.run_id, WAIT_SECONDS)
        assert run["accounting"]["sent"] == PEOPLE, "messages do not wait for a sink"
        alert = await until_alert(deployment, "EVENT_BUS_STUCK")
        assert alert["subject"] == "audit"
        assert "has not taken an event since" in alert["message"]
        await deployment.server.logged("bus_events_delayed")

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
