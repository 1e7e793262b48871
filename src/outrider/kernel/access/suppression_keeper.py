"""The suppression keeper: addresses that must not be called, and who said so."""

from collections.abc import Sequence

from outrider.domain.ids import Scope
from outrider.domain.suppressions import OptOut, Suppression
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import suppressions
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.suppressions import Cursor
from outrider.ports.store import Transaction


class SuppressionKeeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids

    async def add(
        self, scope: Scope, channel: str, addresses: Sequence[str], opt_out: OptOut, actor: str
    ) -> None:
        await self._store.write(self._add(scope, channel, addresses, opt_out, actor))

    async def remove(
        self,
        scope: Scope,
        channel: str,
        addresses: Sequence[str],
        actor: str,
        topic: str | None = None,
    ) -> int:
        """Whatever they opted out of, or of one topic. Returns how many were suppressed."""
        return await self._store.write(self._remove(scope, channel, addresses, actor, topic))

    async def page(self, scope: Scope, after: Cursor, most: int) -> list[Suppression]:
        return await self._store.read(suppressions.page(scope, after, most))

    def _add(
        self, scope: Scope, channel: str, addresses: Sequence[str], opt_out: OptOut, actor: str
    ) -> Transaction[None]:
        yield from suppressions.suppress(scope, channel, addresses, opt_out, self._clock.now())
        detail: dict[str, object] = {
            "channel": channel,
            "addresses": len(addresses),
            "source": opt_out.source.value,
            "topic": opt_out.topic,
            "includesTransactional": opt_out.includes_transactional,
        }
        yield from self._recorded(scope, "suppression.added", detail, actor)

    def _remove(
        self,
        scope: Scope,
        channel: str,
        addresses: Sequence[str],
        actor: str,
        topic: str | None,
    ) -> Transaction[int]:
        removed = yield from suppressions.lift(scope, channel, addresses, topic)
        detail: dict[str, object] = {"channel": channel, "addresses": removed, "topic": topic}
        yield from self._recorded(scope, "suppression.removed", detail, actor)
        return removed

    def _recorded(
        self, scope: Scope, event: str, detail: dict[str, object], actor: str
    ) -> Transaction[None]:
        """The audit log says how many; the addresses themselves stay out of it."""
        entry = AuditEntry(scope, event, actor, detail=detail)
        yield from record([entry], self._ids, self._clock.now())
