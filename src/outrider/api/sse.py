"""Campaigns' events as server-sent events: first what the client missed, then new ones.

The hub reads each campaign once, however many clients watch. A client that stops reading is cut
off; its browser reconnects with the last id it saw, and misses nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime

import msgspec
import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from outrider.api.streams import Streams
from outrider.domain.errors import StoreError
from outrider.domain.ids import CampaignId
from outrider.domain.keys import Principal
from outrider.domain.times import rfc3339
from outrider.kernel.streams.campaign_event_hub import Dropped, EventHub
from outrider.kernel.streams.watched_campaigns import watch_all
from outrider.kernel.transactions.phases import CampaignEvent
from outrider.limits.api import ApiLimits

log = structlog.get_logger()

SEPARATOR = "\n"
SNAPSHOT_REQUIRED = "snapshot_required"
"""Not a campaign event: the client's position does not match the server's."""

Positions = Mapping[CampaignId, int]
"""The client's last sequence of each campaign."""


class EventStream(EventSourceResponse):
    """Occupies a stream slot from its creation to its end."""

    def __init__(
        self,
        hub: EventHub,
        streams: Streams,
        who: Principal,
        limits: ApiLimits,
        begins: Positions,
        latest: Positions,
        cursor: Callable[[Positions], str],
        is_still_good: Callable[[], Awaitable[bool]],
    ) -> None:
        """`latest` is each campaign's position; `cursor` encodes the positions for a client to
        resume from."""
        streams.enter(who)
        self._streams = streams
        self._who = who
        self._events: AsyncGenerator[ServerSentEvent, None] = _events(
            hub, streams, begins, latest, cursor, is_still_good, limits.stream_recheck_seconds
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
            self._streams.leave(self._who)
            await self._events.aclose()


async def _events(
    hub: EventHub,
    streams: Streams,
    begins: Positions,
    latest: Positions,
    cursor: Callable[[Positions], str],
    is_still_good: Callable[[], Awaitable[bool]],
    recheck_seconds: float,
) -> AsyncGenerator[ServerSentEvent, None]:
    positions = {each: min(begin, latest[each]) for each, begin in begins.items()}
    ends = {
        asyncio.create_task(streams.closing.wait()),
        asyncio.create_task(_until_revoked(is_still_good, recheck_seconds)),
    }
    try:
        async with watch_all(hub, dict(positions)) as watched:
            yield ServerSentEvent(comment=f"after {cursor(positions)}", sep=SEPARATOR)
            for campaign_id, position in positions.items():
                if begins[campaign_id] > position:
                    # Its client knows of events that the database does not have, as after a
                    # restore. Without a notice it would drop everything until that sequence is
                    # reached.
                    log.warning("stream_ahead_of_server", campaign_id=campaign_id)
                    yield ServerSentEvent(
                        _snapshot_required(campaign_id, begins[campaign_id], position),
                        event=SNAPSHOT_REQUIRED,
                        id=cursor(positions),
                        sep=SEPARATOR,
                    )
            # Until the server stops or the key is revoked.
            while (found := await watched.next(ends)) is not None:
                for campaign_id, event in found:
                    positions[campaign_id] = event.sequence
                    yield ServerSentEvent(
                        envelope(campaign_id, event),
                        event=event.type,
                        id=cursor(positions),
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


def _snapshot_required(campaign_id: CampaignId, asked_after: int, last_sequence: int) -> str:
    return msgspec.json.encode(
        {
            "type": SNAPSHOT_REQUIRED,
            "campaignId": campaign_id,
            "phase": None,
            "sequence": last_sequence,
            "timestamp": rfc3339(datetime.now(UTC)),
            "payload": {"reason": "ahead_of_server", "askedAfter": asked_after},
        }
    ).decode()


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
