"""Authentication: a bearer key or a session goes in, the authorised caller comes out.

A client that keeps presenting wrong keys has to wait, per client and per key. A correct key is
accepted whatever others behind the same address do: 256 random bits cannot be guessed.
"""

import asyncio
import math
from contextlib import nullcontext

from prometheus_client import Counter
from starlette.requests import Request

from outrider.api import sessions
from outrider.api.client_address import TrustedProxies
from outrider.api.errors import ApiError
from outrider.api.recent_keys import RecentKeys
from outrider.domain.errors import StoreError
from outrider.domain.keys import KeyId, KeyScope, Principal, parse_key
from outrider.kernel.access.failed_auth_limiter import FailedAuthLimiter
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.access.session_keeper import Session, SessionKeeper
from outrider.limits.access import (
    FAILED_AUTH_CLIENT_BURST,
    FAILED_AUTH_CLIENT_REFILL_SECONDS,
    FAILED_AUTH_LOOKUPS,
)
from outrider.ports.clock import Clock

CHALLENGE = 'Bearer realm="outrider"'


class ScopeMissing(ApiError):
    def __init__(self, principal: Principal, needed: KeyScope) -> None:
        self.principal = principal
        self.reason = f"this key's scopes do not include {needed.value}"
        super().__init__(403, "INSUFFICIENT_SCOPE", self.reason, hint="use a key with that scope")


class Doorkeeper:
    def __init__(
        self,
        keys: KeyKeeper,
        session_keeper: SessionKeeper,
        clock: Clock,
        failures: Counter,
        proxies: TrustedProxies,
    ) -> None:
        self._keys = keys
        self._sessions = session_keeper
        self._clock = clock
        self._by_key = FailedAuthLimiter()
        self._by_client = FailedAuthLimiter(
            FAILED_AUTH_CLIENT_BURST, FAILED_AUTH_CLIENT_REFILL_SECONDS
        )
        self._lookups = asyncio.Semaphore(FAILED_AUTH_LOOKUPS)
        self._failures = failures
        self._proxies = proxies
        self._recent = RecentKeys(clock)

    async def admit(self, request: Request, needed: KeyScope) -> Principal:
        """By the presented key; by the session if there is none."""
        key = _bearer(request)
        if "authorization" in request.headers:
            if key is None:
                raise _no_key()
            principal = await self._owner_of(key, request)
        else:
            session = await self.session_of(request)
            sessions.require_own_page(request, session)
            principal = session.principal
        if not principal.allows(needed):
            raise ScopeMissing(principal, needed)
        if key is not None:
            self._recent.note(key, principal.key_id)
        return principal

    async def admit_watcher(self, request: Request) -> None:
        """With any key; a recently accepted one is enough while the database is unavailable."""
        try:
            await self.admit(request, KeyScope.READ)
        except StoreError:
            if not self.knew(request):
                raise

    def knew(self, request: Request) -> bool:
        """Whether the request's key was accepted recently."""
        key = _bearer(request)
        return key is not None and self._recent.knows(key)

    def forget_revoked(self, key_id: KeyId) -> None:
        self._recent.forget_revoked(key_id)

    async def sign_in(self, request: Request, key: str) -> Session:
        """A session for the key, if it is valid; a wrong one counts like any wrong key."""
        sessions.refuse_other_pages(request)
        return await self._sessions.begin(await self._owner_of(key, request))

    async def session_of(self, request: Request) -> Session:
        token = sessions.token_of(request)
        if token is None:
            raise _no_key()
        session = await self._sessions.find(token)
        if session is None:
            # An old cookie is not a guess at a key, so it is not counted.
            raise _unauthenticated("this session has ended", CHALLENGE)
        return session

    async def is_still_good(self, request: Request, needed: KeyScope) -> bool:
        """For what outlives its request: the key may have been revoked since."""
        principal: Principal | None = None
        if key := _bearer(request):
            principal = await self._keys.authenticate(key)
            if principal is None:
                self._recent.forget(key)
        elif token := sessions.token_of(request):
            session = await self._sessions.find(token)
            principal = session.principal if session else None
        return principal is not None and principal.allows(needed)

    async def _owner_of(self, key: str, request: Request) -> Principal:
        client, now = self._proxies.client_of(request), self._clock.now()
        # A client's flood of wrong keys causes only a few concurrent database look-ups.
        floods = self._by_client.seconds_to_wait(client, now) is not None
        async with self._lookups if floods else nullcontext():
            principal = await self._keys.authenticate(key)
        if principal is not None:
            return principal
        self._recent.forget(key)
        presented = parse_key(key)
        prefix = presented.key_id if presented else ""
        now = self._clock.now()
        wait = max(
            self._by_key.seconds_to_wait(client, now, prefix) or 0.0,
            self._by_client.seconds_to_wait(client, now) or 0.0,
        )
        if wait:
            raise ApiError(
                429,
                "TOO_MANY_FAILED_AUTHENTICATIONS",
                "too many requests with an invalid key came from this client",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        self._failures.inc()
        self._by_key.note_failure(client, now, prefix)
        self._by_client.note_failure(client, now)
        raise _unauthenticated("this key is not valid", f'{CHALLENGE}, error="invalid_token"')


def _bearer(request: Request) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def _no_key() -> ApiError:
    return _unauthenticated("an API key is required: Authorization: Bearer KEY", CHALLENGE)


def _unauthenticated(message: str, challenge: str) -> ApiError:
    return ApiError(401, "UNAUTHENTICATED", message, headers={"WWW-Authenticate": challenge})
