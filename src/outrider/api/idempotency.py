"""Idempotency keys of requests: the first one executes, later ones get its answer.

A key belongs to one method and path. A control commits its key together with its change; work in
several transactions claims its key first. Errors are answers too. Server failures are not stored,
so that the request can be retried.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import assert_never

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from outrider.api.errors import ApiError
from outrider.domain.errors import InvalidInput, Problem, StoreUnavailable
from outrider.domain.ids import Scope
from outrider.kernel.access.answer_finder import AnswerFinder
from outrider.limits.access import IDEMPOTENCY_RENEW_SECONDS
from outrider.limits.api import ApiLimits
from outrider.ports.idempotency import (
    IdempotencyStore,
    KeyUsed,
    OtherRequest,
    RequestKey,
    Running,
    StoredAnswer,
    Yours,
)

log = structlog.get_logger()

HEADERS = ("X-Idempotency-Key", "Idempotency-Key")
REPLAYED = "Idempotency-Replayed"
KEY_MAX_CHARACTERS = 255

Work = Callable[[], Awaitable[Response]]


class ShownOnce(Response):
    """An answer with a secret in it: `later` is what may be stored and shown again."""

    later: bytes = b""


def key_of(headers: Headers) -> str | None:
    given = {name: headers.getlist(name) for name in HEADERS}
    values = {value for each in given.values() for value in each}
    if not values:
        return None
    if len(values) > 1:
        raise InvalidInput(
            "two different idempotency keys were given",
            [Problem(name, "differs from the other one") for name in HEADERS if given[name]],
        )
    [key] = values
    if not (0 < len(key) <= KEY_MAX_CHARACTERS and key.isascii() and key.isprintable()):
        name = next(name for name in HEADERS if given[name])
        wrong = f"should have 1 to {KEY_MAX_CHARACTERS} printable ASCII characters"
        raise InvalidInput("the idempotency key is not valid", [Problem(name, wrong)])
    return key


def request_key(request: Request, scope: Scope, key: str, body_sha256: str) -> RequestKey:
    """A key belongs to one method and path; a repeat must have the same query and body."""
    place = _digest(request.method, request.url.path)
    return RequestKey(scope, f"{place[:32]}:{key}", _digest(request.url.query, body_sha256))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


TOO_MANY = 429


class Once:
    def __init__(self, store: IdempotencyStore, finder: AnswerFinder, limits: ApiLimits) -> None:
        self._store = store
        self._finder = finder
        self._limits = limits

    async def control(self, key: RequestKey, work: Work) -> Response:
        """For work that takes the key, and stores its answer, in the transaction of its change."""
        found = await self._finder.find(key)
        if found is not None:
            return self._replayed(found)
        try:
            response = await work()
        except KeyUsed as used:
            return self._replayed(used.found)
        if _is_failure(response):
            return response
        answer = _stored(response)
        if response.status_code >= 400:
            # Refused: it changed nothing, so there was no transaction to store it in.
            kept = await self._store.keep(key, answer)
            if kept != answer:
                return self._replayed(kept)
        await self._finder.put(key, answer)
        return response

    async def answer(self, key: RequestKey, work: Work) -> Response:
        claimed = await self._claimed(key)
        if isinstance(claimed, StoredAnswer):
            return _replay(claimed)
        try:
            async with self._renewing(key, claimed.owner):
                response = await work()
        except Exception:
            await self._release(key, claimed.owner)
            raise
        if _is_failure(response):
            # Nothing was executed, and the same request may succeed later.
            await self._release(key, claimed.owner)
        else:
            await self._keep(key, claimed.owner, response)
        return response

    async def _claimed(self, key: RequestKey) -> Yours | StoredAnswer:
        """The right to execute, or the stored answer; waits while another request executes."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.idempotency_wait_seconds
        pause = self._limits.idempotency_poll_seconds
        while True:
            claimed = await self._finder.find(key) or await self._store.claim(key)
            match claimed:
                case Yours() | StoredAnswer():
                    return claimed
                case OtherRequest():
                    raise _reused()
                case Running():
                    if loop.time() >= until:
                        raise self._in_progress()
                case other:
                    assert_never(other)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._limits.idempotency_poll_most_seconds)

    @asynccontextmanager
    async def _renewing(self, key: RequestKey, owner: str) -> AsyncIterator[None]:
        """A claim is short, so that the wait for a dead server is short; live ones renew it."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(IDEMPOTENCY_RENEW_SECONDS)
                try:
                    await self._store.renew(key, owner)
                except StoreUnavailable as error:
                    log.warning("idempotency_key_not_renewed", error=error.message)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()

    async def _keep(self, key: RequestKey, owner: str, response: Response) -> None:
        answer = _stored(response)
        try:
            await self._store.finish(key, owner, answer)
        except StoreUnavailable as error:
            # It was done, and the caller should know; only a repeat would not.
            log.warning("idempotent_answer_not_kept", error=error.message)
        else:
            await self._finder.put(key, answer)

    async def _release(self, key: RequestKey, owner: str) -> None:
        try:
            await self._store.abandon(key, owner)
        except StoreUnavailable as error:
            log.warning("idempotency_key_not_abandoned", error=error.message)

    def _replayed(self, found: StoredAnswer | OtherRequest | Running) -> Response:
        match found:
            case StoredAnswer():
                return _replay(found)
            case OtherRequest():
                raise _reused()
            case Running():
                raise self._in_progress()
            case other:
                assert_never(other)

    def _in_progress(self) -> ApiError:
        return ApiError(
            409,
            "IDEMPOTENCY_IN_PROGRESS",
            "the first request with this key is still being executed",
            headers={"Retry-After": str(self._limits.retry_after_seconds)},
        )


def _is_failure(response: Response) -> bool:
    return response.status_code >= 500 or response.status_code == TOO_MANY


def _stored(response: Response) -> StoredAnswer:
    body = response.later if isinstance(response, ShownOnce) else bytes(response.body)
    media_type = response.headers.get("content-type", "application/json")
    return StoredAnswer(response.status_code, media_type, body.decode())


def _replay(answer: StoredAnswer) -> Response:
    return Response(answer.body, answer.status, {REPLAYED: "true"}, media_type=answer.media_type)


def _reused() -> ApiError:
    return ApiError(
        422,
        "IDEMPOTENCY_KEY_REUSED",
        "this idempotency key was already used for a different request",
        hint="use a new key for a new request",
    )
