"""The simulator's receipts: late, repeated, out of order and forged, at configurable rates.

A report waits in a bounded queue until it is due, is posted, and is retried with growing delays
until it gets a 2xx, as providers do. Forged ones are posted once, and counted if accepted.
"""

import asyncio
import heapq
import itertools
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import aiohttp

from outrider.domain.errors import InvalidInput
from outrider.domain.receipts import ReceiptEvent
from outrider.gateways.sandbox_receipts import WRITERS, ProviderReport, signed_post
from outrider.limits.gateways import (
    SANDBOX_RECEIPT_POSTS,
    SANDBOX_RECEIPT_RETRY_CAP_SECONDS,
    SANDBOX_RECEIPT_RETRY_SECONDS,
    SANDBOX_RECEIPT_SECONDS,
    SANDBOX_RECEIPTS_WAITING_MAX,
)

TYPE_PLACE = "{type}"
FORGERS_SECRET = "whsec_Zm9yZ2VkIGJ5IHNvbWVib2R5IGVsc2UgZW50aXJlbHk="


@dataclass(frozen=True, slots=True)
class ReceiptPlan:
    """Where receipts go and what they say. The rates are shares of all messages."""

    url: str | None = None
    """`{type}` in it is replaced by the gateway type. Twilio's go to each message's own URL."""
    secret: str | None = field(default=None, repr=False)
    bounce_rate: float = 0.0
    complaint_rate: float = 0.0
    stop_rate: float = 0.0
    delay_ms: float = 0.0
    repeat_rate: float = 0.0
    """The share posted a second time."""
    reorder_rate: float = 0.0
    """The share of messages whose last report comes first."""
    forged_rate: float = 0.0
    """The share with an extra report that says "bounced" and is signed with another secret."""
    batch: int = 100
    """At most this many in one request, if a family has batches."""


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """What the simulator delivered, as far as its receipts need it."""

    protocol: str
    reference: str
    message_id: str
    to: str
    sender: str = ""
    callback_url: str | None = None
    token: str | None = field(default=None, repr=False)
    """The caller's credential, for providers that sign with it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    protocol: str
    report: ProviderReport
    url: str
    secret: str = field(repr=False)
    is_forged: bool = False
    tries: int = 0


class ReceiptEmitter:
    def __init__(self, plan: ReceiptPlan, seed: int | None = None) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self._order = itertools.count()
        self._queue: list[tuple[float, int, _Waiting]] = []
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(SANDBOX_RECEIPT_POSTS)
        self._posts: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        waits = aiohttp.ClientTimeout(total=SANDBOX_RECEIPT_SECONDS)
        self._session = aiohttp.ClientSession(timeout=waits)
        self._loop = asyncio.create_task(self._run(), name="sandbox receipts")

    async def stop(self) -> None:
        tasks = [*self._posts, *([self._loop] if self._loop is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def summary(self) -> dict[str, int]:
        return {**self.counts, "waiting": len(self._queue) + len(self._posts)}

    def delivered(self, message: DeliveredMessage) -> None:
        """Decides at once what will be reported; nothing is awaited."""
        writer = WRITERS.get(message.protocol)
        url, secret = self._addressed(message)
        if writer is None or url is None or secret is None:
            return
        events = [event for event in self._events() if event in writer.events]
        if self._rolls(self.plan.reorder_rate):
            events.reverse()
        for number, event in enumerate(events, 1):
            waiting = _Waiting(message.protocol, self._report(message, event), url, secret)
            self._wait(waiting, number)
            if self._rolls(self.plan.repeat_rate):
                self.counts["repeated"] += 1
                self._wait(waiting, number + 1)
        if self._rolls(self.plan.forged_rate):
            report = self._report(message, ReceiptEvent.BOUNCED)
            self._wait(_Waiting(message.protocol, report, url, FORGERS_SECRET, is_forged=True), 1)

    def _addressed(self, message: DeliveredMessage) -> tuple[str | None, str | None]:
        url = message.callback_url or self.plan.url
        secret = message.token or self.plan.secret
        return None if url is None else url.replace(TYPE_PLACE, message.protocol), secret

    def _events(self) -> list[ReceiptEvent]:
        if self._rolls(self.plan.bounce_rate):
            return [ReceiptEvent.BOUNCED]
        events = [ReceiptEvent.DELIVERED]
        if self._rolls(self.plan.complaint_rate):
            events.append(ReceiptEvent.COMPLAINED)
        if self._rolls(self.plan.stop_rate):
            events.append(ReceiptEvent.REPLIED)
        return events

    def _report(self, message: DeliveredMessage, event: ReceiptEvent) -> ProviderReport:
        report_id = str(uuid.UUID(int=self._dice.getrandbits(128), version=4))
        return ProviderReport(
            report_id, event, message.reference, message.message_id, message.to,
            datetime.now(UTC), message.sender,
        )  # fmt: skip

    def _rolls(self, rate: float) -> bool:
        return rate > 0 and self._dice.random() < rate

    def _wait(self, waiting: _Waiting, place: int) -> None:
        if len(self._queue) >= SANDBOX_RECEIPTS_WAITING_MAX:
            self.counts["overflowed"] += 1
            return
        self.counts["forged" if waiting.is_forged else "promised"] += 1
        # Between 0.5 and 1.5 times the delay, a message's reports one after another.
        seconds = self.plan.delay_ms / 1000 * (place - 0.5 + self._dice.random())
        self._put(waiting, seconds)

    def _put(self, waiting: _Waiting, seconds: float) -> None:
        due = asyncio.get_running_loop().time() + seconds
        heapq.heappush(self._queue, (due, next(self._order), waiting))
        self._changed.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            seconds = self._queue[0][0] - loop.time() if self._queue else None
            if seconds is None or seconds > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
                continue
            await self._room.acquire()
            task = asyncio.create_task(self._post(self._next_batch()))
            self._posts.add(task)
            task.add_done_callback(self._posted)

    def _posted(self, task: asyncio.Task[None]) -> None:
        self._posts.discard(task)
        self._room.release()

    def _next_batch(self) -> list[_Waiting]:
        """The next one due, and those after it that may share its request."""
        now = asyncio.get_running_loop().time()
        batch = [heapq.heappop(self._queue)[2]]
        first = batch[0]
        most = self.plan.batch if WRITERS[first.protocol].batches else 1
        while len(batch) < most and self._queue and self._queue[0][0] <= now:
            other = self._queue[0][2]
            if (other.protocol, other.url, other.secret) != (
                first.protocol, first.url, first.secret,
            ):  # fmt: skip
                break
            batch.append(heapq.heappop(self._queue)[2])
        return batch

    async def _post(self, batch: Sequence[_Waiting]) -> None:
        assert self._session is not None
        first = batch[0]
        reports = [waiting.report for waiting in batch]
        try:
            post = signed_post(first.protocol, reports, first.url, first.secret, datetime.now(UTC))
        except InvalidInput:
            # Such as a secret that is too short for this family.
            self.counts["unsignable"] += len(batch)
            return
        try:
            async with self._session.post(
                post.url, data=post.body, headers=post.headers, allow_redirects=False
            ) as answer:
                taken = 200 <= answer.status < 300
        except (aiohttp.ClientError, TimeoutError, OSError):
            taken = False
        if first.is_forged:
            self.counts["forgedTaken" if taken else "forgedRefused"] += len(batch)
        elif taken:
            self.counts["taken"] += len(batch)
        else:
            self.counts["refused"] += len(batch)
            for waiting in batch:
                again = SANDBOX_RECEIPT_RETRY_SECONDS * 2 ** min(waiting.tries, 16)
                seconds = min(again, SANDBOX_RECEIPT_RETRY_CAP_SECONDS)
                self._put(replace(waiting, tries=waiting.tries + 1), seconds)
