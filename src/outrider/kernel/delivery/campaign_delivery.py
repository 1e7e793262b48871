"""Campaign delivery: takes one job through the named stages, window by window.

claim → load → screen → render → reserve → open → call → close → settle

Each stage is at most one statement per window; a window is as many items as may be in flight.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog
from cachetools import LRUCache

from outrider.domain.campaigns import Asset
from outrider.domain.ids import OutboxId, WorkerId
from outrider.domain.jobs import CANCELLED, JOB_DEAD, Completed, Parked, Settlement
from outrider.domain.recipients import address_kind
from outrider.domain.states import ItemStatus
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.drafted_members import DraftedMembers
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import (
    GatewayRoutes,
    Route,
    WorkspaceRoutes,
    history_of,
)
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.member_calls import MemberCalls
from outrider.kernel.delivery.member_opener import MemberOpener
from outrider.kernel.delivery.member_screens import MemberScreen, MemberScreens
from outrider.kernel.delivery.remaining_members import (
    Again,
    RemainingMembers,
    remaining,
    resolves_silence,
)
from outrider.kernel.delivery.reservations import OpenAttempt
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
from outrider.kernel.transactions import (
    campaigns,
    jobs,
    ledger,
    lost_jobs,
    policy_holds,
)
from outrider.kernel.transactions.claims import Claim, ClaimedJob
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.transactions.settlement import LeaseLost, settle_job
from outrider.limits.campaigns import DRAFT_WINDOW_ITEMS
from outrider.limits.delivery import ASSETS_REMEMBERED_MAX
from outrider.ports.stages import Stage, StageObserver, observed

log = structlog.get_logger()


class CampaignDelivery:
    def __init__(
        self,
        foundation: Foundation,
        budgeted: BudgetedStore,
        routes: GatewayRoutes,
        contract_cache: ContractCache,
        screens: MemberScreens,
        drafter: ItemDrafter,
        opener: MemberOpener,
        caller: GatewayCaller,
        member_calls: MemberCalls,
        worker_id: WorkerId,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._budgeted = budgeted
        self._routes = routes
        self._contract_cache = contract_cache
        self._screens = screens
        self._drafter = drafter
        self._opener = opener
        self._caller = caller
        self._member_calls = member_calls
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._observer = observer
        self._lease = timedelta(seconds=foundation.limits.lease_seconds)
        self._soon = timedelta(seconds=foundation.limits.idle_poll_seconds)
        self._assets: LRUCache[str, Asset] = LRUCache(ASSETS_REMEMBERED_MAX)

    async def deliver(
        self, job: ClaimedJob, log_start: Callable[[], Awaitable[None]]
    ) -> WindowOutcome:
        """Deliver everything in this job that is due. Its members are read while its start is being
        logged; no call is made before that is done."""
        contract = await self._contract_cache.by_id(job.contract_id)
        context = JobContext(job, await self._asset(job), contract)
        work, _ = await asyncio.gather(self._load(context), log_start())
        if job.distrusted and work.fresh:
            held = await self._opener.distrust(context, work.fresh)
            if held is not Hold.OURS:
                return Lost() if held is Hold.LOST else Suspended()
            work = await self._load(context)
        if not await self._ended_late(context, work):
            return Lost()
        # A stopped job needs no gateway. A job whose workers died is never given up, however often
        # that happened: no item fails because of it, and the job waits between its attempts.
        if job.cancelled:
            return Done() if await self._buried(context, work, CANCELLED) else Lost()
        return await self._deliver(context, work)

    async def give_up(self, job: ClaimedJob, begun: Sequence[OutboxId] | None) -> bool:
        """End a job that cannot make progress. Members that were not called are skipped, and
        included in a retry; calls that had begun are in doubt. False: the job is no longer ours."""
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

    async def settle(self, job: ClaimedJob, outcome: WindowOutcome) -> Settlement | LeaseLost:
        """End the job or give it back; all its calls have ended."""
        match outcome:
            case Lost():
                return LeaseLost()
            case Deferred(until, holds):
                return await self._release(job, until, holds)
            case Suspended():
                return await self._release(job, self._clock.now())
            case Done():
                with observed(self._observer, Stage.SETTLE):
                    settled = await self._budgeted.write(
                        settle_job(job, self._worker_id, self._ids, self._clock.now())
                    )
                if job.is_exhausted and isinstance(settled, Completed | Parked):
                    now = self._clock.now()
                    await self._store.write(lost_jobs.resolve_rest_alert(job.run_id, now))
                return settled
            case other:
                assert_never(other)

    async def durable(self, job: Claim) -> None:
        """Wait until the results of all the job's calls are committed."""
        await self._caller.durable(job)

    async def _release(
        self, job: ClaimedJob, until: datetime, waiting: Mapping[str, int] | None = None
    ) -> Parked | LeaseLost:
        now = self._clock.now()
        release = (
            jobs.release(job, until, now)
            if waiting is None
            else policy_holds.release(job, until, waiting, now)
        )
        ours = await self._store.write(release)
        return Parked(until) if ours else LeaseLost()

    async def _deliver(self, context: JobContext, work: RemainingMembers) -> WindowOutcome:
        """Every route gets its turn: one that is closed does not hold up the others."""
        outcome = await self._call_all(context, work)
        await self._caller.durable(context.job)
        return outcome

    async def _call_all(self, context: JobContext, work: RemainingMembers) -> WindowOutcome:
        job, routes = context.job, await self._routes.of(context.job.scope)
        problem = routes.problem(context.contract)
        if problem is not None:
            # Retrying does not fix a configuration error: the job waits, with all its members.
            own_door = routes.is_scoped(context.contract)
            return Deferred(
                await self._caller.hold(job, context.contract, problem, own_door=own_door)
            )
        screen = await self._screens.of(context)
        if screen is None:
            return await self._call_routes(context, routes, work, None)
        again = [each for each in work.again if resolves_silence(each[0])]
        passing = {
            member.recipient_id
            for member in screen.passing(
                [member for row, member in work.again if not resolves_silence(row)]
            )
        }
        again += [each for each in work.again if each[1].recipient_id in passing]
        going = RemainingMembers(screen.passing_first(work.fresh), again)
        # Before the calls, so that a crash leaves none unrecorded; after them, for hours that have
        # ended meanwhile.
        await self._screens.record_exemptions(context, screen)
        outcome = await self._call_routes(context, routes, going, screen)
        await self._screens.record_exemptions(context, screen)
        if isinstance(outcome, Lost | Suspended):
            return outcome
        holds = screen.holds
        if holds is None:
            return outcome
        first = earliest(Deferred(holds.until), outcome)
        assert first is not None
        return Deferred(first.until, holds.waiting)

    async def _call_routes(
        self,
        context: JobContext,
        routes: WorkspaceRoutes,
        work: RemainingMembers,
        screen: MemberScreen | None,
    ) -> WindowOutcome:
        job, own = context.job, routes.own(context.contract)
        deferred = None
        for its_route, again in await self._routed(context, routes, work.again):

            async def open_again(
                window: Sequence[Again], route: Route = its_route
            ) -> list[OpenAttempt] | Hold:
                return await self._opener.open_again(context, route, window)

            outcome = await self._member_calls.again(job, its_route, again, open_again)
            if isinstance(outcome, Lost | Suspended):
                return outcome
            deferred = earliest(deferred, outcome)

        fresh = DraftedMembers(
            work.fresh, DRAFT_WINDOW_ITEMS, partial(self._drafter.draft, context)
        )
        route: Route | None = await self._first_route(context, routes)
        while route is not None:
            reserve = partial(self._opener.reserve, context, route, screen=screen)
            outcome = await self._member_calls.first(job, route, fresh, reserve, screen)
            if isinstance(outcome, Lost | Suspended):
                return outcome
            deferred = earliest(deferred, outcome)
            # It may have gone down just now: the fallback takes the rest, and soon what was opened.
            other = await self._first_route(context, routes)
            if deferred is not None and other != own:
                deferred = earliest(deferred, Deferred(self._clock.now() + self._soon))
            goes_on = isinstance(outcome, Deferred) and route == own != other
            route = other if goes_on else None
        return deferred or Done()

    async def _first_route(self, context: JobContext, routes: WorkspaceRoutes) -> Route:
        fallback = context.job.fallback_contract_id
        return await routes.first(context.contract, fallback, self._clock.now())

    async def _buried(
        self,
        context: JobContext,
        work: RemainingMembers,
        reason: str,
        *,
        broken_off: bool = False,
        begun: Sequence[OutboxId] | None = None,
    ) -> bool:
        """Record what is left without calling anyone: the job was stopped or given up. False: it is
        no longer ours."""
        drafts = self._drafter.give_up(context, work.fresh, ItemStatus.SKIPPED, reason)
        if drafts and await self._opener.reserve(context, None, drafts) is Hold.LOST:
            return False
        now = self._clock.now()
        script = ledger.bury(
            context.job, reason, now + self._lease, now, broken_off=broken_off, begun=begun
        )
        return await self._store.write(script)

    # load

    async def _load(self, context: JobContext) -> RemainingMembers:
        """The members in the job's range, without those that an earlier claim already handled."""
        with observed(self._observer, Stage.LOAD):
            job = context.job
            kind = address_kind(context.asset.message.channel)
            members = await self._store.read(ledger.members(context, kind))
            if not (job.was_held_before or job.distrusted):
                return RemainingMembers(members, [])
            rows = await self._store.read(ledger.job_rows(job))
            return remaining(members, rows, self._clock.now())

    async def _ended_late(self, context: JobContext, work: RemainingMembers) -> bool:
        """Skip members that the previous run reached after all. False: the job is no longer
        ours."""
        if not work.accepted_late:
            return True
        now = self._clock.now()
        return await self._store.write(
            ledger.skip_accepted_late(context.job, work.accepted_late, now + self._lease, now)
        )

    async def _routed(
        self, context: JobContext, routes: WorkspaceRoutes, again: Sequence[Again]
    ) -> list[tuple[Route, list[Again]]]:
        """Items to call again, by their route; those without a route are put in doubt."""
        job, now = context.job, self._clock.now()
        routed, unsafe = await routes.sorted_by_route(
            [
                # It keeps its contract, even if its job has been moved to another URL since.
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

    async def _asset(self, job: ClaimedJob) -> Asset:
        """Assets are immutable, so a cached one stays valid."""
        known = self._assets.get(job.asset_id)
        if known is None:
            known = await self._store.read(campaigns.asset(job.asset_id))
            self._assets[job.asset_id] = known
        return known
