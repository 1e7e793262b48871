"""The unsubscriber: creates unsubscribe links, and opts out the recipient who follows one.

The secret behind the links is stored in the database and read once; creating a link needs no IO.
"""

from collections.abc import Callable

from outrider.domain.ids import Scope
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.domain.unsubscribe import (
    SECRET_BYTES,
    UnsubscribeUrls,
    Unsubscription,
    read_token,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import signing_keys, suppressions

SIGNING_KEY = "unsubscribe"
REASON = "unsubscribed"
EVIDENCE = "the signed link in a message"
ACTOR = "recipient"


class Unsubscriber:
    def __init__(
        self, foundation: Foundation, random_bytes: Callable[[int], bytes], public_url: str | None
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._random_bytes = random_bytes
        self._public_url = public_url
        self._secret: bytes | None = None

    async def urls(self) -> UnsubscribeUrls | None:
        """The link factory; None if no public URL is configured for this server."""
        if self._public_url is None:
            return None
        return UnsubscribeUrls(self._public_url, await self._loaded())

    async def url_of(
        self, scope: Scope, channel: Channel, address: str, topic: str | None = None
    ) -> str | None:
        urls = await self.urls()
        return urls.url_of(scope, channel, address, topic) if urls else None

    async def read(self, token: str) -> Unsubscription | None:
        """Whom the token opts out, if it is one of ours; changes nothing."""
        return read_token(await self._loaded(), token)

    async def unsubscribe(self, token: str, *, everything: bool = False) -> Unsubscription | None:
        """Opt the token's recipient out of its topic, or of everything; None if the token is not
        ours. Repeating it changes nothing."""
        found = await self.read(token)
        if found is not None and everything:
            found = found._replace(topic=None)
        if found is not None:
            opt_out = OptOut(REASON, SuppressionSource.UNSUBSCRIBE, EVIDENCE, found.topic)
            script = suppressions.unsubscribe(
                found.scope,
                found.channel.value,
                found.address,
                opt_out,
                ACTOR,
                self._ids,
                self._clock.now(),
            )
            await self._store.write(script)
        return found

    async def _loaded(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.read(signing_keys.find(SIGNING_KEY))
        if self._secret is None:
            new, now = self._random_bytes(SECRET_BYTES), self._clock.now()
            self._secret = await self._store.write(signing_keys.make(SIGNING_KEY, new, now))
        return self._secret
