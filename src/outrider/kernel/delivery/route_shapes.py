"""Route shapes: how many calls may begin to each recipient domain of a route.

Domains of one mailbox provider share a door, which all workers know. A deferral that is about a
domain closes its door and no other; nothing that waits for it uses an attempt.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from outrider.domain.call_results import CallResult, NotBegun
from outrider.domain.domain_limits import DomainShaping, about_the_domain, domain_of
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import OutboxId, WorkerId
from outrider.kernel.delivery.domain_buckets import Bucket
from outrider.kernel.delivery.domain_names import NO_DOMAIN, bucket_names
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import domain_doors
from outrider.kernel.transactions.domain_doors import CallsWanted, Drawn
from outrider.kernel.transactions.targets import DoorKey
from outrider.ports.mail_providers import MailProviders

PARTS = 4
"""A domain that has not answered lately has at most one of these parts of a route's calls, and the
last part is for domains with less than one: three that hang leave some for the others."""


class RouteShape:
    """The domains of one route, shared by all jobs of this process."""

    def __init__(
        self,
        foundation: Foundation,
        providers: MailProviders,
        shaping: DomainShaping,
        key: DoorKey,
        concurrency: int,
        worker_id: WorkerId,
    ) -> None:
        self._store = foundation.store
        self.clock = foundation.clock
        self.limits = foundation.limits
        self._providers = providers
        self._shaping = shaping
        self._key = key
        self._concurrency = concurrency
        self._part = max(1, concurrency // PARTS)
        self._most_at_once = max(1, concurrency - self._part)
        self._in_use = 0
        """Calls in flight, to all domains together."""
        self._worker_id = worker_id
        self._buckets: dict[str, Bucket] = {}
        self._called: dict[OutboxId, tuple[str, int]] = {}
        self._drawing = asyncio.Lock()
        self.changed = asyncio.Event()

    def bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = Bucket(self._shaping.limits(name), self._most_at_once)
            self._buckets[name] = found
        return found

    async def buckets_of(self, addresses: Collection[str | None]) -> Mapping[str | None, str]:
        return await bucket_names(self._providers, self._shaping, addresses)

    def free(self, name: str) -> int:
        """How many calls may begin without asking the database."""
        if name == NO_DOMAIN:
            return self.limits.domain_calls
        bucket = self.bucket(name)
        return min(bucket.free(self.clock.now()), self._room(bucket))

    def _room(self, bucket: Bucket) -> int:
        """How many more calls this domain may have, next to those of the others."""
        left, of_its_part = self._concurrency - self._in_use, self._part - bucket.in_use
        room = min(left, of_its_part)
        if bucket.answers(self.clock.monotonic()):
            room = max(room, left - self._part)
        return max(0, room)

    def take(self, name: str) -> None:
        if name != NO_DOMAIN:
            self.bucket(name).take()
            self._in_use += 1

    async def draw(self, queued: Mapping[str, int]) -> None:
        """Ask for calls to these domains, and report what has been learned. Domains without limits
        are only read, as long as nothing is known against them."""
        async with self._drawing:
            self._forget_idle(queued)
            wanted = self._wanted(queued, self.clock.now())
            try:
                await self._draw(wanted)
            except StoreUnavailable:
                # The others learn of it when the store is back.
                for name, want in wanted.items():
                    self.bucket(name).unreported[:0] = want.reports
                raise

    async def _draw(self, wanted: dict[str, CallsWanted]) -> None:
        now = self.clock.now()
        plain = [name for name, want in wanted.items() if want.is_plain]
        if plain:
            doors = await self._store.read(domain_doors.doors_of(self._key, plain))
            for name in plain:
                door = doors.get(name)
                if door is None or door.is_open:
                    epoch = 0 if door is None else door.epoch
                    calls = wanted.pop(name).calls
                    self._learn(name, calls, Drawn(calls, None, epoch, is_open=True), now)
        if not wanted:
            return
        lasts = timedelta(seconds=3 * self.limits.share_seconds)
        drawn = await self._store.write(
            domain_doors.draw(self._key, wanted, self._worker_id, lasts, now)
        )
        for name, found in drawn.items():
            self._learn(name, wanted[name].calls, found, now)

    async def publish(self) -> None:
        await self.draw({})

    def _wanted(self, queued: Mapping[str, int], now: datetime) -> dict[str, CallsWanted]:
        wanted: dict[str, CallsWanted] = {}
        for name in {*queued, *(each for each, b in self._buckets.items() if b.unreported)}:
            if name == NO_DOMAIN:
                continue
            bucket, calls = self.bucket(name), 0
            has_to_ask = not bucket.free(now) and bucket.may_ask(now)
            if queued.get(name) and has_to_ask and self._room(bucket):
                calls = min(queued[name], self.limits.domain_calls)
                bucket.return_probe()
            if not calls and not bucket.unreported:
                continue
            reports, bucket.unreported = bucket.unreported, []
            asks = bool(calls) and bucket.limits.connections is not None
            wanted[name] = CallsWanted(
                bucket.limits, calls, reports, self._most_at_once if asks else 0
            )
        return wanted

    def _learn(self, name: str, calls: int, found: Drawn, now: datetime) -> None:
        trust = timedelta(seconds=self.limits.gate_trust_seconds)
        share = timedelta(seconds=self.limits.share_seconds)
        self.bucket(name).learn(calls, found, now, now + trust, now + share)

    def _forget_idle(self, queued: Mapping[str, int]) -> None:
        if len(self._buckets) <= self.limits.domains_known:
            return
        now = self.clock.now()
        self._buckets = {
            name: bucket
            for name, bucket in self._buckets.items()
            if name in queued or not bucket.is_idle(now)
        }

    def opened(self, taken: Sequence[str], attempts: Iterable[tuple[OpenAttempt, str]]) -> None:
        """These of the taken ones are open; the others are not called."""
        left = Counter(taken)
        for attempt, name in attempts:
            if name != NO_DOMAIN and left[name]:
                left[name] -= 1
                self._called[attempt.outbox_id] = name, self.bucket(name).epoch
        for name, count in left.items():
            if name != NO_DOMAIN and count:
                self.bucket(name).put_back(count)
                self._in_use -= count
        self.changed.set()

    def may_begin(self, attempt: OpenAttempt) -> bool:
        """Whether its domain has not closed since it was opened."""
        found = self._called.get(attempt.outbox_id)
        return found is None or self.bucket(found[0]).epoch == found[1]

    def note(self, attempt: OpenAttempt, result: CallResult) -> CallResult:
        """Record how a call ended; returns the result as its target and its item see it."""
        found = self._called.pop(attempt.outbox_id, None)
        if found is None:
            return result
        name, epoch = found
        bucket = self.bucket(name)
        bucket.in_use -= 1
        self._in_use -= 1
        bucket.ended_at = self.clock.monotonic()
        self.changed.set()
        about = about_the_domain(result, {name, domain_of(attempt.address) or name})
        if about is not None:
            bucket.close(epoch, about.retry_after_seconds, about.detail or None)
            return about
        if isinstance(result, NotBegun):
            bucket.not_begun(epoch)
        else:
            bucket.answered(epoch)
        return result
