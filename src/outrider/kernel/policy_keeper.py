"""The policy keeper: what a workspace's messages wait for, remembered for a second or so.

Another process's change is therefore heard of within that time; a change made here, at once.
"""

from collections import OrderedDict
from datetime import datetime, timedelta

from outrider.domain.ids import Scope
from outrider.domain.screen_policies import ScreenPolicies
from outrider.kernel.transactions import rules, screening
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction
from outrider.settings import Limits


class PolicyKeeper:
    def __init__(self, store: Store, clock: Clock, ids: IdSource, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._remembered: OrderedDict[Scope, tuple[datetime, ScreenPolicies]] = OrderedDict()

    async def get(self, scope: Scope) -> ScreenPolicies:
        """As they are stored now; where nothing was ever set, nothing is held back."""
        policies = await self._store.read(screening.policies_of(scope))
        self._remember(scope, policies)
        return policies

    async def lately(self, scope: Scope) -> ScreenPolicies:
        """As they were at most a second or so ago, for those who ask all the time."""
        known = self._remembered.get(scope)
        if known is not None:
            age = self._clock.now() - known[0]
            # A clock that was put back makes what is remembered younger than new; it is not.
            if timedelta(0) <= age < timedelta(seconds=self._limits.policy_remember_seconds):
                return known[1]
        return await self.get(scope)

    async def put(self, scope: Scope, policies: ScreenPolicies, actor: str) -> None:
        await self._store.write(self.replacing(scope, policies, actor))
        self._remember(scope, policies)

    def replacing(self, scope: Scope, policies: ScreenPolicies, actor: str) -> Transaction[None]:
        """The script, for whoever has more to do in the same transaction."""
        now = self._clock.now()
        document = policies.as_document()
        # With the rules: who agreed to a diff of both is not to overwrite what came meanwhile.
        yield from rules.lock(scope)
        yield from screening.set_policies(scope, policies, now)
        entry = AuditEntry(scope, "workflow_policy.replaced", actor, detail=document)
        yield from record([entry], self._ids, now)

    def _remember(self, scope: Scope, policies: ScreenPolicies) -> None:
        self._remembered[scope] = self._clock.now(), policies
        self._remembered.move_to_end(scope)
        while len(self._remembered) > self._limits.policies_remembered:
            self._remembered.popitem(last=False)
