"""A campaign that the previous release starts and leaves in progress, with a provider and a
receiver of events as witnesses."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import registry, target
from tests.support.bus_receiver import SECRET, Receiver, receiving
from tests.support.deployment import person
from tests.support.previous_release import Server

RECIPIENTS = 60
BATCH = 5
TARGET = "sms.all"
ROOT_KEY = "a-root-key-of-some-length"
NOOP = target(TARGET, "noop", "noop:")
LATENCY_MS = 150.0
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05

Document = dict[str, Any]


class Scene:
    """The settings that both releases have, and what their surroundings saw."""

    def __init__(self, sandbox: Sandbox, receiver: Receiver, folder: Path, database: str) -> None:
        self.sandbox = sandbox
        self.receiver = receiver
        self.settings = {
            "OUTRIDER_DATABASE_URL": database,
            "OUTRIDER_REGISTRY": str(folder / "registry.json"),
            "OUTRIDER_ARTIFACTS": str(folder / "artifacts"),
            "OUTRIDER_ROOT_KEY": ROOT_KEY,
            "OUTRIDER_ALLOW_PRIVATE_GATEWAYS": "true",
            "OUTRIDER_BUS": json.dumps({"audit": {"url": receiver.url, "secret": "env:HOOK"}}),
            "HOOK": SECRET,
        }

    def use_noop(self, folder: Path, rate_per_second: float) -> None:
        """No provider at all: nothing of this machine is in what is recorded."""
        (folder / "registry.json").write_bytes(registry(NOOP))
        slow = {TARGET: {"rate_per_second": rate_per_second, "burst": 1}}
        self.settings["OUTRIDER_TARGETS"] = json.dumps(slow)

    @property
    def heard(self) -> list[Document]:
        """Every event that the receiver has taken."""
        return self.receiver.heard

    async def until_heard(self, run_id: str, event_type: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                told = [(each["data"]["runId"], each["data"]["eventType"]) for each in self.heard]
                if (run_id, event_type) in told:
                    return
                await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def scene(folder: Path, database: str) -> AsyncIterator[Scene]:
    log = folder / "received.ndjson"
    async with (
        Sandbox(Faults(latency_ms=LATENCY_MS), log_path=log) as sandbox,
        receiving(Receiver()) as receiver,
    ):
        gateway = target(TARGET, "sms", sandbox.http_url)
        (folder / "registry.json").write_bytes(registry(gateway))
        yield Scene(sandbox, receiver, folder, database)


async def request(server: Server, method: str, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"Bearer {server.key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        url = f"{server.url}/api/v2{path}"
        async with session.request(method, url, json=body) as response:
            found = await response.json()
            assert response.status < 300, found
            return found


async def launched(server: Server, recipients: int = RECIPIENTS) -> str:
    """A campaign of many small jobs, begun; its run."""
    definition = {
        "name": "Offer",
        "phases": ["launch"],
        "audience": {"recipients": [person(number) for number in range(recipients)]},
        "messages": [{"id": "m", "channel": "sms", "submissionTarget": TARGET, "body": "Hi"}],
        "batchSize": BATCH,
    }
    created = await request(server, "POST", "/campaigns", definition)
    path = f"/campaigns/{created['campaignId']}/phases/launch/start"
    return str((await request(server, "POST", path))["runId"])


async def until_run(server: Server, run_id: str, *, sent: int) -> Document:
    """The run when so many are sent, or more."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            run: Document = await request(server, "GET", f"/runs/{run_id}?reasons=false")
            if run["accounting"]["sent"] >= sent:
                return run
            await asyncio.sleep(LOOK_SECONDS)
