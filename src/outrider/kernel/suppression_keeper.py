"""The suppression keeper: addresses that must not be written to, whoever asks."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.kernel.transactions import ledger
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction, ask


class Suppression(NamedTuple):
    channel: str
    address: str
    reason: str
    created_at: datetime


class SuppressionKeeper:
    def __init__(self, store: Store, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def add(
        self, scope: Scope, channel: str, addresses: Sequence[str], reason: str, actor: str
    ) -> None:
        await self._store.write(self._add(scope, channel, addresses, reason, actor))

    async def remove(self, scope: Scope, channel: str, addresses: Sequence[str], actor: str) -> int:
        """Returns how many of them were suppressed."""
        return await self._store.write(self._remove(scope, channel, addresses, actor))

    async def page(self, scope: Scope, after: tuple[str, str], most: int) -> list[Suppression]:
        return await self._store.read(_page(scope, after, most))

    def _add(
        self, scope: Scope, channel: str, addresses: Sequence[str], reason: str, actor: str
    ) -> Transaction[None]:
        now = self._clock.now()
        yield from ledger.suppress(scope, channel, addresses, reason, now)
        yield from self._recorded(scope, "suppression.added", channel, len(addresses), actor)

    def _remove(
        self, scope: Scope, channel: str, addresses: Sequence[str], actor: str
    ) -> Transaction[int]:
        window = {"channel": [channel] * len(addresses), "address": addresses}
        removed = yield from ask("delete_suppressions", window, **scope._asdict())
        yield from self._recorded(scope, "suppression.removed", channel, len(removed), actor)
        return len(removed)

    def _recorded(
        self, scope: Scope, event: str, channel: str, count: int, actor: str
    ) -> Transaction[None]:
        """The audit log says how many; the addresses themselves stay out of it."""
        detail: dict[str, object] = {"channel": channel, "addresses": count}
        entry = AuditEntry(scope, event, actor, detail=detail)
        yield from record([entry], self._ids, self._clock.now())


def _page(scope: Scope, after: tuple[str, str], most: int) -> Transaction[list[Suppression]]:
    channel, address = after
    rows = yield from ask(
        "suppressions_page",
        **scope._asdict(),
        after_channel=channel,
        after_address=address,
        most=most,
    )
    return [Suppression(*row) for row in rows]
