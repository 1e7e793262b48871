"""Callback secrets: what each workspace's callbacks are signed with, made when first needed.

A receiver checks signatures with the same secret, so whoever administers the workspace may read it.
"""

import base64
from collections.abc import Callable
from typing import Final

from outrider.domain.ids import Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import signing_keys

SECRET_BYTES: Final = 32
PREFIX: Final = "whsec_"
"""How Standard Webhooks marks a secret in base64."""


class CallbackSecrets:
    def __init__(self, foundation: Foundation, random_bytes: Callable[[int], bytes]) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._random_bytes = random_bytes
        self._known: dict[Scope, bytes] = {}

    async def secret_of(self, scope: Scope) -> bytes:
        found = self._known.get(scope)
        if found is None:
            found = self._known[scope] = await self._loaded(f"callbacks/{scope.workspace_id}")
        return found

    async def text_of(self, scope: Scope) -> str:
        """As libraries for Standard Webhooks take it."""
        return PREFIX + base64.b64encode(await self.secret_of(scope)).decode()

    async def _loaded(self, name: str) -> bytes:
        found = await self._store.read(signing_keys.find(name))
        if found is None:
            new = self._random_bytes(SECRET_BYTES)
            found = await self._store.write(signing_keys.make(name, new, self._clock.now()))
        return found
