"""The unsubscriber: makes the link that a message carries, and opts out whoever follows it.

The secret behind the links is the database's own and is read once; a link is then made without IO.
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
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.store import Transaction

SIGNING_KEY = "unsubscribe"
REASON = "unsubscribed"
EVIDENCE = "the signed link of a message"
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
        """What makes links; None where nobody said how this server is reached."""
        if self._public_url is None:
            return None
        return UnsubscribeUrls(self._public_url, await self._loaded())

    async def url_of(
        self, scope: Scope, channel: Channel, address: str, topic: str | None = None
    ) -> str | None:
        urls = await self.urls()
        return urls.url_of(scope, channel, address, topic) if urls else None

    async def read(self, token: str) -> Unsubscription | None:
        """Whom the token opts out, if it is one of ours; nothing is changed."""
        return read_token(await self._loaded(), token)

    async def unsubscribe(self, token: str, *, everything: bool = False) -> Unsubscription | None:
        """Opt out whom the token names, of its topic or of everything; None if it is none of ours.
        A repeat changes nothing."""
        found = await self.read(token)
        if found is not None and everything:
            found = found._replace(topic=None)
        if found is not None:
            await self._store.write(self._suppress(found))
        return found

    def _suppress(self, found: Unsubscription) -> Transaction[None]:
        now = self._clock.now()
        channel = found.channel.value
        opt_out = OptOut(REASON, SuppressionSource.UNSUBSCRIBE, EVIDENCE, found.topic)
        if not (yield from suppressions.suppress(
            found.scope, channel, [found.address], opt_out, now
        )):  # fmt: skip
            return
        detail: dict[str, object] = {
            "channel": channel, "addresses": 1, "reason": REASON, "topic": found.topic,
        }  # fmt: skip
        entry = AuditEntry(found.scope, "suppression.added", ACTOR, detail=detail)
        yield from record([entry], self._ids, now)

    async def _loaded(self) -> bytes:
        if self._secret is None:
            self._secret = await self._store.read(signing_keys.find(SIGNING_KEY))
        if self._secret is None:
            new, now = self._random_bytes(SECRET_BYTES), self._clock.now()
            self._secret = await self._store.write(signing_keys.make(SIGNING_KEY, new, now))
        return self._secret
