"""Idempotency in Redis: a record is one key, and Redis itself forgets it when its time is over.

A flushed or replaced Redis has forgotten everything: what was asked before executes anew.
"""

import hashlib
import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import Scope
from outrider.ports.idempotency import Claimed, OtherRequest, Running, StoredAnswer, Yours
from outrider.settings import REDIS_CONNECTIONS, REDIS_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from redis.asyncio import Redis

CLAIM = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return false end
return redis.call('GET', KEYS[1])
"""
"""Inside a script time stands still: what kept us from setting the key is there to be read."""

_IF_OURS = """
local found = redis.call('GET', KEYS[1])
if not found then return 0 end
local record = cjson.decode(found)
if record.owner ~= ARGV[1] or record.answer then return 0 end
"""
FINISH = f"""{_IF_OURS}
record.answer = ARGV[2]
redis.call('SET', KEYS[1], cjson.encode(record), 'EX', ARGV[3])
return 1
"""
ABANDON = f"{_IF_OURS} return redis.call('DEL', KEYS[1])"


class Record(msgspec.Struct, omit_defaults=True):
    owner: str
    fingerprint: str
    answer: str | None = None


class RedisIdempotency:
    def __init__(self, url: str, ttl_seconds: int, running_seconds: int) -> None:
        self._ttl_seconds = ttl_seconds
        self._running_seconds = running_seconds
        self._redis = _connect(url)
        self._claim = self._redis.register_script(CLAIM)
        self._finish = self._redis.register_script(FINISH)
        self._abandon = self._redis.register_script(ABANDON)

    async def claim(self, scope: Scope, key: str, fingerprint: str) -> Claimed:
        owner = secrets.token_hex(16)
        ours = msgspec.json.encode(Record(owner, fingerprint))
        raw = await _answered(self._claim([_name(scope, key)], [ours, self._running_seconds]))
        found = msgspec.json.decode(raw, type=Record) if raw is not None else None
        # The driver asks again when a connection breaks; it may then find what it set itself.
        if found is None or found.owner == owner:
            return Yours(owner)
        if found.fingerprint != fingerprint:
            return OtherRequest()
        if found.answer is None:
            return Running()
        return msgspec.json.decode(found.answer, type=StoredAnswer)

    async def finish(self, scope: Scope, key: str, owner: str, answer: StoredAnswer) -> None:
        text = msgspec.json.encode(answer)
        await _answered(self._finish([_name(scope, key)], [owner, text, self._ttl_seconds]))

    async def abandon(self, scope: Scope, key: str, owner: str) -> None:
        await _answered(self._abandon([_name(scope, key)], [owner]))

    async def close(self) -> None:
        await _answered(self._redis.aclose())


def _connect(url: str) -> "Redis":
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise InvalidInput(
            "idempotency in Redis needs the package redis",
            hint='pip install "outrider[redis]"',
        ) from error
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=REDIS_CONNECTIONS,
            timeout=REDIS_TIMEOUT_SECONDS,
            socket_timeout=REDIS_TIMEOUT_SECONDS,
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            # Once more at once, for a connection that Redis closed while it was idle.
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError as error:
        raise InvalidInput(
            "the URL of Redis is not valid",
            hint="write redis://HOST:6379/0, rediss://HOST:6379/0 or unix:///PATH",
        ) from error
    return Redis.from_pool(pool)


def _name(scope: Scope, key: str) -> str:
    """Hashed, because a client may call its key anything."""
    hashed = hashlib.sha256(key.encode()).hexdigest()
    return f"outrider:idempotency:{scope.tenant_id}:{scope.workspace_id}:{hashed}"


async def _answered(asked: Awaitable[Any]) -> Any:
    from redis.exceptions import RedisError

    try:
        return await asked
    except (RedisError, OSError) as error:
        raise StoreUnavailable(
            f"Redis did not do it: {error}", hint="check that it runs and that its URL is right"
        ) from error
