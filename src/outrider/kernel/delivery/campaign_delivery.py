"""Delivery: one job of a campaign through the named stages, window by window.

claim → load → screen → render → reserve → open → call → close → settle

The dispatcher claims, the drafter screens and renders, the reserver reserves and opens, the caller
calls and closes. A window is as many items as may be in flight at once, so a crash leaves few in
doubt. Each stage is one statement a window, or none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog
from cachetools import LRUCache

from outrider.domain.campaigns import Asset
from outrider.domain.errors import OutriderError
from outrider.domain.ids import OutboxId, WorkerId
from outrider.domain.jobs import CANCELLED, JOB_DEAD, Completed, Parked, Settlement
from outrider.domain.recipients import address_kind
from outrider.domain.states import ItemStatus
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.call_sources import Listed
from outrider.kernel.delivery.drafted_members import DraftedMembers
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import (
    GatewayRoutes,
    Route,
    WorkspaceRoutes,
    history_of,
)
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.reservations import OpenAttempt, Reserver
from outrider.kernel.delivery.window_outcomes import (
    Deferred,
    Done,
    Lost,
    Suspended,
    WindowOutcome,
    earliest,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.transactions import campaigns, jobs, ledger, lost_jobs
from outrider.kernel.transactions.claims import Claim, ClaimedJob
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext, LedgerRow, Member
from outrider.kernel.transactions.reserving import Draft
from outrider.kernel.transactions.screening import Ending, HeldBack, hold_back
from outrider.kernel.transactions.settlement import LeaseLost, settle_job
from outrider.limits.campaigns import DRAFT_WINDOW_ITEMS
from outrider.ports.stages import Stage, StageObserver, observed

log = structlog.get_logger()

ASSETS_REMEMBERED_MAX = 1_000

Again = tuple[LedgerRow, Member]


@dataclass(frozen=True, slots=True)
class Work:
    """A job's members by what is left to do for them: never called yet, or due for another call; or
    they wait for one, and the run before has turned out to have been accepted."""

    fresh: list[Member]
    again: list[Again]
    accepted_late: list[OutboxId] = field(default_factory=list)


class Delivery:
    def __init__(
        self,
        foundation: Foundation,
        budgeted: BudgetedStore,
        routes: GatewayRoutes,
        contract_cache: ContractCache,
        drafter: ItemDrafter,
        reserver: Reserver,
        caller: GatewayCaller,
        worker_id: WorkerId,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._budgeted = budgeted
        self._routes = routes
        self._contract_cache = contract_cache
        self._drafter = drafter
        self._reserver = reserver
        self._caller = caller
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._observer = observer
        self._lease = timedelta(seconds=foundation.limits.lease_seconds)
        self._assets: LRUCache[str, Asset] = LRUCache(ASSETS_REMEMBERED_MAX)

    async def deliver(
        self, job: ClaimedJob, tell_start: Callable[[], Awaitable[None]]
    ) -> WindowOutcome:
        """Do all that is due of this job. Who is in it is read while the log is told of its start;
        nobody is called before that."""
        contract = await self._contract_cache.by_id(job.contract_id)
        context = JobContext(job, await self._asset(job), contract)
        work, _ = await asyncio.gather(self._load(context), tell_start())
        if not await self._ended_late(context, work):
            return Lost()
        # A job that was stopped needs no gateway. One whose workers died, however many, is not
        # given up: nobody fails because of that, and it rests between its attempts.
        if job.cancelled:
            return Done() if await self._buried(context, work, CANCELLED) else Lost()
        return await self._deliver(context, work)

    async def give_up(self, job: ClaimedJob, begun: Sequence[OutboxId] | None) -> bool:
        """End a job that can never get on; whoever it has not called is skipped, and part of what a
        retry sends. Whatever broke it off broke its calls off too, and those that had begun are in
        doubt. False: it is not ours any more."""
        await self._caller.durable(job)
        context = JobContext(
            job, await self._asset(job), await self._contract_cache.by_id(job.contract_id)
        )
        work = await self._load(context)
        if not await self._ended_late(context, work):
            return False
        if not await self._buried(context, work, JOB_DEAD, broken_off=True, begun=begun):
            return False
        script = settle_job(job, self._worker_id, self._ids, self._clock.now(), given_up=True)
        return not isinstance(await self._budgeted.write(script), LeaseLost)

    async def settle(self, job: ClaimedJob, passage: WindowOutcome) -> Settlement | LeaseLost:
        """End the job or give it back; all calls of it have ended."""
        match passage:
            case Lost():
                return LeaseLost()
            case Deferred(until):
                return await self._release(job, until)
            case Suspended():
                return await self._release(job, self._clock.now())
            case Done():
                with observed(self._observer, Stage.SETTLE):
                    settled = await self._budgeted.write(
                        settle_job(job, self._worker_id, self._ids, self._clock.now())
                    )
                if job.is_exhausted and isinstance(settled, Completed | Parked):
                    now = self._clock.now()
                    await self._store.write(lost_jobs.tell_of_progress(job.run_id, now))
                return settled
            case other:
                assert_never(other)

    async def durable(self, job: Claim) -> None:
        """Wait until all that was said of the job's calls is committed."""
        await self._caller.durable(job)

    async def _release(self, job: ClaimedJob, until: datetime) -> Parked | LeaseLost:
        ours = await self._store.write(jobs.release(job, until, self._clock.now()))
        return Parked(until) if ours else LeaseLost()

    async def _deliver(self, context: JobContext, work: Work) -> WindowOutcome:
        """Every route gets its turn: one that takes no more does not hold up the others."""
        passage = await self._call_all(context, work)
        await self._caller.durable(context.job)
        return passage

    async def _call_all(self, context: JobContext, work: Work) -> WindowOutcome:
        job, routes = context.job, await self._routes.of(context.job.scope)
        problem = routes.problem(context.contract)
        if problem is not None:
            # No attempt of the job mends a set-up: the job waits, and so does everybody in it.
            own_door = routes.is_scoped(context.contract)
            return Deferred(
                await self._caller.hold(job, context.contract, problem, own_door=own_door)
            )
        own = routes.own(context.contract)
        deferred = None
        for route, again in await self._routed(context, routes, work.again):

            async def open_again(
                window: Sequence[Again], route: Route = route
            ) -> list[OpenAttempt] | Hold:
                return await self._open_again(context, route, window)

            passage = await self._caller.deliver(job, route, Listed(again), open_again)
            if isinstance(passage, Lost | Suspended):
                return passage
            deferred = earliest(deferred, passage)

        fresh = DraftedMembers(
            work.fresh, DRAFT_WINDOW_ITEMS, partial(self._drafter.draft, context)
        )
        passage = await self._caller.deliver(job, own, fresh, partial(self._reserve, context))
        if isinstance(passage, Lost | Suspended):
            return passage
        return earliest(deferred, passage) or Done()

    async def _buried(
        self,
        context: JobContext,
        work: Work,
        reason: str,
        *,
        broken_off: bool = False,
        begun: Sequence[OutboxId] | None = None,
    ) -> bool:
        """Record what is left, and call nobody: the job was stopped, or given up. False: it is not
        ours any more."""
        drafts = self._drafter.give_up(context, work.fresh, ItemStatus.SKIPPED, reason)
        if drafts and await self._reserve(context, drafts) is Hold.LOST:
            return False
        now = self._clock.now()
        script = ledger.bury(
            context.job, reason, now + self._lease, now, broken_off=broken_off, begun=begun
        )
        return await self._store.write(script)

    # load

    async def _load(self, context: JobContext) -> Work:
        """Who is in the job's range, less what an earlier claim of it already dealt with."""
        with observed(self._observer, Stage.LOAD):
            job = context.job
            kind = address_kind(context.asset.message.channel)
            members = await self._store.read(ledger.members(context, kind))
            if not job.was_held_before:
                return Work(members, [])
            rows = await self._store.read(ledger.job_rows(job))
            now = self._clock.now()
            known = {row.recipient_id: row for row in rows}
            fresh = [member for member in members if member.recipient_id not in known]
            again, accepted_late = [], []
            for member in members:
                row = known.get(member.recipient_id)
                if row is None or row.status != ItemStatus.QUEUED or row.is_doubted:
                    continue
                if member.accepted_late:
                    accepted_late.append(row.id)
                elif row.is_open or row.next_attempt_at is None or row.next_attempt_at <= now:
                    again.append((row, member))
            return Work(fresh, again, accepted_late)

    async def _ended_late(self, context: JobContext, work: Work) -> bool:
        """Nobody is called whom the run before reached after all. False: the job is not ours."""
        if not work.accepted_late:
            return True
        now = self._clock.now()
        return await self._store.write(
            ledger.skip_accepted_late(context.job, work.accepted_late, now + self._lease, now)
        )

    async def _routed(
        self, context: JobContext, routes: WorkspaceRoutes, again: Sequence[Again]
    ) -> list[tuple[Route, list[Again]]]:
        """Items to call again by the route they take; those with none are put in doubt."""
        job, now = context.job, self._clock.now()
        routed, unsafe = await routes.sorted_by_route(
            [
                # It keeps the contract it has, also where its job was moved to another URL since.
                (
                    (row, member),
                    await self._contract_cache.by_id(row.contract_id),
                    job.fallback_contract_id,
                    history_of(row),
                )
                for row, member in again
            ],
            now,
        )
        if unsafe:
            await self._store.write(ledger.doubt(job, [row.id for row, _ in unsafe], now))
            log.warning("items_in_doubt", job_id=job.id, items=len(unsafe), why="worker_lost")
        return routed

    # reserve and open

    async def _reserve(
        self, context: JobContext, drafts: Sequence[Draft]
    ) -> list[OpenAttempt] | Hold:
        """One statement reserves and opens the window; what it returns may be called."""
        self._observer.before(Stage.RESERVE)
        opened = await self._reserver.reserve(context, drafts)
        self._observer.after(Stage.OPEN)
        return opened

    async def _open_again(
        self, context: JobContext, route: Route, again: Sequence[Again]
    ) -> list[OpenAttempt] | Hold:
        drafts = await self._drafter.draft(context, [member for _, member in again])
        drafted = [(row, draft) for (row, _), draft in zip(again, drafts, strict=True)]
        undrafted = [each for each in drafted if each[1].status is not ItemStatus.QUEUED]
        if undrafted:
            held = await self._end_undrafted(context, undrafted)
            if held is not Hold.OURS:
                return held
        by_row = {
            row.id: (draft, context.contract)
            for row, draft in drafted
            if draft.status is ItemStatus.QUEUED
        }
        if not by_row:
            return []
        self._observer.before(Stage.OPEN)
        abandoned = any(row.is_open for row, _ in again)
        opened = await self._reserver.reopen(context.job, route, by_row, abandoned=abandoned)
        self._observer.after(Stage.OPEN)
        return opened

    async def _end_undrafted(
        self, context: JobContext, undrafted: Sequence[tuple[LedgerRow, Draft]]
    ) -> Hold:
        """A step that began anew has rows that nobody screened before: each ends with its own
        reason, and costs the others nothing."""
        unrendered = [draft for row, draft in undrafted if row.attempts]
        if unrendered:
            # The same asset and attributes rendered before; now they do not: try the job later.
            raise OutriderError(f"{len(unrendered)} items no longer render: {unrendered[0].error}")
        held_back = HeldBack([], [], [])
        for row, draft in undrafted:
            ends = held_back.skipped if draft.status is ItemStatus.SKIPPED else held_back.failed
            ends.append(Ending(row.id, draft.reason or "", draft.error))
        now = self._clock.now()
        return await self._store.write(hold_back(context.job, held_back, now + self._lease, now))

    async def _asset(self, job: ClaimedJob) -> Asset:
        """Assets are immutable, so what was read once stays true."""
        known = self._assets.get(job.asset_id)
        if known is None:
            known = await self._store.read(campaigns.asset(job.asset_id))
            self._assets[job.asset_id] = known
        return known
