"""The suppression keeper: addresses that must not be contacted, and who said so."""

from collections.abc import Sequence

from outrider.domain.ids import Scope
from outrider.domain.suppressions import OptOut, Suppression
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import suppressions
from outrider.kernel.transactions.suppressions import Cursor


class SuppressionKeeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids

    async def add(
        self, scope: Scope, channel: str, addresses: Sequence[str], opt_out: OptOut, actor: str
    ) -> None:
        script = suppressions.suppress_recorded(
            scope, channel, addresses, opt_out, actor, self._ids, self._clock.now()
        )
        await self._store.write(script)

    async def remove(
        self,
        scope: Scope,
        channel: str,
        addresses: Sequence[str],
        actor: str,
        topic: str | None = None,
    ) -> int:
        """Lift every opt-out, or the one for a topic. Returns how many were suppressed."""
        script = suppressions.lift_recorded(
            scope, channel, addresses, topic, actor, self._ids, self._clock.now()
        )
        return await self._store.write(script)

    async def page(self, scope: Scope, after: Cursor, most: int) -> list[Suppression]:
        return await self._store.read(suppressions.page(scope, after, most))
