"""The session keeper: issues session tokens for authenticated keys, and resolves them again.

Sessions are not stored: one lasts for hours, unless its key is revoked or the root key changes. The
signing secret is not in the database; servers that share it accept each other's sessions.
"""

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from outrider.domain.keys import Principal
from outrider.domain.sessions import (
    NONCE_BYTES,
    SECRET_BYTES,
    csrf_token,
    make_token,
    read_token,
)
from outrider.domain.workspaces import WorkspaceName
from outrider.kernel.access.key_keeper import ROOT, KeyKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import keys, signing_keys
from outrider.limits.access import SESSION_SECONDS

SIGNING_KEY = "session"


@dataclass(frozen=True, slots=True)
class Session:
    principal: Principal
    expires_at: datetime
    token: str = field(repr=False)
    csrf_token: str = field(repr=False)


class SessionKeeper:
    def __init__(
        self,
        foundation: Foundation,
        key_keeper: KeyKeeper,
        random_bytes: Callable[[int], bytes],
        root_key: str | None,
        read_secret: Callable[[], bytes],
    ) -> None:
        self._store = foundation.store
        self._keys = key_keeper
        self._clock = foundation.clock
        self._random_bytes = random_bytes
        self._root_key = root_key
        self._read_secret = read_secret
        self._secret: bytes | None = None

    async def begin(self, principal: Principal) -> Session:
        secret = await self._loaded()
        # Whole seconds, as encoded in the token.
        now = self._clock.now().replace(microsecond=0)
        expires_at = now + timedelta(seconds=SESSION_SECONDS)
        key_id = None if principal == ROOT else principal.key_id
        nonce = self._random_bytes(NONCE_BYTES)
        token = make_token(secret, key_id, expires_at, nonce, self._root_key)
        return Session(principal, expires_at, token, csrf_token(secret, token))

    async def find(self, token: str) -> Session | None:
        """None if the token is not ours, has expired, or its key has been revoked."""
        secret = await self._loaded()
        signed = read_token(secret, token, self._root_key)
        if signed is None or signed.expires_at <= self._clock.now():
            return None
        if signed.key_id is not None:
            principal = await self._keys.principal_of(signed.key_id)
        else:
            principal = ROOT if self._root_key is not None else None
        if principal is None:
            return None
        return Session(principal, signed.expires_at, token, csrf_token(secret, token))

    async def workspace_of(self, session: Session) -> WorkspaceName:
        return await self._store.read(keys.workspace_name(session.principal.scope))

    async def _loaded(self) -> bytes:
        if self._secret is None:
            secret = await asyncio.to_thread(self._read_secret)
            self._secret = hmac.digest(secret, await self._salt(), "sha256")
        return self._secret

    async def _salt(self) -> bytes:
        """Unique to the database, so that a session of one database is not valid in another.
        Reading it there is not enough to sign a token."""
        found = await self._store.read(signing_keys.find(SIGNING_KEY))
        if found is None:
            new, now = self._random_bytes(SECRET_BYTES), self._clock.now()
            found = await self._store.write(signing_keys.make(SIGNING_KEY, new, now))
        return found
