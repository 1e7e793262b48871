"""A server of the test's own: `outrider serve` in its own process, spoken to over real sockets."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from outrider.bootstrap import make_store
from outrider.testing.launches import registry, target
from tests.support.forked import ForkedProcess

START_SECONDS = 60.0
STOP_SECONDS = 60.0
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Event:
    """One server-sent event; `data` is its envelope."""

    id: str
    type: str
    data: dict[str, Any]


@dataclass
class Stream:
    """An open event stream, read line by line."""

    response: aiohttp.ClientResponse
    comments: list[str] = field(default_factory=list)

    async def next(self, seconds: float = ANSWER_SECONDS) -> Event:
        """The next event; comments that come before it are kept in `comments`."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            while True:
                raw = await self.response.content.readline()
                if not raw:
                    raise EOFError("the stream has ended")
                line = raw.decode().rstrip("\r\n")
                if not line:
                    if "data" in fields:
                        data = json.loads(fields["data"])
                        return Event(fields.get("id", ""), fields.get("event", ""), data)
                    fields.clear()
                    continue
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
                else:
                    self.comments.append(value.strip())

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def ended(self, seconds: float = ANSWER_SECONDS) -> None:
        """Returns when the server has closed the stream, whatever still came."""
        async with asyncio.timeout(seconds):
            while await self.response.content.readline():
                pass

    def close(self) -> None:
        self.response.close()


class ApiServer:
    """Starts, answers, dies and starts again; the key of its first start is kept."""

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        arguments: tuple[str, ...] = (),
        module: str = "outrider",
    ) -> None:
        self._environment = {**os.environ, "OUTRIDER_LOG": "json", **environment}
        self._folder = folder
        self._arguments = arguments
        self._module = module
        self._process: ForkedProcess | None = None
        self._session: aiohttp.ClientSession | None = None
        self._log: asyncio.Task[None] | None = None
        self._port = 0
        self.url = ""
        self.key = environment.get("OUTRIDER_ROOT_KEY", "")
        self.log_lines: list[str] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        arguments = ("serve", "--json", "--port", str(self._port), *self._arguments)
        self._process = await ForkedProcess.start(
            self._module, arguments, self._environment, self._folder
        )
        self._log = asyncio.create_task(self._collect_log())
        async with asyncio.timeout(START_SECONDS):
            first = await self._process.stdout.readline()
        if not first.startswith(b"{") or b'"url"' not in first:
            await self._process.wait()
            await self._log
            raise AssertionError(f"the server did not start: {first!r}\n{self.log}")
        said = json.loads(first)
        self.url, self.key = said["url"], said["key"] or self.key
        # A test that restarts it expects it at the same address.
        self._port = int(self.url.rpartition(":")[2])
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS),
                connector=aiohttp.TCPConnector(limit=0),
            )

    async def request(
        self,
        method: str,
        path: str,
        json: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        data: Any = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Answer:
        """`path` is below /api/v2 unless it is a path of the server's own such as /metrics."""
        assert self._session is not None
        async with asyncio.timeout(seconds), self._session.request(
            method, self.address(path), json=json, data=data, headers=self.headers(headers, key)
        ) as response:  # fmt: skip
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str) -> Any:
        """The JSON of a GET that has to succeed."""
        answer = await self.request("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def post(self, path: str, json: object = None, **given: Any) -> Any:
        """The JSON of a POST that has to succeed."""
        answer = await self.request("POST", path, json, **given)
        assert answer.status in (200, 201), answer.body
        return answer.json

    @asynccontextmanager
    async def stream(
        self,
        campaign_id: str,
        *,
        after: int | str | None = None,
        last_event_id: int | str | None = None,
    ) -> AsyncIterator[Stream]:
        """The campaign's events; the server has answered when the block begins."""
        assert self._session is not None
        query = "" if after is None else f"?after={after}"
        extra = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
        async with self._session.get(
            self.address(f"/campaigns/{campaign_id}/events{query}"),
            headers=self.headers({"Accept": "text/event-stream", **extra}, None),
        ) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    def address(self, path: str) -> str:
        own = path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json")
        return f"{self.url}{path}" if own else f"{self.url}/api/v2{path}"

    def headers(self, given: Mapping[str, str] | None, key: str | None) -> dict[str, str]:
        """With the first key's authorisation; an empty `key` leaves it out."""
        used = self.key if key is None else key
        return {**({"Authorization": f"Bearer {used}"} if used else {}), **(given or {})}

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """No goodbye: what a crash leaves."""
        self.signal(signal.SIGKILL)
        await self._ended()

    async def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return await self._ended()

    async def restart(self, *, gracefully: bool = True) -> None:
        """At the same address and on the same database."""
        await (self.stop() if gracefully else self.kill())
        await self.start()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._process is not None and self._process.returncode is None:
            await self.stop()

    @property
    def log(self) -> str:
        return "".join(self.log_lines)

    async def logged(self, text: str, seconds: float = ANSWER_SECONDS) -> str:
        """The first line of the log with this text, as soon as it is there."""
        async with asyncio.timeout(seconds):
            while True:
                for line in self.log_lines:
                    if text in line:
                        return line
                await asyncio.sleep(0.02)

    async def _ended(self) -> int:
        assert self._process is not None
        async with asyncio.timeout(STOP_SECONDS):
            code = await self._process.wait()
        if self._log is not None:
            await self._log
        return code

    async def _collect_log(self) -> None:
        assert self._process is not None
        async for line in self._process.stderr:
            self.log_lines.append(line.decode(errors="replace"))


@asynccontextmanager
async def running_server(
    folder: Path,
    *,
    database: str | None = None,
    targets: tuple[dict[str, object], ...] | None = None,
    environment: Mapping[str, str] | None = None,
    workers: int = 1,
    arguments: tuple[str, ...] = (),
    module: str = "outrider",
) -> AsyncIterator[ApiServer]:
    """A server on a database of its own, with a registry of one no-op target unless told. SMS and
    push are taken by sandboxes, which know references again, unless the environment differs."""
    by_sandboxes = {
        str(each["submissionTarget"]): {"remembers_references": "for_good"}
        for each in targets or ()
        if each["gatewayType"] in ("sms", "push")
    }
    file = folder / "registry.json"
    if not file.exists():
        file.write_bytes(registry(*(targets or (target("noop", "noop", "noop:"),))))
    settings = {
        "OUTRIDER_DATABASE_URL": database or f"sqlite:///{folder}/outrider.db",
        "OUTRIDER_REGISTRY": str(file),
        "OUTRIDER_ARTIFACTS": str(folder / "artifacts"),
        "OUTRIDER_TARGETS": json.dumps(by_sandboxes),
        **(environment or {}),
    }
    if not settings["OUTRIDER_DATABASE_URL"].startswith("sqlite"):
        await _migrate(settings["OUTRIDER_DATABASE_URL"])
    server = ApiServer(settings, folder, ("--workers", str(workers), *arguments), module)
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def _migrate(url: str) -> None:
    store = make_store(url)
    await store.migrate()
    await store.close()


def campaign(recipients: int = 2, **changes: object) -> dict[str, object]:
    """A campaign of one text message through the no-op target."""
    return {
        "name": "Offer",
        "phases": ["launch"],
        "audience": {
            "recipients": [
                {
                    "id": f"lead-{number}",
                    "phone": f"+4477{number:08d}",
                    "attributes": {"firstName": f"Person {number}"},
                }
                for number in range(recipients)
            ]
        },
        "messages": [
            {
                "id": "offer",
                "channel": "sms",
                "submissionTarget": "noop",
                "body": "Hi {{ firstName }}",
            }
        ],
        **changes,
    }
