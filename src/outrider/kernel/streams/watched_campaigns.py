"""Several campaigns watched as one: each campaign's events in order, interleaved as they arrive."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from outrider.domain.ids import CampaignId
from outrider.kernel.streams.campaign_event_hub import CampaignWatcher, EventHub
from outrider.kernel.transactions.phases import CampaignEvent

Coming = asyncio.Task[CampaignEvent]


class WatchedCampaigns:
    def __init__(self, watchers: Mapping[CampaignId, CampaignWatcher]) -> None:
        self._watchers = watchers
        self._coming: dict[Coming, CampaignId] = {}
        for campaign_id in watchers:
            self._await_next(campaign_id)

    async def next(
        self, ends: "Set[asyncio.Task[Any]]"
    ) -> list[tuple[CampaignId, CampaignEvent]] | None:
        """The events that have arrived: at most one per campaign, so that none crowds out another.

        None when one of `ends` is done and nothing has arrived. Raises Dropped if a watcher was too
        slow.
        """
        done, _ = await asyncio.wait({*self._coming, *ends}, return_when=asyncio.FIRST_COMPLETED)
        found = []
        for task in [task for task in self._coming if task in done]:
            campaign_id = self._coming.pop(task)
            found.append((campaign_id, task.result()))
            self._await_next(campaign_id)
        return found or None

    def close(self) -> None:
        for task in self._coming:
            if not task.cancel() and not task.cancelled():
                # It ended while it was not awaited; the reason no longer matters.
                task.exception()

    def _await_next(self, campaign_id: CampaignId) -> None:
        task = asyncio.create_task(self._watchers[campaign_id].next())
        self._coming[task] = campaign_id


@asynccontextmanager
async def watch_all(
    hub: EventHub, begins: Mapping[CampaignId, int]
) -> AsyncIterator[WatchedCampaigns]:
    """Every event of each campaign after its sequence."""
    async with AsyncExitStack() as stack:
        watched = WatchedCampaigns(
            {
                campaign_id: await stack.enter_async_context(hub.watch(campaign_id, after))
                for campaign_id, after in begins.items()
            }
        )
        try:
            yield watched
        finally:
            watched.close()
