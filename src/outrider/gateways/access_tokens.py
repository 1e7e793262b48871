"""Access tokens that a credential is exchanged for, shared by all gateways of a process.

Many calls that need a token at once cause one exchange. A token is renewed before it expires, and
used until then if the renewal fails.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from outrider.domain.call_results import CallResult
from outrider.limits.gateways import TOKEN_RENEWAL_SECONDS

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient


@dataclass(frozen=True, slots=True)
class AccessToken:
    value: str = field(repr=False)
    seconds: float
    """How long it is valid, from now."""


Exchange = Callable[[], Awaitable[AccessToken | CallResult]]
"""Never raises for what the provider or the network does: a result says why there is no token."""


@dataclass(frozen=True, slots=True)
class _Held:
    value: str = field(repr=False)
    expires_at: float


class AccessTokens:
    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._held: dict[str, _Held] = {}
        self._exchanges: dict[str, asyncio.Task[AccessToken | CallResult]] = {}

    async def get(self, key: str, exchange: Exchange) -> str | CallResult:
        """`key` names the credential, without revealing it."""
        held = self._held.get(key)
        asked_at = self._seconds()
        if held is not None and asked_at < held.expires_at - TOKEN_RENEWAL_SECONDS:
            return held.value
        task = self._exchanges.get(key)
        if task is None:
            task = asyncio.ensure_future(exchange())
            self._exchanges[key] = task
            task.add_done_callback(lambda _: self._exchanges.pop(key, None))
        # Others wait for the same exchange, so one caller's end must not end it.
        made = await asyncio.shield(task)
        if isinstance(made, AccessToken):
            self._held[key] = _Held(made.value, asked_at + made.seconds)
            return made.value
        return held.value if held is not None and self._seconds() < held.expires_at else made

    def forget(self, key: str, value: str) -> None:
        """It was refused; unless another call has replaced it already."""
        held = self._held.get(key)
        if held is not None and held.value == value:
            del self._held[key]


_of_clients: "WeakKeyDictionary[HttpClient, AccessTokens]" = WeakKeyDictionary()


def tokens_of(client: "HttpClient") -> AccessTokens:
    """Those of a process: its gateways share one client."""
    return _of_clients.setdefault(client, AccessTokens())
