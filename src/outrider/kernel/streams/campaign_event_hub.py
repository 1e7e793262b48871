"""The event hub: one reader per watched campaign, however many clients watch it.

Events go out in sequence order, which only the database assigns. A wake-up from this process or
from Postgres makes the reader poll at once; without one it polls at an interval.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.ids import CampaignId
from outrider.kernel.streams.announcement_listener import woken_by
from outrider.kernel.transactions import phases
from outrider.kernel.transactions.phases import CampaignEvent
from outrider.limits.kernel import Limits
from outrider.ports.store import Announced, Store

log = structlog.get_logger()


class Dropped(Exception):
    """This watcher read too slowly, and its events were dropped."""


class CampaignWatcher:
    """One client's view: first the events it missed, then new ones, in order and without
    repeats."""

    def __init__(self, store: Store, campaign_id: CampaignId, after: int, limits: Limits) -> None:
        self._store = store
        self._campaign_id = campaign_id
        self._last = after
        self._limits = limits
        self._live: asyncio.Queue[CampaignEvent] = asyncio.Queue(limits.watcher_events)
        self._missed: deque[CampaignEvent] = deque()
        self._caught_up = False
        self._fell_behind = False

    def offer(self, events: Sequence[CampaignEvent]) -> None:
        for event in events:
            if self._fell_behind or self._live.full():
                self._fell_behind = True
                return
            self._live.put_nowait(event)

    async def next(self) -> CampaignEvent:
        """The next event. Raises Dropped if this watcher was too slow."""
        while True:
            event = await self._any()
            if event.sequence > self._last:
                self._last = event.sequence
                return event

    async def _any(self) -> CampaignEvent:
        while not self._caught_up and not self._missed:
            most = self._limits.replay_events
            page = await self._store.read(phases.events_after(self._campaign_id, self._last, most))
            self._missed.extend(page)
            self._caught_up = len(page) < most
        if self._missed:
            return self._missed.popleft()
        if self._fell_behind and self._live.empty():
            raise Dropped
        return await self._live.get()


class _Channel:
    """A watched campaign: its watchers, and how far its events have been read."""

    def __init__(self, position: int) -> None:
        self.watchers: set[CampaignWatcher] = set()
        self.position = position


class EventHub:
    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._channels: dict[CampaignId, _Channel] = {}
        self._woken = asyncio.Event()

    def wake(self, _campaign_id: str | None = None) -> None:
        """There may be something new; cheap, and safe to call for nothing."""
        self._woken.set()

    @property
    def watchers(self) -> int:
        return sum(len(channel.watchers) for channel in self._channels.values())

    @asynccontextmanager
    async def watch(self, campaign_id: CampaignId, after: int) -> AsyncIterator[CampaignWatcher]:
        """Every event after that sequence, from the database first and then as they arrive."""
        watcher = CampaignWatcher(self._store, campaign_id, after, self._limits)
        channel = self._channels.get(campaign_id)
        if channel is None:
            sequences = await self._store.read(phases.sequences_of([campaign_id]))
            fresh = _Channel(sequences.get(campaign_id, 0))
            channel = self._channels.setdefault(campaign_id, fresh)
        channel.watchers.add(watcher)
        try:
            yield watcher
        finally:
            channel.watchers.discard(watcher)
            if not channel.watchers and self._channels.get(campaign_id) is channel:
                del self._channels[campaign_id]

    async def run(self) -> None:
        """The readers' loop; runs until cancelled."""
        async with woken_by(self._store, Announced.EVENTS, self._woken.set, self._limits):
            while True:
                try:
                    async with asyncio.timeout(self._limits.event_poll_seconds):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                self._woken.clear()
                if self._channels:
                    await self._read()

    async def _read(self) -> None:
        try:
            sequences = await self._store.read(phases.sequences_of(list(self._channels)))
            for campaign_id, last in sequences.items():
                channel = self._channels.get(campaign_id)
                if channel is None or channel.position >= last:
                    continue
                most = self._limits.replay_events
                events = await self._store.read(
                    phases.events_after(campaign_id, channel.position, most)
                )
                for watcher in channel.watchers:
                    watcher.offer(events)
                if len(events) == most:
                    channel.position = events[-1].sequence
                    self._woken.set()
                else:
                    channel.position = events[-1].sequence if events else last
        except StoreError as error:
            log.warning("events_not_read", error=error.message)
