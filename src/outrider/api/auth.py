"""The door: a bearer key or a session goes in, who is asking comes out, if they may ask that.

An address that keeps presenting keys that are none has to wait. Keys that were good before are let
through meanwhile, so that one bad client behind a proxy does not shut out the others.
"""

import hashlib
import math
from collections import OrderedDict

from prometheus_client import Counter
from starlette.requests import Request

from outrider.api import sessions
from outrider.api.errors import ApiError
from outrider.domain.keys import KeyScope, Principal
from outrider.kernel.failed_auth_limiter import FailedAuthLimiter
from outrider.kernel.key_keeper import KeyKeeper
from outrider.kernel.session_keeper import Session, SessionKeeper
from outrider.ports.clock import Clock

UNKNOWN_ADDRESS = "unknown"
CHALLENGE = 'Bearer realm="outrider"'


class Doorkeeper:
    def __init__(
        self,
        keys: KeyKeeper,
        session_keeper: SessionKeeper,
        clock: Clock,
        failures: Counter,
        remembered_most: int,
    ) -> None:
        self._keys = keys
        self._sessions = session_keeper
        self._clock = clock
        self._limiter = FailedAuthLimiter()
        self._failures = failures
        self._remembered_most = remembered_most
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def admit(self, request: Request, needed: KeyScope) -> Principal:
        """By the key that is presented; by the session where none is."""
        if "authorization" in request.headers:
            key = _bearer(request)
            if key is None:
                raise _no_key()
            principal = await self._owner_of(key, request)
        else:
            session = await self.session_of(request)
            sessions.require_own_page(request, session)
            principal = session.principal
        if not principal.allows(needed):
            raise ApiError(
                403,
                "INSUFFICIENT_SCOPE",
                f"this key's scopes do not include {needed.value}",
                hint="use a key with that scope",
            )
        return principal

    async def sign_in(self, request: Request, key: str) -> Session:
        """A session of the key, if it is good; a wrong one counts like any wrong key."""
        sessions.refuse_other_pages(request)
        return await self._sessions.begin(await self._owner_of(key, request))

    async def session_of(self, request: Request) -> Session:
        token = sessions.token_of(request)
        if token is None:
            raise _no_key()
        session = await self._sessions.find(token)
        if session is None:
            # An old cookie is no guess at a key: it costs its sender nothing.
            raise _unauthenticated("this session has ended", CHALLENGE)
        return session

    async def is_still_good(self, request: Request, needed: KeyScope) -> bool:
        """For what outlives its request: the key may have been revoked since."""
        principal: Principal | None = None
        if key := _bearer(request):
            principal = await self._keys.authenticate(key)
        elif token := sessions.token_of(request):
            session = await self._sessions.find(token)
            principal = session.principal if session else None
        return principal is not None and principal.allows(needed)

    async def _owner_of(self, key: str, request: Request) -> Principal:
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
        address = request.client.host if request.client else UNKNOWN_ADDRESS
        wait = self._limiter.seconds_to_wait(address, self._clock.now())
        if wait is not None and digest not in self._good:
            raise ApiError(
                429,
                "TOO_MANY_FAILED_AUTHENTICATIONS",
                "too many wrong keys came from this address",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        principal = await self._keys.authenticate(key)
        if principal is None:
            self._good.pop(digest, None)
            self._failures.inc()
            self._limiter.note_failure(address, self._clock.now())
            raise _unauthenticated("this key is not valid", f'{CHALLENGE}, error="invalid_token"')
        self._remember(digest)
        return principal

    def _remember(self, digest: bytes) -> None:
        self._good[digest] = None
        self._good.move_to_end(digest)
        while len(self._good) > self._remembered_most:
            self._good.popitem(last=False)


def _bearer(request: Request) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def _no_key() -> ApiError:
    return _unauthenticated("a key is needed: Authorization: Bearer KEY", CHALLENGE)


def _unauthenticated(message: str, challenge: str) -> ApiError:
    return ApiError(401, "UNAUTHENTICATED", message, headers={"WWW-Authenticate": challenge})
