"""Who may watch a server whose database is away: keys that were right lately, and are so still."""

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request

from outrider.api.auth import Doorkeeper
from outrider.api.client_address import TrustedProxies
from outrider.api.errors import ApiError
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyId, KeyScope
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.access.session_keeper import SessionKeeper
from outrider.limits.access import KEY_REMEMBER_SECONDS
from outrider.limits.api import ApiLimits
from outrider.ports.store import Result, Store, Transaction
from outrider.testing.clock import FakeClock
from outrider.testing.slow_store import SlowStore
from outrider.testing.store_suite.workshop import NOON
from tests.support.api_inside import serving
from tests.support.foundations import foundation
from tests.support.whole_runs import opened


class FadingStore(SlowStore):
    """The store, until it is away."""

    is_away = False

    async def read(self, transaction: Transaction[Result]) -> Result:
        if self.is_away:
            raise StoreUnavailable("away")
        return await super().read(transaction)


class Gate:
    """A server's door, and a key that may come in."""

    def __init__(self, store: Store) -> None:
        self.store = FadingStore(store)
        self.clock = FakeClock(NOON)
        self.elsewhere = KeyKeeper(foundation(store, clock=self.clock), os.urandom, None)
        keys = KeyKeeper(foundation(self.store, clock=self.clock), os.urandom, None)
        sessions = SessionKeeper(
            foundation(self.store, clock=self.clock), keys, os.urandom, None, bytes
        )
        failures = Counter("failures", "Of this test.", registry=CollectorRegistry())
        self.door = Doorkeeper(keys, sessions, self.clock, failures, TrustedProxies(()))

    async def new_key(self) -> tuple[KeyId, str]:
        made, text = await self.elsewhere.create(DEFAULT_SCOPE, "watch", {KeyScope.READ}, "test")
        return made.id, text

    async def watch(self, key: str, scheme: str = "Bearer") -> None:
        header = (b"authorization", f"{scheme} {key}".encode())
        asking = Request({"type": "http", "headers": [header], "client": ("127.0.0.1", 1)})
        await self.door.admit_watcher(asking)

    def later(self) -> None:
        """When nobody remembers who a key is."""
        self.clock.advance(KEY_REMEMBER_SECONDS + 1)


async def test_a_key_that_was_refused_since_is_not_let_in_while_the_database_is_away(
    store: Store,
) -> None:
    """That it had been right within the hour was all that was asked."""
    gate = Gate(store)
    (_, good), (revoked_id, revoked) = await gate.new_key(), await gate.new_key()
    await gate.watch(good)
    await gate.watch(revoked)
    await gate.elsewhere.revoke(DEFAULT_SCOPE, revoked_id, "test")
    gate.later()
    with pytest.raises(ApiError, match="not valid"):
        await gate.watch(revoked, "bearer")
    gate.store.is_away = True
    await gate.watch(good)
    with pytest.raises(StoreUnavailable):
        await gate.watch(revoked)


async def test_a_key_that_this_server_revoked_is_not_let_in_while_the_database_is_away(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database, tmp_path) as outrider, serving(outrider, ApiLimits()) as server:
        made = await server.post("/keys", {"name": "watch", "scopes": ["read"]})
        metrics = server.url.removesuffix("/api/v2") + "/metrics"
        headers = {"Authorization": f"Bearer {made['key']}"}
        async with server.session.get(metrics, headers=headers) as answer:
            assert answer.status == 200
        gone = f"{server.url}/keys/{made['id']}"
        async with server.session.delete(gone, headers=server.headers) as answer:
            assert answer.status == 200
        fading = FadingStore(outrider.store)
        fading.is_away = True
        monkeypatch.setattr(outrider.key_keeper, "_store", fading)
        async with server.session.get(metrics, headers=headers) as answer:
            assert answer.status == 503
