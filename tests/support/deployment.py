"""A deployment as an operator has it: a registry, `outrider.toml`, a server, workers, a database.

Everything is done over HTTP and by processes, so whatever the kernel looks like inside, these
helpers stay as they are.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from outrider.testing.launches import registry
from tests.support.api_server import ApiServer, running_server
from tests.support.forked import ForkedProcess

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1
TERMINAL = ("completed", "partial", "failed")
PAGE = 1_000


@dataclass(frozen=True)
class Launched:
    campaign_id: str
    run_id: str
    at: float


class Worker:
    """One `outrider work`, which can be killed as a machine can."""

    def __init__(self, process: ForkedProcess) -> None:
        self._process = process
        self._output = asyncio.gather(process.stdout.read(), process.stderr.read())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> float:
        """SIGKILL; returns when it was gone."""
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        return time.time()

    async def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._process.wait()


class Deployment:
    def __init__(self, server: ApiServer, folder: Path, environment: Mapping[str, str]) -> None:
        self.server = server
        self.workers: list[Worker] = []
        self._folder = folder
        self._environment = {**os.environ, "OUTRIDER_LOG": "json", **environment}

    # processes

    async def start_worker(self, *arguments: str) -> Worker:
        """`outrider work ARGUMENTS`, beside the server."""
        worker = Worker(await self._run("work", "--json", *arguments))
        self.workers.append(worker)
        return worker

    async def key_of(self, workspace: str) -> str:
        """An API key of another workspace, TENANT/PROJECT/ENVIRONMENT, which is made with it."""
        process = await self._run("key", "create", "test", "--workspace", workspace, "--json")
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return str(json.loads(output)["key"])

    async def stop_workers(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        self.workers.clear()

    async def _run(self, *arguments: str) -> ForkedProcess:
        return await ForkedProcess.start("outrider", arguments, self._environment, self._folder)

    # intents

    async def submit(
        self, intent_id: str, target: str, to: str, text: str = "Hi", *, key: str | None = None
    ) -> float:
        """Submit one direct message; returns when the server was asked."""
        asked_at = time.time()
        body = {
            "intentId": intent_id,
            "submissionTarget": target,
            "payload": {"to": to, "message": text, "body": text, "subject": text},
        }
        answer = await self.server.request("POST", "/intents", body, key=key)
        assert answer.status == 201, answer.body
        return asked_at

    async def intent(self, intent_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.server.get(f"/intents/{intent_id}")
        return found

    async def until_intent(
        self,
        intent_id: str,
        is_so: Callable[[dict[str, Any]], bool],
        seconds: float = PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        """The intent once it is so; who waits in vain is shown how it stood."""
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await self.intent(intent_id)
                    if is_so(found):
                        return found
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"not within {seconds} s; the intent stands at {found}") from None

    # campaigns

    async def launch(
        self,
        target: str,
        recipients: int,
        *,
        channel: str = "sms",
        first: int = 0,
        batch_size: int = 500,
        text: str = "Hi",
        key: str | None = None,
        messages: list[dict[str, str]] | None = None,
        before_start: Callable[[str], Awaitable[None]] | None = None,
    ) -> Launched:
        """Create a campaign for so many people and start its launch."""
        message = {"id": "offer", "channel": channel, "submissionTarget": target, "body": text}
        if channel in ("email", "push"):
            message["subject"] = text
        definition = {
            "name": text,
            "phases": ["launch"],
            "audience": {"recipients": [person(first + number) for number in range(recipients)]},
            "messages": messages or [message],
            "batchSize": batch_size,
        }
        created = await self.server.post("/campaigns", definition, key=key)
        campaign_id = created["campaignId"]
        if before_start is not None:
            await before_start(campaign_id)
        path = f"/campaigns/{campaign_id}/phases/launch/start"
        at = time.time()
        started = await self.server.post(path, key=key)
        return Launched(campaign_id, started["runId"], at)

    async def control(self, campaign_id: str, action: str) -> dict[str, Any]:
        path = f"/campaigns/{campaign_id}/phases/launch/{action}"
        answer: dict[str, Any] = await self.server.post(path)
        return answer

    async def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.server.get(f"/runs/{run_id}?reasons=false")
        return found

    async def until_run(
        self, run_id: str, is_so: Callable[[dict[str, Any]], bool], seconds: float
    ) -> dict[str, Any]:
        """The run once it is so; who waits in vain is shown how it stood."""
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await self.run(run_id)
                    if is_so(found):
                        return found
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"not within {seconds} s; the run stands at {found}") from None

    async def until_run_ended(
        self, run_id: str, seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        return await self.until_run(run_id, lambda run: run["status"] in TERMINAL, seconds)

    async def items(self, run_id: str) -> list[dict[str, Any]]:
        return await self._all(f"/runs/{run_id}/outbox?limit={PAGE}")

    async def doubts(self) -> list[dict[str, Any]]:
        return await self._all(f"/doubts?limit={PAGE}")

    async def _all(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = await self.server.get(f"{path}{after}")
            found += page["items"]
            if page["next"] is None:
                return found
            after = f"&after={page['next']}"


@asynccontextmanager
async def deployed(
    folder: Path,
    database: str,
    targets: list[dict[str, object]],
    *,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    workers_of_server: int = 1,
    worker_processes: int = 0,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Deployment]:
    """A server on this database; `settings` are each target's in `outrider.toml`, `environment` is
    for the server and for workers alike."""
    (folder / "registry.json").write_bytes(registry(*targets))
    (folder / "outrider.toml").write_text(targets_toml(settings or {}))
    variables = {
        "OUTRIDER_DATABASE_URL": database,
        "OUTRIDER_REGISTRY": str(folder / "registry.json"),
        "OUTRIDER_ARTIFACTS": str(folder / "artifacts"),
        **(environment or {}),
    }
    async with running_server(
        folder, database=database, workers=workers_of_server, environment=environment
    ) as server:
        deployment = Deployment(server, folder, variables)
        try:
            for _ in range(worker_processes):
                await deployment.start_worker()
            yield deployment
        finally:
            # Whatever came of the test, nothing of it stays behind; a hung worker neither.
            for pid in (server.pid, *(worker.pid for worker in deployment.workers)):
                _kill_with_children(pid)


def person(number: int) -> dict[str, object]:
    """A recipient with an address of every kind, all of them this number's."""
    return {
        "id": f"lead-{number}",
        "phone": phone(number),
        "email": mail_address(number),
        "attributes": {"firstName": f"Person {number}"},
    }


def phone(number: int) -> str:
    return f"+4477{number:08d}"


def mail_address(number: int) -> str:
    return f"lead{number}@example.test"


def _kill_with_children(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def targets_toml(settings: Mapping[str, Mapping[str, object]]) -> str:
    tables = []
    for target, options in settings.items():
        lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        tables.append("\n".join([f'[targets."{target}"]', *lines]))
    return "\n\n".join(tables) + "\n"
