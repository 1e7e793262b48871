"""The policy keeper: a workspace's screening policies, cached for about a second.

A change made by another process is seen within that time; a change made here, at once.
"""

from cachetools import TTLCache

from outrider.domain.ids import Scope
from outrider.domain.screen_policies import ScreenPolicies
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import rules, screening
from outrider.ports.store import Transaction


class PolicyKeeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        # A monotonic clock, so that cache entries always expire.
        self._remembered: TTLCache[Scope, ScreenPolicies] = TTLCache(
            foundation.limits.policies_remembered,
            foundation.limits.policy_remember_seconds,
            foundation.clock.monotonic,
        )

    async def get(self, scope: Scope) -> ScreenPolicies:
        """As stored now; without any policies nothing is held back."""
        policies = await self._store.read(screening.policies_of(scope))
        self._remembered[scope] = policies
        return policies

    async def lately(self, scope: Scope) -> ScreenPolicies:
        """At most about a second old, for frequent callers."""
        known = self._remembered.get(scope)
        return await self.get(scope) if known is None else known

    async def put(self, scope: Scope, policies: ScreenPolicies, actor: str) -> None:
        await self._store.write(self.replacing(scope, policies, actor))
        self._remembered[scope] = policies

    def replacing(self, scope: Scope, policies: ScreenPolicies, actor: str) -> Transaction[None]:
        """The script, for callers that do more in the same transaction."""
        return rules.replace_policies(scope, policies, actor, self._ids, self._clock.now())
