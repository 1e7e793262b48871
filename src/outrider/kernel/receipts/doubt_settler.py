"""The doubt settler: a role of every worker that settles doubts by evidence, without a person.

A receipt settles at once, elsewhere. Here a call is repeated under a reference that its provider
remembers, or the provider is asked what it received; what neither can settle is left to people.
Doubts are held under a lease in the database, so another process continues if this one dies.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.evidence import (
    CheckSchedule,
    EvidenceKind,
    Finding,
    NextStep,
    Settles,
    TargetEvidence,
    next_step,
)
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.submission import Contract
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.found_messages import Asking
from outrider.kernel.receipts.look_up_asker import LookUpAsker, Unsettled
from outrider.kernel.transactions import doubt_checks, doubts
from outrider.kernel.transactions.doubt_checks import ClaimedDoubt, Looked, Recipe
from outrider.kernel.transactions.doubts import Basis
from outrider.ports.gateway import GatewayDirectory

log = structlog.get_logger()

ACTOR = "doubt settler"


@dataclass
class Holding:
    """The doubts that are being looked into here."""

    doubts: dict[OutboxId, ClaimedDoubt]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """While one is put back, no lease is extended: that would move its next check."""

    def forget(self, ended: Iterable[ClaimedDoubt]) -> None:
        for each in ended:
            self.doubts.pop(each.id, None)


class DoubtSettler:
    def __init__(
        self, foundation: Foundation, gateways: GatewayDirectory, names: WorkspaceNames,
        contract_cache: ContractCache, asker: LookUpAsker,
    ) -> None:  # fmt: skip
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = limits = foundation.limits
        self._gateways = gateways
        self._names = names
        self._contract_cache = contract_cache
        self._asker = asker
        self.schedule = CheckSchedule(
            limits.doubt_first_seconds, limits.doubt_factor, limits.doubt_cap_seconds,
            limits.doubt_worn_out_seconds, limits.doubt_eager_checks, limits.doubt_late_seconds,
        )  # fmt: skip
        self._noted: dict[Recipe, datetime] = {}

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                await self.note_recipes()
                if await self._store.read(doubt_checks.is_any_due(self._clock.now())):
                    while await self.settle():
                        pass
            except StoreUnavailable as error:
                log.warning("doubts_not_looked_into", error=error.message)
            await self._clock.sleep(self._limits.doubt_poll_seconds)

    async def settle(self) -> bool:
        """Check a window of due doubts, target by target; returns whether there may be more."""
        now, most = self._clock.now(), self._limits.doubt_window_items
        claimed = await self._store.write(doubt_checks.claim(most, self._lease_end(), now))
        groups = defaultdict[tuple[Scope, int], list[ClaimedDoubt]](list)
        for doubt in claimed:
            groups[doubt.scope, doubt.called_contract_id].append(doubt)
        held = Holding({each.id: each for each in claimed})
        keeper = asyncio.create_task(self._keep(held))
        turns = asyncio.Semaphore(self._limits.doubt_targets_in_parallel)
        try:
            ended = await asyncio.gather(
                *(self._settle_group(*key, group, held, turns) for key, group in groups.items()),
                return_exceptions=True,
            )
        finally:
            keeper.cancel()
        for failure in filter(None, ended):
            raise failure
        return len(claimed) == most

    async def _settle_group(
        self, scope: Scope, contract_id: int, group: Sequence[ClaimedDoubt], held: "Holding",
        turns: asyncio.Semaphore,
    ) -> None:  # fmt: skip
        async with turns:
            try:
                contract = await self._contract_cache.by_id(contract_id)
                looked = await self._look_into(scope, contract, group)
            except StoreUnavailable:
                raise
            except OutriderError as error:
                # The target cannot be used with its current set-up; its door says so, too.
                looked = [self._later(each, error.message) for each in group]
            except Exception as bug:
                # One target's must not hold up the others'.
                log.exception("doubts_not_settled", contract_id=contract_id)
                looked = [self._later(each, type(bug).__name__) for each in group]
            async with held.lock:
                await self._store.write(doubt_checks.put_back(looked))
                held.forget(group)

    async def _keep(self, held: "Holding") -> None:
        """Extend the lease while providers take their time; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.doubt_lease_seconds / 3)
            async with held.lock:
                try:
                    await self._store.write(
                        doubt_checks.keep(list(held.doubts.values()), self._lease_end())
                    )
                except StoreUnavailable as error:
                    log.warning("doubts_not_kept", error=error.message)

    def _lease_end(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._limits.doubt_lease_seconds)

    async def _look_into(
        self, scope: Scope, contract: Contract, group: Sequence[ClaimedDoubt]
    ) -> list[Looked]:
        """Settle what can be settled now; returns the others."""
        workspace, now = await self._names.of(scope), self._clock.now()
        named = contract.submission_target, contract.gateway_type, contract.gateway_url, workspace
        evidence = self._gateways.evidence(*named)
        changed_at = records_changed_at = None
        if evidence.needs_same_request:
            changed_at = await self._changed_at(contract, is_of_records=False)
        if evidence.look_up is not None:
            records_changed_at = await self._changed_at(contract, is_of_records=True)
        looked: list[Looked] = []
        by_key: list[ClaimedDoubt] = []
        by_look_up: list[ClaimedDoubt] = []
        for doubt in group:
            step = self._step(evidence, doubt, now, changed_at)
            is_due = step.next_check_at is not None and step.next_check_at <= now
            if is_due and step.settles is Settles.KEY:
                by_key.append(doubt)
            elif is_due and step.settles is Settles.LOOK_UP:
                by_look_up.append(doubt)
            else:
                looked.append(Looked(doubt, step))
        looked += await self._repeat(scope, contract, evidence, by_key)
        if by_look_up:
            assert evidence.look_up is not None
            gateway = self._gateways.gateway(*named)
            is_shared = self._gateways.shares_reports(contract.submission_target, workspace)
            asking = Asking(
                scope, contract, gateway, evidence, evidence.look_up, is_shared, records_changed_at
            )
            for each in await self._asker.ask(asking, by_look_up):
                checked = self._checked(each)
                step = self._step(evidence, checked, self._clock.now(), changed_at)
                if each.is_a_persons:
                    # It is still asked: what others settle meanwhile may make it clear.
                    step = NextStep(Settles.PERSON, now, step.next_check_at)
                if each.come_back_at is not None:
                    step = step._replace(next_check_at=each.come_back_at)
                looked.append(Looked(checked, step, each.finding, each.detail))
        return looked

    def _checked(self, each: Unsettled) -> ClaimedDoubt:
        """Who does not answer now may do so at any time, so it does not count towards being late;
        and who was not asked has not been checked."""
        if each.finding is None:
            return each.doubt
        checks = each.doubt.checks + 1
        if each.is_silence:
            checks = min(checks, self.schedule.eager_checks - 1)
        return each.doubt._replace(checks=checks, checked_at=self._clock.now())

    async def _repeat(
        self, scope: Scope, contract: Contract, evidence: TargetEvidence,
        by_key: Sequence[ClaimedDoubt],
    ) -> list[Looked]:  # fmt: skip
        """Have their jobs repeat the calls; returns those that are not repeated after all."""
        if not by_key:
            return []
        basis = Basis(
            EvidenceKind.KEY, contract.submission_target, {each.id: each.held for each in by_key}
        )
        now = self._clock.now()
        asked = set(
            await self._store.write(
                doubts.ask_again(scope, [each.id for each in by_key], ACTOR, self._ids, now, basis)
            )
        )
        if asked:
            log.info(
                "doubts_repeated", submission_target=contract.submission_target, items=len(asked)
            )
        left = [each for each in by_key if each.id not in asked]
        steps = [self._step(evidence, each._replace(has_ended=True), now, None) for each in left]
        return [Looked(each, step) for each, step in zip(left, steps, strict=True)]

    def _step(
        self, evidence: TargetEvidence, doubt: ClaimedDoubt, now: datetime,
        changed_at: datetime | None,
    ) -> NextStep:  # fmt: skip
        called_at = doubt.created_at
        is_same = changed_at is None or changed_at < called_at
        return next_step(evidence, doubt.facts(is_same_request=is_same), now, self.schedule)

    def _later(self, doubt: ClaimedDoubt, why: str) -> Looked:
        now = self._clock.now()
        wait = timedelta(seconds=self.schedule.wait_seconds(doubt.checks))
        step = NextStep(Settles.PERSON, doubt.doubted_at, now + wait)
        checked = doubt._replace(checks=doubt.checks + 1, checked_at=now)
        return Looked(checked, step, Finding.UNKNOWN, why)

    async def note_recipes(self) -> None:
        """Say which requests this process makes, as long as it may make them."""
        now = self._clock.now()
        lasts = timedelta(seconds=self._limits.recipe_seconds)
        recipes = [Recipe(*each) for each in self._gateways.recipes()]
        due = [each for each in recipes if each not in self._noted or now >= self._noted[each]]
        if due:
            await self._store.write(doubt_checks.note_recipes(due, now))
            self._noted |= dict.fromkeys(due, now + lasts)

    async def _changed_at(self, contract: Contract, *, is_of_records: bool) -> datetime | None:
        """Until when requests to this target may have been made in another way than here, or to
        another account than the one whose records are asked."""
        place = contract.submission_target, contract.gateway_url
        ours = {Recipe(*each) for each in self._gateways.recipes()}
        used = await self._store.read(doubt_checks.recipes_in_use())
        lasts = timedelta(seconds=2 * self._limits.recipe_seconds)
        others = [
            each.last_used_at + lasts
            for each in used
            if each.recipe[:2] == place
            and each.recipe.is_of_records is is_of_records
            and each.recipe not in ours
        ]
        return max(others, default=None)
