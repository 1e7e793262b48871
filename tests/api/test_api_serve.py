"""`outrider serve` as an operator meets it: first start, refusals, signals, workers beside it."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import psutil
import pytest

from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.testing.launches import registry, target
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.eventually import eventually
from tests.support.forked import ForkedProcess

ROOT_KEY = "a-root-key-of-some-length"
NOOP = target("noop", "noop", "noop:")


async def refused(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """The error of a server that does not start."""
    (folder / "registry.json").write_bytes(registry(NOOP))
    command = ("serve", "--json", "--port", "0", *arguments)
    process = await ForkedProcess.start("outrider", command, {**os.environ, **environment}, folder)
    async with asyncio.timeout(60):
        said, log = await process.communicate()
    assert process.returncode == 1, log
    error: dict[str, Any] = json.loads(said)["error"]
    return error


async def until_state(server: ApiServer, campaign_id: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            status = await server.get(f"/campaigns/{campaign_id}/status")
            launch: dict[str, Any] = status["phases"]["launch"]
            if launch["state"] in states:
                return launch
            await asyncio.sleep(0.05)


async def until_nobody_listens(server: ApiServer) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await server.request("GET", "/healthz")
            except aiohttp.ClientError:
                return


async def test_the_first_start_makes_database_and_key_and_shows_the_key_once(
    tmp_path: Path,
) -> None:
    async with running_server(tmp_path, workers=0) as server:
        first = server.key
        assert first.startswith("outrider_")
        server.key = ""
        await server.restart()
        assert server.key == "", "a second start shows no key"
        assert (await server.request("GET", "/campaigns", key=first)).status == 200
        assert first not in server.log


async def test_a_root_key_from_the_environment_is_enough(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, workers=0, environment={"OUTRIDER_ROOT_KEY": ROOT_KEY}
    ) as server:
        keys = (await server.get("/keys"))["items"]
        assert keys == []


async def test_the_command_says_where_it_listens_and_what_to_try(tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_bytes(registry(NOOP))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "serve", "--port", "0", "--workers", "0",
        cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(60):
        lines = [(await process.stdout.readline()).decode() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    assert await process.wait() == 0
    assert lines[0].startswith("listening http://127.0.0.1:")
    key = lines[1].split()[1]
    assert key.startswith("outrider_")
    assert f'curl -H "Authorization: Bearer {key}"' in lines[2]


async def test_a_port_in_use_is_said_plainly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = await refused(tmp_path, "--port", port)
    assert error["message"] == f"the address 127.0.0.1 port {port} is in use"
    assert "--port" in error["hint"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_other_machines_are_let_in_only_with_tls_and_a_key(tmp_path: Path, host: str) -> None:
    error = await refused(tmp_path, "--host", host)
    assert "unencrypted" in error["message"]
    assert "--behind-tls" in error["hint"]
    error = await refused(tmp_path, "--host", host, "--behind-tls")
    assert "no API key exists yet" in error["message"]
    async with running_server(
        tmp_path,
        workers=0,
        environment={"OUTRIDER_ROOT_KEY": ROOT_KEY},
        arguments=("--host", host, "--behind-tls"),
    ) as server:
        assert await server.stop() == 0


async def test_a_database_with_another_schema_is_not_touched(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "outrider.db"))
    connection.execute("CREATE TABLE something (x)")
    connection.close()
    error = await refused(tmp_path)
    assert error["code"] == "SCHEMA_MISMATCH"
    assert "outrider migrate" in error["hint"]


async def test_sighup_reads_the_registry_again(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        assert len((await server.get("/registry"))["targets"]) == 1
        file = tmp_path / "registry.json"
        file.write_text("{")
        server.signal(signal.SIGHUP)
        await server.logged("registry_reload_refused")
        assert len((await server.get("/registry"))["targets"]) == 1
        file.write_bytes(registry(NOOP, {**NOOP, "submissionTarget": "second"}))
        server.signal(signal.SIGHUP)
        await server.logged("registry_reloaded")
        assert len((await server.get("/registry"))["targets"]) == 2


async def test_sigterm_in_a_launch_loses_nothing_and_doubts_nothing(
    database: str, tmp_path: Path
) -> None:
    log_path = tmp_path / "provider.ndjson"
    async with Sandbox(Faults(latency_ms=300), log_path=log_path) as sandbox:
        text = target("text", "sms", sandbox.http_url)
        async with running_server(tmp_path, database=database, targets=(text,)) as server:
            message = {"id": "m", "channel": "sms", "submissionTarget": "text", "body": "Hi"}
            document = campaign(1_500, messages=[message], batchSize=50)
            campaign_id = (await server.post("/campaigns", document))["campaignId"]
            await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
            await eventually(lambda: sandbox.requests > 100, seconds=60)
            assert await server.stop() == 0
            stopped_at = sandbox.requests
            sandbox.change_faults({"latencyMs": 0})
            await server.start()
            launch = await until_state(server, campaign_id, "completed", "failed")
        assert stopped_at < 1_500, "it was stopped in the middle"
        accounting = launch["accounting"]
        assert sum(accounting.pop("delivery").values()) == 1_500
        assert accounting == {
            "intended": 1_500, "waiting": 0, "inDoubt": 0, "sent": 1_500, "failed": 0,
            "skipped": 0,
        }  # fmt: skip
    delivered = references_delivered(log_path)
    assert len(delivered) == len(set(delivered)) == 1_500


async def test_workers_beside_the_server_work_and_leave_with_it(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=3) as server:
        async with asyncio.timeout(60):
            while True:
                workers = [
                    child
                    for child in psutil.Process(server.pid).children()
                    if "work" in child.cmdline()
                ]
                if len(workers) == 2:
                    break
                await asyncio.sleep(0.05)
        # One that dies is started again.
        workers[0].kill()
        await server.logged("worker_process_ended")
        campaign_id = (await server.post("/campaigns", campaign(50)))["campaignId"]
        await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        await until_state(server, campaign_id, "completed")
        family = psutil.Process(server.pid).children(recursive=True)
        assert await server.stop() == 0
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, timeout=60)
        assert alive == []


async def test_a_request_in_progress_is_answered_before_the_server_exits(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        body = json.dumps(campaign(100)).encode()
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def in_two_pieces() -> AsyncIterator[bytes]:
            yield body[:1_000]
            has_begun.set()
            await may_end.wait()
            yield body[1_000:]

        creating = asyncio.create_task(
            server.request(
                "POST", "/campaigns", data=in_two_pieces(),
                headers={"Content-Type": "application/json"},
            )
        )  # fmt: skip
        await has_begun.wait()
        # Answered after the request above was seen to begin.
        assert (await server.request("GET", "/healthz")).status == 200
        stopping = asyncio.create_task(server.stop())
        await until_nobody_listens(server)
        may_end.set()
        assert (await creating).status == 201
        assert await stopping == 0


async def test_every_line_of_the_log_is_of_one_form(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"this is not HTTP\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        line = json.loads(await server.logged("Invalid HTTP request"))
        assert (line["event"], line["level"]) == ("library", "warning")
        await server.stop()
    assert all(json.loads(line)["event"] for line in server.log_lines)
