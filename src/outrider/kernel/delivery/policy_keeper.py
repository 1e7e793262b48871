"""The policy keeper: what a workspace's messages wait for, remembered for a second or so.

Another process's change is therefore heard of within that time; a change made here, at once.
"""

from cachetools import TTLCache

from outrider.domain.ids import Scope
from outrider.domain.screen_policies import ScreenPolicies
from outrider.kernel.transactions import rules, screening
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction


class PolicyKeeper:
    def __init__(self, store: Store, clock: Clock, ids: IdSource, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        # By a clock that nobody puts back: what is remembered does not grow younger.
        self._remembered: TTLCache[Scope, ScreenPolicies] = TTLCache(
            limits.policies_remembered, limits.policy_remember_seconds, clock.monotonic
        )

    async def get(self, scope: Scope) -> ScreenPolicies:
        """As they are stored now; where nothing was ever set, nothing is held back."""
        policies = await self._store.read(screening.policies_of(scope))
        self._remembered[scope] = policies
        return policies

    async def lately(self, scope: Scope) -> ScreenPolicies:
        """As they were at most a second or so ago, for those who ask all the time."""
        known = self._remembered.get(scope)
        return await self.get(scope) if known is None else known

    async def put(self, scope: Scope, policies: ScreenPolicies, actor: str) -> None:
        await self._store.write(self.replacing(scope, policies, actor))
        self._remembered[scope] = policies

    def replacing(self, scope: Scope, policies: ScreenPolicies, actor: str) -> Transaction[None]:
        """The script, for whoever has more to do in the same transaction."""
        return rules.replace_policies(scope, policies, actor, self._ids, self._clock.now())
