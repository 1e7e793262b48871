"""A real `sms` gateway over HTTP whose memory for references is exactly what a test says it is.

It delivers for good what it has taken, whether or not its client is still there for the answer, and
counts every delivery by reference: two of one reference are the harm that no declaration may allow.
"""

import asyncio
import time
from collections import Counter
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from outrider.domain.reference_memory import NEVER, ReferenceMemory


class _Request(msgspec.Struct, rename="camel"):
    reference_id: str


class RememberingGateway:
    """`async with RememberingGateway(memory) as gateway:` serves `gateway.url`."""

    def __init__(
        self, memory: ReferenceMemory = NEVER, *, seconds: float = 0.0, fails: bool = False
    ) -> None:
        self.memory = memory
        self.answer_seconds = seconds
        """How long each message takes; it is in progress meanwhile."""
        self.fails = fails
        """Whether it takes messages and fails at them afterwards: no answer, and no delivery."""
        self.requests = 0
        self.duplicates_refused = 0
        self.deliveries: Counter[str] = Counter()
        self._first_taken: dict[str, float] = {}
        self._under_way: set[str] = set()
        self._arrived = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    def delivered_twice(self) -> dict[str, int]:
        return {reference: count for reference, count in self.deliveries.items() if count > 1}

    async def until_requests(self, count: int, seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while self.requests < count:
                self._arrived.clear()
                await self._arrived.wait()

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=204)
        reference = msgspec.json.decode(await request.read(), type=_Request).reference_id
        self.requests += 1
        self._arrived.set()
        if self._knows(reference):
            self.duplicates_refused += 1
            return web.json_response(
                {"status": "rejected", "reason": "duplicate_reference", "referenceId": reference}
            )
        self._first_taken.setdefault(reference, time.monotonic())
        self._under_way.add(reference)
        if not self.memory.while_in_flight and not self.fails:
            self.deliveries[reference] += 1
        await asyncio.sleep(self.answer_seconds)
        self._under_way.discard(reference)
        if self.fails:
            return web.Response(status=500)
        if self.memory.while_in_flight:
            self.deliveries[reference] += 1
        return web.json_response({"status": "accepted", "referenceId": reference})

    def _knows(self, reference: str) -> bool:
        if self.memory.while_in_flight:
            return reference in self._under_way
        taken_at = self._first_taken.get(reference)
        return taken_at is not None and time.monotonic() - taken_at < self.memory.seconds
