"""The Redis sink: a window is one transaction of XADDs, so it is written completely or not at all.
Redis does not know our ids: a consumer drops repeats by the entry's field `id`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from outrider.domain.errors import InvalidInput
from outrider.domain.sink_urls import SinkUrl, sink_url
from outrider.limits.bus import REDIS_STREAM_ENTRIES
from outrider.ports.bus import DELIVERED, BusDelivery, BusEvent, BusVerdict, first_fails
from outrider.ports.secrets import SecretStore, own_secret
from outrider.settings import SinkSettings

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = structlog.get_logger()

STREAM = "outrider:run-events"


class RedisSink:
    def __init__(self, name: str, settings: SinkSettings, secrets: SecretStore) -> None:
        self._name = name
        self._url: SinkUrl = sink_url(settings.url)
        self._stream = self._url.options.get("stream", STREAM)
        self._entries = _entries(self._url.options.get("maxlen"))
        self._redis = _connect(self._url, settings, secrets)

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        from redis.exceptions import RedisError

        try:
            async with self._redis.pipeline(transaction=True) as pipeline:
                for event in window:
                    pipeline.xadd(
                        self._stream,
                        {
                            "id": event.id,
                            _about(event): event.outbox_id or event.run_id,
                            "event": event.content,
                        },
                        maxlen=self._entries,
                        approximate=True,
                    )
                await pipeline.execute()
        except (RedisError, OSError, TimeoutError) as error:
            code = type(error).__name__
            log.warning("redis_failed", sink=self._name, error=code, detail=str(error))
            failed = BusDelivery(BusVerdict.FAILED, code)
            return first_fails([event.run_id for event in window], failed)
        return [DELIVERED] * len(window)

    async def close(self) -> None:
        await self._redis.aclose()


def _entries(text: str | None) -> int:
    if text is None:
        return REDIS_STREAM_ENTRIES
    if not (text.isdecimal() and int(text) > 0):
        raise InvalidInput(f"maxlen={text} of a Redis sink is not a number of entries")
    return int(text)


def _connect(url: SinkUrl, settings: SinkSettings, secrets: SecretStore) -> "Redis":
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise InvalidInput(
            "a Redis sink requires the package redis", hint='pip install "outrider[redis]"'
        ) from error
    password = None if settings.secret is None else own_secret(secrets, settings.secret)
    try:
        return Redis.from_url(
            url.server,
            password=password,
            socket_timeout=settings.timeout_seconds,
            socket_connect_timeout=settings.timeout_seconds,
            # No retries in the library: the relay tries again, and counts it.
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise InvalidInput("the URL of a Redis sink is not valid") from error


def _about(event: BusEvent) -> str:
    """By what a consumer may sort events without reading them."""
    return "runId" if event.outbox_id is None else "outboxId"
