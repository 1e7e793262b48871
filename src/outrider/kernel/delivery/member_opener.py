"""The member opener: drafts the members of a job and opens their attempts, window by window.

What it returns may be called. A member that cannot be drafted ends here, with its reason.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from outrider.domain.batches import windows
from outrider.domain.errors import OutriderError
from outrider.domain.states import ItemStatus
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.member_screens import MemberScreen, MemberScreens
from outrider.kernel.delivery.remaining_members import Again
from outrider.kernel.delivery.reservations import OpenAttempt, Reserver
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import reserving
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext, LedgerRow, Member
from outrider.kernel.transactions.reserving import Capped, Draft
from outrider.kernel.transactions.screening import Ending, HeldBack, hold_back
from outrider.limits.campaigns import DRAFT_WINDOW_ITEMS
from outrider.ports.stages import Stage, StageObserver


class MemberOpener:
    def __init__(
        self,
        foundation: Foundation,
        screens: MemberScreens,
        drafter: ItemDrafter,
        reserver: Reserver,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._screens = screens
        self._drafter = drafter
        self._reserver = reserver
        self._observer = observer
        self._lease = timedelta(seconds=foundation.limits.lease_seconds)

    async def distrust(self, context: JobContext, members: Sequence[Member]) -> Hold:
        """The database was restored: whoever is not in its ledger may have been sent to."""
        held = Hold.OURS
        for window in windows(members, DRAFT_WINDOW_ITEMS):
            drafts = await self._drafter.draft(context, window)
            now = self._clock.now()
            held = await self._store.write(
                reserving.reserve_distrusted(context, drafts, now + self._lease, now)
            )
            if held is not Hold.OURS:
                break
        return held

    async def reserve(
        self,
        context: JobContext,
        route: Route | None,
        drafts: Sequence[Draft],
        screen: MemberScreen | None = None,
    ) -> list[OpenAttempt] | Hold:
        """One statement reserves and opens the window; what it returns may be called."""
        if route is not None and route.contract_id is not None:
            context = replace(context, attempt_contract_id=route.contract_id)
        self._observer.before(Stage.RESERVE)
        capped = warming = None
        if screen is not None:
            drafts = screen.still_passing(drafts)
            if not drafts:
                return []
            if screen.cap is not None:
                capped = Capped(screen.cap, screen.is_exempt, screen.beyond_cap)
            warming = await self._screens.warming(context, screen, drafts)
        opened = await self._reserver.reserve(context, drafts, capped, warming)
        self._observer.after(Stage.OPEN)
        return opened

    async def open_again(
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
        """A restarted step has rows that were never screened: each ends with its own reason and
        does not affect the others."""
        unrendered = [draft for row, draft in undrafted if row.attempts]
        if unrendered:
            # The same asset and attributes rendered before but no longer do: try the job later.
            raise OutriderError(f"{len(unrendered)} items no longer render: {unrendered[0].error}")
        held_back = HeldBack([], [], [])
        for row, draft in undrafted:
            ends = held_back.skipped if draft.status is ItemStatus.SKIPPED else held_back.failed
            ends.append(Ending(row.id, draft.reason or "", draft.error))
        now = self._clock.now()
        return await self._store.write(hold_back(context.job, held_back, now + self._lease, now))
