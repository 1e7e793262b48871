"""A mail server that treats each recipient domain as it is told, and remembers what it saw of each;
and Outrider with a mail target that tells domains apart."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.domain.recipients import Recipient, recipient
from outrider.ports.clock import Clock
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.broken_server import Reader, Writer, serving
from tests.support.dns_server import Zone, name_server
from tests.support.whole_runs import opened

NAME = "mail.main"
BUSY = "451 4.7.1 Too much mail for now, try again later"
ZONE: Zone = {
    name: {"MX": [f"10 mx.{name}."]} for name in ("slow.test", "fast.test", "other.test")
} | {name: {"MX": ["10 in.mailhost.test."]} for name in ("one.test", "two.test")}
"""Two of these domains have one mailbox provider."""


class DomainServer:
    """A relay: what it defers at RCPT TO, and how long it takes at the end of data, by domain."""

    def __init__(self) -> None:
        self.deferred: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.asked: Counter[str] = Counter()
        """How often each domain was named by RCPT TO."""
        self.taken: defaultdict[str, list[float]] = defaultdict(list)
        """When each domain's messages were accepted."""
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self._released = asyncio.Event()

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        _say(writer, "220 ready")
        domain = ""
        while line := (await reader.readline()).decode():
            verb = line.split()[0].lower()
            if verb == "rcpt":
                domain = line.split("@")[1].split(">")[0]
                self.asked[domain] += 1
                _say(writer, self.deferred.get(domain, "250 recipient fine"))
            elif verb == "data":
                _say(writer, "354 go on")
                await reader.readuntil(b"\r\n.\r\n")
                await self._take(domain)
                _say(writer, "250 queued")
            else:
                _say(writer, "250 fine")
            await writer.drain()

    async def _take(self, domain: str) -> None:
        self.at_once[domain] += 1
        self.most_at_once[domain] = max(self.most_at_once[domain], self.at_once[domain])
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.seconds.get(domain, 0.0)):
                    await self._released.wait()
        finally:
            self.at_once[domain] -= 1
        self.taken[domain].append(time.monotonic())

    def release(self) -> None:
        """Nothing takes long any more."""
        self.seconds.clear()
        self._released.set()

    def count(self, domain: str) -> int:
        return len(self.taken[domain])


def _say(writer: Writer, reply: str) -> None:
    writer.write(f"{reply}\r\n".encode())


def people_at(domain: str, count: int) -> list[Recipient]:
    return [
        recipient(
            f"{domain}-{number}",
            email=f"p{number}@{domain}",
            phone=None,
            push_token=None,
            attributes='{"firstName": "Person"}',
            message_id=None,
        )
        for number in range(count)
    ]


def mixed(*groups: Iterable[Recipient]) -> list[Recipient]:
    return [each for group in groups for each in group]


@asynccontextmanager
async def shaped(
    database: str,
    folder: Path,
    server: DomainServer,
    *,
    clock: Clock | None = None,
    **settings: object,
) -> AsyncIterator[Outrider]:
    """Outrider, with this server behind its mail target; its DNS knows `ZONE`."""
    usual = {"retry_first_seconds": 0.1, "retry_factor": 1, "concurrency": 8}
    made = TargetSettings.model_validate({**usual, **settings})
    async with name_server(ZONE) as names, serving(server) as port:
        entry = target(NAME, "smtp", f"smtp://127.0.0.1:{port}", maxAttempts=2)
        async with opened(
            database,
            folder,
            entry,
            clock=clock,
            targets={NAME: made},
            nameservers=[names.address],
        ) as outrider:
            yield outrider
