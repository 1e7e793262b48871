"""The doubt resolver: evidence comes in, items leave doubt. Nothing is ever resent on a guess.

Evidence is a person's statement, a gateway's lookup, or a provider's complete record of what it
received; every verdict is written to the audit log with its evidence.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.domain.errors import Conflict, WorkerMayLive
from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import IdempotencyKey, OutboxId, Scope
from outrider.domain.times import rfc3339
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.gateway_routes import remembers
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import doubt_lists, doubts, paging
from outrider.kernel.transactions.doubt_lists import ALL_DOUBTS, DoubtFilter
from outrider.kernel.transactions.doubts import Basis, Doubt, DoubtVerdict
from outrider.ports.gateway import Gateway, GatewayDirectory
from outrider.ports.presence import PresenceOf, unseen


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of looking for evidence."""

    sent: int = 0
    resubmitted: int = 0
    failed: int = 0
    asked_again: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class DoubtsOf:
    """Selects a workspace's doubts: the given items, or those that match the filter."""

    matching: DoubtFilter = ALL_DOUBTS
    outbox_ids: Sequence[OutboxId] | None = None


class DoubtResolver:
    def __init__(
        self, foundation: Foundation, gateways: GatewayDirectory, presence_of: PresenceOf = unseen
    ) -> None:
        self._store = foundation.store
        self._gateways = gateways
        self._contract_cache = ContractCache(foundation.store)
        self._names = WorkspaceNames(foundation.store, foundation.limits)
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._living = LivingCallers(foundation, presence_of)

    async def doubts(
        self, scope: Scope, run_id: str | None = None, campaign_id: str | None = None
    ) -> AsyncIterator[Doubt]:
        after, most = paging.FIRST, self._limits.reconcile_items
        while True:
            page = await self._store.read(
                doubts.doubts_page(scope, run_id, after, most, campaign_id)
            )
            for doubt in page:
                yield doubt
            if len(page) < most:
                return
            after = page[-1].id

    async def count(self, scope: Scope, of: DoubtsOf) -> int:
        """How many match now; counting stops at the number that can be settled at once."""
        if of.outbox_ids is not None:
            return len(await self._store.read(doubts.doubts_among(scope, of.outbox_ids)))
        most = self._limits.resolved_at_once + 1
        return (await self._store.read(doubt_lists.counts(scope, of.matching, most))).total

    async def resolve_all(
        self,
        scope: Scope,
        of: DoubtsOf,
        verdict: DoubtVerdict,
        evidence: str,
        actor: str,
        *,
        force: bool = False,
    ) -> int:
        """Settle the matching doubts, up to a limit; returns how many. WorkerMayLive: it is too
        early to conclude that some of them never arrived, and nothing was settled."""
        most = self._limits.resolved_at_once
        if of.outbox_ids is not None:
            meant = (await self._store.read(doubts.doubts_among(scope, of.outbox_ids)))[:most]
        else:
            found = await self._store.read(doubt_lists.page(scope, of.matching, paging.FIRST, most))
            meant = [doubt.id for doubt in found]
        if not force:
            await self._wait_for_the_living(scope, meant, verdict)
        resolved = await self._resolve(scope, meant, verdict, evidence, actor)
        if meant and not resolved and verdict is DoubtVerdict.RESUBMIT:
            await self._refuse_exhausted(scope, meant)
        return len(resolved)

    async def resolve(
        self,
        scope: Scope,
        outbox_id: OutboxId,
        verdict: DoubtVerdict,
        evidence: str,
        actor: str,
        *,
        force: bool = False,
    ) -> None:
        """WorkerMayLive: it is too early to conclude that it never arrived."""
        if not force:
            await self._wait_for_the_living(scope, [outbox_id], verdict)
        resolved = await self._resolve(scope, [outbox_id], verdict, evidence, actor)
        if not resolved:
            if verdict is DoubtVerdict.RESUBMIT:
                await self._refuse_exhausted(scope, [outbox_id])
            raise Conflict(
                f"item {outbox_id} is not in doubt",
                hint="`outrider doubts list` shows the items in doubt",
            )

    async def _wait_for_the_living(
        self, scope: Scope, outbox_ids: list[OutboxId], verdict: DoubtVerdict
    ) -> None:
        if verdict is DoubtVerdict.SENT:
            # Nothing that its worker may still do makes this verdict less true.
            return
        called = await self.called_by_the_living(scope, outbox_ids)
        if called:
            ends = list(called.values())
            known = [end for end in ends if end is not None]
            raise WorkerMayLive(
                len(called), rfc3339(max(known)) if len(known) == len(ends) else None
            )

    async def called_by_the_living(
        self, scope: Scope, outbox_ids: list[OutboxId]
    ) -> dict[OutboxId, datetime | None]:
        """Those that a worker may still be calling, and until when."""
        return await self._living.of(scope, outbox_ids)

    async def reconcile(
        self,
        scope: Scope,
        *,
        run_id: str | None,
        received: Collection[IdempotencyKey] | None,
        absent: DoubtVerdict | None,
        evidence: str,
        actor: str,
        submission_target: str | None = None,
        wait_for_workers: bool = False,
    ) -> Reconciliation:
        """Settle what evidence can settle.

        `received` is the complete set of references a provider says it has. Without it, targets
        that remember references are called again under the same reference; looking up is left to
        the doubt settler. `absent` is the verdict on what is provably not there; without it such
        items stay in doubt. Exhausted items are not called again: resubmitting one marks it as
        failed, and sending it after all takes a retry of the phase or a new submission.
        `submission_target` is the target whose record the evidence is: only attempts made there are
        judged. Without it, it is the record of all providers. With `wait_for_workers`, absent items
        that were called by a worker that may be alive stay in doubt.
        """
        counts = dict.fromkeys(DoubtVerdict, 0)
        asked_again = left = 0
        # Collected first, because resolving while paging would shift the pages.
        found = [doubt async for doubt in self.doubts(scope, run_id)]
        for contract_id in {doubt.contract_id for doubt in found}:
            group = [doubt for doubt in found if doubt.contract_id == contract_id]
            contract = await self._contract_cache.by_id(contract_id)
            if submission_target not in (None, contract.submission_target):
                left += len(group)
                continue
            if received is None:
                known_again = await self._ask_again(scope, contract_id, group, actor)
                asked_again += len(known_again)
                group = [doubt for doubt in group if doubt.id not in known_again]
            known = (
                {}
                if received is None
                else {doubt.reference: doubt.reference in received for doubt in group}
            )
            verdicts: dict[DoubtVerdict, list[OutboxId]] = {}
            for doubt in group:
                arrived = known.get(doubt.reference)
                verdict = DoubtVerdict.SENT if arrived else absent if arrived is False else None
                if verdict is DoubtVerdict.RESUBMIT and doubt.is_exhausted:
                    verdict = DoubtVerdict.FAILED
                if verdict is None:
                    left += 1
                else:
                    verdicts.setdefault(verdict, []).append(doubt.id)
            for verdict, judged in verdicts.items():
                outbox_ids = judged
                if wait_for_workers and verdict is not DoubtVerdict.SENT:
                    # Absent now does not rule out that its worker, if alive, still sends it.
                    living = await self.called_by_the_living(scope, judged)
                    outbox_ids = [each for each in judged if each not in living]
                    left += len(living)
                basis = Basis(EvidenceKind.RECORD, contract.submission_target)
                resolved = await self._resolve(scope, outbox_ids, verdict, evidence, actor, basis)
                counts[verdict] += len(resolved)
        return Reconciliation(
            counts[DoubtVerdict.SENT],
            counts[DoubtVerdict.RESUBMIT],
            counts[DoubtVerdict.FAILED],
            asked_again,
            left,
        )

    async def _ask_again(
        self, scope: Scope, contract_id: int, group: list[Doubt], actor: str
    ) -> set[OutboxId]:
        """If the target remembers references, and still does, the same reference settles it."""
        gateway, now = await self._gateway(scope, contract_id), self._clock.now()
        safe = [doubt.id for doubt in group if remembers(gateway, doubt.submitted_at, now)]
        asked: set[OutboxId] = set()
        for start in range(0, len(safe), self._limits.reconcile_items):
            window = safe[start : start + self._limits.reconcile_items]
            asked.update(
                await self._store.write(doubts.ask_again(scope, window, actor, self._ids, now))
            )
        return asked

    async def _gateway(self, scope: Scope, contract_id: int) -> Gateway:
        contract = await self._contract_cache.by_id(contract_id)
        workspace = await self._names.of(scope)
        return self._gateways.gateway(
            contract.submission_target, contract.gateway_type, contract.gateway_url, workspace
        )

    async def _refuse_exhausted(self, scope: Scope, outbox_ids: list[OutboxId]) -> None:
        """Nothing was settled although these are in doubt: they are exhausted, which is final."""
        left = await self._store.read(doubts.doubts_among(scope, outbox_ids))
        if left:
            which = f"item {left[0]} is" if len(left) == 1 else f"{len(left):,} items are"
            raise Conflict(
                f"{which} exhausted, so no further attempt is made",
                hint="the verdicts sent and failed settle it; to send it after all, say failed and"
                " then retry the phase, or run `outrider intent resubmit`",
            )

    async def _resolve(
        self,
        scope: Scope,
        outbox_ids: list[OutboxId],
        verdict: DoubtVerdict,
        evidence: str,
        actor: str,
        basis: Basis | None = None,
    ) -> list[OutboxId]:
        resolved = []
        for start in range(0, len(outbox_ids), self._limits.reconcile_items):
            window = outbox_ids[start : start + self._limits.reconcile_items]
            resolved += await self._store.write(
                doubts.resolve(
                    scope, window, verdict, evidence, actor, self._ids, self._clock.now(), basis
                )
            )
        return resolved
