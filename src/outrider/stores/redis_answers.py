"""Answers to keyed requests in Redis: one key each, which Redis expires.

The database decides; this is only a faster copy. If Redis is flushed, replaced or unavailable,
nothing is lost but speed.
"""

import hashlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.limits.stores import REDIS_CONNECTIONS, REDIS_TIMEOUT_SECONDS
from outrider.ports.idempotency import OtherRequest, RequestKey, StoredAnswer

if TYPE_CHECKING:
    from redis.asyncio import Redis


class Record(msgspec.Struct):
    fingerprint: str
    answer: StoredAnswer


class RedisAnswers:
    def __init__(self, url: str, ttl_seconds: int) -> None:
        self._ttl_seconds = ttl_seconds
        self._redis = _connect(url)

    async def find(self, key: RequestKey) -> StoredAnswer | OtherRequest | None:
        raw = await _answered(self._redis.get(_name(key)))
        if raw is None:
            return None
        try:
            found = msgspec.json.decode(raw, type=Record)
        except msgspec.DecodeError:
            # Written by another version or program; the database knows better.
            return None
        return found.answer if found.fingerprint == key.fingerprint else OtherRequest()

    async def put(self, key: RequestKey, answer: StoredAnswer) -> None:
        raw = msgspec.json.encode(Record(key.fingerprint, answer))
        await _answered(self._redis.set(_name(key), raw, nx=True, ex=self._ttl_seconds))

    async def reach(self) -> None:
        await _answered(self._redis.ping())

    async def close(self) -> None:
        await _answered(self._redis.aclose())


def _connect(url: str) -> "Redis":
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise InvalidInput(
            "idempotency in Redis requires the package redis",
            hint='pip install "outrider[redis]"',
        ) from error
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=REDIS_CONNECTIONS,
            timeout=REDIS_TIMEOUT_SECONDS,
            socket_timeout=REDIS_TIMEOUT_SECONDS,
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            # Retry once at once, in case Redis closed an idle connection.
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError as error:
        raise InvalidInput(
            "the Redis URL is not valid",
            hint="use redis://HOST:6379/0, rediss://HOST:6379/0 or unix:///PATH",
        ) from error
    return Redis.from_pool(pool)


def _name(key: RequestKey) -> str:
    """Hashed, because a client may choose any text as its key."""
    hashed = hashlib.sha256(key.name.encode()).hexdigest()
    return f"outrider:answer:{key.scope.tenant_id}:{key.scope.workspace_id}:{hashed}"


async def _answered(asked: Awaitable[Any]) -> Any:
    from redis.exceptions import RedisError

    try:
        return await asked
    except (RedisError, OSError) as error:
        raise StoreUnavailable(
            f"Redis failed: {error}", hint="check that it is running and that its URL is correct"
        ) from error
