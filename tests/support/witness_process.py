"""A witness as a test sees it: a process of its own, a script, and a log that outlives it."""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec

from tests.support.eventually import eventually
from tests.support.forked import ForkedProcess
from tests.support.witness_log import Request, WitnessReader

START_SECONDS = 60.0
WATCH_SECONDS = 0.02


class WitnessProcess:
    """Base of the witnesses: start and stop, tell, read."""

    module: str

    def __init__(self, folder: Path, name: str, arguments: Sequence[str] = ()) -> None:
        self.log_path = folder / f"{name}.ndjson"
        self.url = ""
        self._folder = folder
        self._reader = WitnessReader(self.log_path)
        self._arguments = arguments
        self._control = ""
        self._process: ForkedProcess | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        arguments = ["--log", str(self.log_path), *self._arguments]
        self._process = await ForkedProcess.start(
            self.module, arguments, dict(os.environ), self._folder
        )
        async with asyncio.timeout(START_SECONDS):
            first = await self._process.stdout.readline()
        if not first:
            errors = await self._process.stderr.read()
            raise AssertionError(f"the witness did not start:\n{errors.decode()}")
        said = msgspec.json.decode(first)
        self.url, self._control = said["url"], said["control"]
        self._session = aiohttp.ClientSession()

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def _tell(self, script: dict[str, Any]) -> float:
        """When it took effect, by this machine's clock."""
        assert self._session is not None
        async with self._session.put(f"{self._control}/script", json=script) as answer:
            assert answer.status == 200, await answer.text()
            return float((await answer.json())["at"])

    def requests(self) -> list[Request]:
        """All requests that have begun, in the order in which they did."""
        return self._reader.requests()

    def accepted(self) -> list[Request]:
        return [request for request in self.requests() if request.was_accepted]

    def began_after(self, moment: float) -> list[Request]:
        return [request for request in self.requests() if request.began_at > moment]

    def first_began(self) -> dict[str, float]:
        """When each recipient was called for the first time."""
        return {to: requests[0].began_at for to, requests in self.by_recipient().items()}

    def by_recipient(self) -> dict[str, list[Request]]:
        """Each recipient's requests, in the order in which they began."""
        found: dict[str, list[Request]] = defaultdict(list)
        for request in self.requests():
            found[request.to].append(request)
        return dict(found)

    def accepted_twice(self) -> list[str]:
        """References that were taken more than once."""
        seen: set[str] = set()
        twice = []
        for request in self.accepted():
            if request.reference_id in seen:
                twice.append(request.reference_id)
            seen.add(request.reference_id)
        return twice

    def changed_at(self) -> float:
        """When its script last changed, be it because one had lasted for as long as it should."""
        return self._reader.script_changes()[-1][0]

    async def until_requests(self, count: int, seconds: float = START_SECONDS) -> None:
        await eventually(lambda: self._reader.count() >= count, seconds=seconds)


def overlapping(requests: Sequence[Request]) -> list[tuple[Request, Request]]:
    """Pairs of one recipient's requests of which the later began before the earlier had ended."""
    in_order = sorted(requests, key=lambda request: request.began_at)
    return [
        (earlier, later)
        for earlier, later in pairwise(in_order)
        if earlier.ended_at is None or later.began_at < earlier.ended_at
    ]
