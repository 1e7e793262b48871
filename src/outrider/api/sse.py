"""A campaign's events as server-sent events: first what the client missed, then what comes.

The hub reads each campaign once, however many clients watch. A client that stops reading is cut
off; its browser comes back with the last id it saw, and misses nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from outrider.api.streams import Streams
from outrider.domain.errors import StoreError
from outrider.domain.ids import CampaignId
from outrider.domain.times import rfc3339
from outrider.kernel.event_hub import Dropped, EventHub, Watcher
from outrider.kernel.transactions.phases import CampaignEvent
from outrider.settings import ApiLimits

log = structlog.get_logger()

SEPARATOR = "\n"


class EventStream(EventSourceResponse):
    """Takes a place among the streams when it is made, and leaves it when it has ended."""

    def __init__(
        self,
        hub: EventHub,
        streams: Streams,
        limits: ApiLimits,
        campaign_id: CampaignId,
        after: int,
        is_still_good: Callable[[], Awaitable[bool]],
    ) -> None:
        streams.enter()
        self._streams = streams
        self._events: AsyncGenerator[ServerSentEvent, None] = _events(
            hub, streams, campaign_id, after, is_still_good, limits.stream_recheck_seconds
        )
        super().__init__(
            self._events,
            ping=limits.stream_ping_seconds,
            ping_message_factory=lambda: ServerSentEvent(comment="ping", sep=SEPARATOR),
            send_timeout=limits.stream_send_seconds,
            sep=SEPARATOR,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning("stream_stalled")
        finally:
            self._streams.leave()
            await self._events.aclose()


async def _events(
    hub: EventHub,
    streams: Streams,
    campaign_id: CampaignId,
    after: int,
    is_still_good: Callable[[], Awaitable[bool]],
    recheck_seconds: float,
) -> AsyncGenerator[ServerSentEvent, None]:
    ends = {
        asyncio.create_task(streams.closing.wait()),
        asyncio.create_task(_until_revoked(is_still_good, recheck_seconds)),
    }
    try:
        async with hub.watch(campaign_id, after) as watcher:
            yield ServerSentEvent(comment=f"after {after}", sep=SEPARATOR)
            while (event := await _next(watcher, ends)) is not None:
                yield ServerSentEvent(
                    envelope(campaign_id, event),
                    event=event.type,
                    id=str(event.sequence),
                    sep=SEPARATOR,
                )
    except Dropped:
        log.warning("stream_too_slow")
    except StoreError as error:
        log.warning("stream_lost_its_store", error=error.message)
    finally:
        for end in ends:
            end.cancel()


async def _until_revoked(
    is_still_good: Callable[[], Awaitable[bool]], recheck_seconds: float
) -> None:
    while True:
        await asyncio.sleep(recheck_seconds)
        if not await is_still_good():
            return


async def _next(watcher: Watcher, ends: "set[asyncio.Task[Any]]") -> CampaignEvent | None:
    """The next event, or None when the server stops or the key was revoked."""
    coming = asyncio.create_task(watcher.next())
    try:
        await asyncio.wait({coming, *ends}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()


def envelope(campaign_id: CampaignId, event: CampaignEvent) -> str:
    return msgspec.json.encode(
        {
            "type": event.type,
            "campaignId": campaign_id,
            "phase": event.phase,
            "sequence": event.sequence,
            "timestamp": rfc3339(event.created_at),
            "payload": msgspec.Raw(event.payload.encode()),
        }
    ).decode()
