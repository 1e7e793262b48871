"""A server under its clients: 200 event streams on one running campaign, and controls meanwhile.

Prints p50 and p99 of pausing, resuming and snapshots, how soon the streams see a pause, and the
server's memory. Everything is on loopback, on a throw-away database.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from outrider.testing.launches import registry, target
from outrider.testing.postgres import PrivatePostgres, create_database

CLIENTS = int(os.environ.get("CLIENTS", "200"))
ROUNDS = int(os.environ.get("ROUNDS", "100"))
RECIPIENTS = int(os.environ.get("RECIPIENTS", "200000"))
WORKERS = os.environ.get("WORKERS", "1")
"""1 is a worker in the server's own process; more are processes beside it."""
LATENCY_MS = 50.0


class Client:
    def __init__(self, url: str, key: str, session: aiohttp.ClientSession) -> None:
        self._url = f"{url}/api/v2"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._session = session

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        async with self._session.request(
            method, self._url + path, json=body, headers=self._headers
        ) as response:
            answer = await response.json(content_type=None)
            assert response.status < 300, answer
            return answer

    async def listen(self, path: str, heard: dict[int, list[float]]) -> None:
        """Records when each event came, by its sequence."""
        async with self._session.get(self._url + path, headers=self._headers) as response:
            assert response.status == 200
            async for line in response.content:
                if line.startswith(b"id:"):
                    heard.setdefault(int(line[3:]), []).append(time.perf_counter())


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[str]:
    """In a separate process, so that its work is not taken for the server's slowness."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "sandbox", "--port", "0", "--smtp-port", "0", "--json",
        "--latency-ms", str(LATENCY_MS), cwd=folder, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())["http"]
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def server(database: str, folder: Path, sandbox_url: str) -> AsyncIterator[tuple[Any, int]]:
    file = folder / "registry.json"
    file.write_bytes(registry(target("sms", "sms", sandbox_url, maxAttempts=5)))
    environment = {
        **os.environ, "OUTRIDER_DATABASE_URL": database, "OUTRIDER_REGISTRY": str(file),
        "OUTRIDER_LOG": "json",
        "OUTRIDER_TARGETS": '{"sms": {"remembers_references": "for_good"}}',
    }  # fmt: skip
    migrate = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "migrate", env=environment, cwd=folder,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await migrate.wait() == 0
    with (folder / "server.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "outrider", "serve", "--port", "0", "--json",
            "--workers", WORKERS,
            env=environment, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            yield json.loads(await process.stdout.readline()), process.pid
        finally:
            process.terminate()
            await process.wait()


def line(name: str, seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"{name:<34}{cuts[49] * 1000:8.1f} ms{cuts[98] * 1000:10.1f} ms"


async def measure(database: str, folder: Path) -> None:
    async with sandbox(folder) as sandbox_url, server(
        database, folder, sandbox_url
    ) as (said, pid), aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:  # fmt: skip
        process = psutil.Process(pid)
        client = Client(said["url"], said["key"], session)
        idle_mb = process.memory_info().rss / 1e6
        recipients = [{"id": f"lead-{n}", "phone": f"+4477{n:08d}"} for n in range(RECIPIENTS)]
        message = {"id": "m", "channel": "sms", "submissionTarget": "sms", "body": "Hi"}
        created = await client.ask(
            "POST",
            "/campaigns",
            {"name": "load", "audience": {"recipients": recipients}, "messages": [message]},
        )
        path = f"/campaigns/{created['campaignId']}"
        await client.ask("POST", f"{path}/phases/launch/start")
        heard: dict[int, list[float]] = {}
        listeners = [
            asyncio.create_task(client.listen(f"{path}/events", heard)) for _ in range(CLIENTS)
        ]
        await asyncio.sleep(2)
        pauses, resumes, snapshots, delays = [], [], [], []
        peak_mb = idle_mb
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            answer = await client.ask("POST", f"{path}/phases/launch/pause")
            answered = time.perf_counter()
            pauses.append(answered - begun)
            assert answer["changed"] is True, answer
            begun_snapshot = time.perf_counter()
            snapshot = await client.ask("GET", f"{path}/status")
            snapshots.append(time.perf_counter() - begun_snapshot)
            assert snapshot["phases"]["launch"]["state"] == "paused"
            await asyncio.sleep(0.1)
            delays += [max(0.0, when - answered) for when in heard.get(answer["sequence"], [])]
            begun = time.perf_counter()
            await client.ask("POST", f"{path}/phases/launch/resume")
            resumes.append(time.perf_counter() - begun)
            await asyncio.sleep(0.05)
            peak_mb = max(peak_mb, process.memory_info().rss / 1e6)
        sent = (await client.ask("GET", f"{path}/status"))["phases"]["launch"]["accounting"]["sent"]
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
        store = database.partition(":")[0]
        beside = "a worker inside" if WORKERS == "1" else f"{WORKERS} workers beside"
        print(f"\n{store}: {CLIENTS} streams, {beside}, {ROUNDS} rounds, {sent:,} sent meanwhile")
        print(f"{'':<34}{'p50':>11}{'p99':>13}")
        print(line("POST …/pause", pauses))
        print(line("POST …/resume", resumes))
        print(line("GET …/status", snapshots))
        print(line("a stream hears of the pause after", delays))
        heard_of = len(delays) / (ROUNDS * CLIENTS)
        print(f"streams that heard within 100 ms: {heard_of:.1%}")
        print(f"server memory: {idle_mb:.0f} MB idle, {peak_mb:.0f} MB at most")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        await measure(f"sqlite:///{folder}/outrider.db", Path(folder))
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        postgres = PrivatePostgres(Path(folder) / "postgres")
        try:
            await measure(await create_database(postgres.url), Path(folder))
        finally:
            postgres.close()


if __name__ == "__main__":
    asyncio.run(main())
