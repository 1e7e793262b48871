"""Idempotency keys of requests: the first one executes, those after it get its answer again.

Errors are answers too. What the server failed at is not kept, so that it can be tried again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import assert_never

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from outrider.api.errors import ApiError
from outrider.domain.errors import InvalidInput, Problem, StoreUnavailable
from outrider.domain.ids import Scope
from outrider.ports.idempotency import (
    IdempotencyStore,
    OtherRequest,
    Running,
    StoredAnswer,
    Yours,
)
from outrider.settings import ApiLimits

log = structlog.get_logger()

HEADERS = ("X-Idempotency-Key", "Idempotency-Key")
REPLAYED = "Idempotency-Replayed"
KEY_MAX_CHARACTERS = 255

Work = Callable[[], Awaitable[Response]]


class ShownOnce(Response):
    """An answer with a secret in it: `later` is what may be kept and shown again."""

    later: bytes = b""


def key_of(headers: Headers) -> str | None:
    given = {name: headers.getlist(name) for name in HEADERS}
    values = {value for each in given.values() for value in each}
    if not values:
        return None
    if len(values) > 1:
        raise InvalidInput(
            "two different idempotency keys were given",
            [Problem(name, "is not the same as the other") for name in HEADERS if given[name]],
        )
    [key] = values
    if not (0 < len(key) <= KEY_MAX_CHARACTERS and key.isascii() and key.isprintable()):
        name = next(name for name in HEADERS if given[name])
        wrong = f"should have 1 to {KEY_MAX_CHARACTERS} printable ASCII characters"
        raise InvalidInput("the idempotency key cannot be used", [Problem(name, wrong)])
    return key


def fingerprint(request: Request, body_sha256: str) -> str:
    """What makes two requests the same: everything but headers."""
    parts = (request.method, request.url.path, request.url.query, body_sha256)
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


TOO_MANY = 429


class Once:
    def __init__(self, store: IdempotencyStore, limits: ApiLimits) -> None:
        self._store = store
        self._limits = limits

    async def answer(self, scope: Scope, key: str, fingerprint: str, work: Work) -> Response:
        claimed = await self._claimed(scope, key, fingerprint)
        if isinstance(claimed, StoredAnswer):
            return Response(
                claimed.body, claimed.status, {REPLAYED: "true"}, media_type=claimed.media_type
            )
        try:
            response = await work()
        except Exception:
            await self._let_go(scope, key, claimed.owner)
            raise
        if response.status_code >= 500 or response.status_code == TOO_MANY:
            # Nothing was executed, and the same request may succeed later.
            await self._let_go(scope, key, claimed.owner)
        else:
            await self._keep(scope, key, claimed.owner, response)
        return response

    async def _claimed(self, scope: Scope, key: str, fingerprint: str) -> Yours | StoredAnswer:
        """The right to execute, or the answer of who had it; waits for somebody who is at it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.idempotency_wait_seconds
        pause = self._limits.idempotency_poll_seconds
        while True:
            claimed = await self._store.claim(scope, key, fingerprint)
            match claimed:
                case Yours() | StoredAnswer():
                    return claimed
                case OtherRequest():
                    raise ApiError(
                        422,
                        "IDEMPOTENCY_KEY_REUSED",
                        "this idempotency key was used for another request",
                        hint="use a new key for a new request",
                    )
                case Running():
                    if loop.time() >= until:
                        raise ApiError(
                            409,
                            "IDEMPOTENCY_IN_PROGRESS",
                            "the first request with this key is still being executed",
                            headers={"Retry-After": str(self._limits.retry_after_seconds)},
                        )
                case other:
                    assert_never(other)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._limits.idempotency_poll_most_seconds)

    async def _keep(self, scope: Scope, key: str, owner: str, response: Response) -> None:
        body = response.later if isinstance(response, ShownOnce) else bytes(response.body)
        media_type = response.headers.get("content-type", "application/json")
        answer = StoredAnswer(response.status_code, media_type, body.decode())
        try:
            await self._store.finish(scope, key, owner, answer)
        except StoreUnavailable as error:
            # It was done, and whoever asked should know; only a repeat would not.
            log.warning("idempotent_answer_not_kept", error=error.message)

    async def _let_go(self, scope: Scope, key: str, owner: str) -> None:
        try:
            await self._store.abandon(scope, key, owner)
        except StoreUnavailable as error:
            log.warning("idempotency_key_not_abandoned", error=error.message)
