"""The bus relay: publishes the events queued for one sink, those of each run in order.

A lease ensures that there is one relay per queue over all processes. A window is published; then
what was delivered is deleted and the rest is postponed or given up, in one transaction. If a relay
dies between the two, its window is published again, under the same ids.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from outrider.domain.bus_queues import holds_messages
from outrider.domain.cloud_events import (
    DATA_SCHEMA_NAME,
    cloud_event,
    event_id,
    message_cloud_event,
    message_event_id,
)
from outrider.domain.errors import OutriderError, StoreError
from outrider.domain.ids import WorkerId
from outrider.domain.retry import BUS, SINK_AWAY
from outrider.domain.run_events import RunEvent
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import bus, message_queues
from outrider.kernel.transactions.bus import DeadLetter, Postponed, SettledWindow, Waiting
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.bus import BusDelivery, BusEvent, BusVerdict, Sink, first_fails

log = structlog.get_logger()

SINK_BROKE = BusDelivery(BusVerdict.FAILED, "sink_error")


class BusRelay:
    def __init__(
        self,
        foundation: Foundation,
        name: str,
        sink: Sink,
        owner: WorkerId,
        is_dead: Callable[[str], bool],
        *,
        max_attempts: int | None = None,
        schema: str = DATA_SCHEMA_NAME,
        every_seconds: float | None = None,
    ) -> None:
        """`every_seconds`: what happens meanwhile is collected, for a sink that should not be
        called as often as others."""
        self.name = name
        self._sink = sink
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._owner = owner
        self._limits = foundation.limits
        self._is_dead = is_dead
        self._max_attempts = max_attempts or foundation.limits.bus_max_attempts
        self._schema = schema
        self._every_seconds = every_seconds
        # A relay that rests for longer than its lease would lose it to the next process.
        self._lease_seconds = max(foundation.limits.bus_lease_seconds, 2 * (every_seconds or 0.0))
        self._after = FIRST
        self._lease: datetime | None = None

    async def run(self) -> None:
        """The loop of the role; runs until cancelled, and then finishes the current window."""
        try:
            while True:
                await self._clock.sleep(await self._round())
        finally:
            with suppress(StoreError):
                await self._store.write(bus.release_lease(self.name, self._owner))

    async def _round(self) -> float:
        """One pass over what waits; how long to rest after it."""
        passing = asyncio.create_task(self._pass())
        try:
            published = await asyncio.shield(passing)
        except asyncio.CancelledError:
            await asyncio.wait({passing}, timeout=self._limits.bus_stop_seconds)
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)
            raise
        except StoreError as error:
            log.warning("bus_relay_failed", sink=self.name, error=error.message)
            return self._limits.store_backoff_seconds
        if published is None:
            return self._lease_seconds / 3
        if self._every_seconds is not None and published < self._limits.bus_window_events:
            return self._every_seconds
        if published:
            return 0.0
        is_quiet = holds_messages(self.name)
        limits = self._limits
        return limits.message_queue_poll_seconds if is_quiet else limits.bus_poll_seconds

    async def _pass(self) -> int | None:
        """A queue of messages is empty for most: it is looked into before its lease is taken."""
        if holds_messages(self.name) and not await self._store.read(
            message_queues.is_any_waiting(self.name)
        ):
            return 0
        return await self.relay_all()

    async def relay_all(self) -> int | None:
        """Publish all due events; returns how many, or None if another process serves the sink."""
        self._after, published = FIRST, 0
        while True:
            window = await self.relay_once()
            if window is None:
                return None
            published += window
            if self._after == FIRST:
                return published

    async def relay_once(self) -> int | None:
        """One window, and on to the runs behind it."""
        if not await self._has_lease():
            return None
        now = self._clock.now()
        limits = self._limits
        script = bus.due(
            self.name, self._after, limits.bus_window_runs, limits.bus_window_events, now
        )
        waiting, self._after = await self._store.read(script)
        if not waiting:
            return 0
        settled = self._judge(waiting, await self._publish(waiting))
        until = self._lease_until()
        kept = await self._store.write(
            bus.settle(self.name, self._owner, until, settled, self._ids, self._clock.now())
        )
        self._lease = until if kept and settled.gone is None else None
        self._tell(settled, kept=kept)
        return len(settled.delivered)

    async def _has_lease(self) -> bool:
        """Renewed only when a third of it is over: an idle relay costs few writes."""
        now = self._clock.now()
        renew_seconds = self._lease_seconds * 2 / 3
        if self._lease is not None and self._lease - now > timedelta(seconds=renew_seconds):
            return True
        return await self._take_lease()

    async def _take_lease(self) -> bool:
        now, until = self._clock.now(), self._lease_until()
        lease = self.name, self._owner, until, now
        taken = await self._store.write(bus.take_lease(*lease))
        if not taken:
            owner = await self._store.read(bus.lease_owner(self.name))
            if owner is not None and self._is_dead(owner):
                taken = await self._store.write(bus.take_lease(*lease, dead_owner=owner))
        self._lease = until if taken else None
        return taken

    def _lease_until(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._lease_seconds)

    async def _publish(self, waiting: Sequence[Waiting]) -> Sequence[BusDelivery]:
        """The lease is kept for as long as it takes, and one bad sink is nobody else's trouble."""
        keeping = asyncio.create_task(self._keep_lease())
        try:
            window = [_bus_event(each, self._schema) for each in waiting]
            deliveries = await self._sink.publish(window)
        except Exception as error:
            if isinstance(error, OutriderError):
                log.error("bus_sink_failed", sink=self.name, error=error.message)
            else:
                log.exception("bus_sink_failed", sink=self.name)
            return first_fails([each.run_id for each in waiting], SINK_BROKE)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        assert len(deliveries) == len(window), "a verdict for each event"
        return deliveries

    async def _keep_lease(self) -> None:
        while True:
            await self._clock.sleep(self._lease_seconds / 3)
            with suppress(StoreError):
                await self._take_lease()

    def _judge(
        self, waiting: Sequence[Waiting], deliveries: Sequence[BusDelivery]
    ) -> SettledWindow:
        now = self._clock.now()
        delivered, delayed, given_up, gone, addresses_gone = [], [], [], None, []
        for each, delivery in zip(waiting, deliveries, strict=True):
            attempts = each.attempts + 1
            error = delivery.error[:ERROR_DETAIL_MAX_CHARACTERS]
            match delivery.verdict:
                case BusVerdict.DELIVERED:
                    delivered.append(each)
                case BusVerdict.FAILED if attempts >= self._max_attempts:
                    given_up.append(DeadLetter(each, attempts, error))
                case BusVerdict.FAILED | BusVerdict.AWAY:
                    schedule = SINK_AWAY if delivery.verdict is BusVerdict.AWAY else BUS
                    seconds = schedule.delay_seconds(
                        attempts,
                        retry_after_seconds=delivery.retry_after_seconds,
                        jitter=self._ids.jitter(),
                    )
                    due_at = now + timedelta(seconds=seconds)
                    delayed.append(Postponed(each.run_id, each.run_seq, due_at, error))
                case BusVerdict.GONE:
                    gone = error
                case BusVerdict.ADDRESS_GONE:
                    given_up.append(DeadLetter(each, attempts, error))
                    addresses_gone.append(each.run_id)
                case BusVerdict.HELD:
                    pass
                case other:
                    assert_never(other)
        return SettledWindow(delivered, delayed, given_up, gone, addresses_gone)

    def _tell(self, settled: SettledWindow, *, kept: bool) -> None:
        if not kept:
            log.warning("bus_lease_lost", sink=self.name)
            return
        if settled.delayed:
            log.warning(
                "bus_events_delayed",
                sink=self.name, events=len(settled.delayed), error=settled.delayed[-1].error,
            )  # fmt: skip
        if settled.given_up:
            log.error(
                "bus_events_given_up",
                sink=self.name, events=len(settled.given_up), error=settled.given_up[-1].error,
            )  # fmt: skip
        if settled.gone is not None:
            log.error("bus_sink_gone", sink=self.name, error=settled.gone)


def _bus_event(waiting: Waiting, schema: str) -> BusEvent:
    event, scope = waiting.event, waiting.scope
    place = waiting.run_id, waiting.run_seq
    if isinstance(event, RunEvent):
        content = cloud_event(event, scope, schema)
        return BusEvent(event_id(event), *place, content, scope=scope, event=event)
    content = message_cloud_event(event, scope, schema)
    return BusEvent(
        message_event_id(event), *place, content, event.outbox_id, scope, waiting.address
    )
