"""Member calls: what a campaign's job has for one route, shaped by recipient domain if its target
says so.

Members who wait for their domain are not even drafted: they keep no ledger row, and their job is
given back until the first of them may go. Items with a row wait in it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from outrider.domain.sending_hours import Wait
from outrider.kernel.delivery.call_sources import Listed
from outrider.kernel.delivery.domain_shaper import DomainShaper
from outrider.kernel.delivery.drafted_members import DraftedMembers
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.member_screens import MemberScreen
from outrider.kernel.delivery.remaining_members import Again, resolves_silence
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.kernel.delivery.route_calls import RouteCalls
from outrider.kernel.delivery.shaped_sources import Shaping
from outrider.kernel.delivery.window_outcomes import WindowOutcome
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import domain_doors
from outrider.kernel.transactions.claims import ClaimedJob
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import Member
from outrider.kernel.transactions.reserving import Draft

Opened = Awaitable[list[OpenAttempt] | Hold]


class MemberCalls:
    def __init__(self, foundation: Foundation, caller: GatewayCaller, shaper: DomainShaper) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._lease = timedelta(seconds=foundation.limits.lease_seconds)
        self._caller = caller
        self._shaper = shaper

    async def again(
        self,
        job: ClaimedJob,
        route: Route,
        again: Sequence[Again],
        open_window: Callable[[Sequence[Again]], Opened],
    ) -> WindowOutcome:
        """Those who have a ledger row."""

        async def set_aside(aside: Sequence[tuple[Again, Wait]]) -> None:
            waits = {row.id: wait for (row, _), wait in aside}
            now = self._clock.now()
            await self._store.write(domain_doors.set_aside(job, waits, now + self._lease, now))

        shaping = Shaping(_address, set_aside, _leave, comes_together=False, is_heavy=_is_heavy)
        return await self._shaper.call(
            self._caller, job, route, Listed(again), open_window, shaping
        )

    async def first(
        self,
        job: ClaimedJob,
        route: Route,
        fresh: DraftedMembers,
        reserve: Callable[[Sequence[Draft]], Opened],
        screen: MemberScreen | None,
    ) -> WindowOutcome:
        """Those who have none yet."""
        if screen is None or self._shaper.of(job.scope, route) is None:
            return await RouteCalls(self._caller, job, route, fresh, reserve).run()

        async def open_window(window: Sequence[Member]) -> list[OpenAttempt] | Hold:
            return await reserve(await fresh.draft(window))

        async def set_aside(aside: Sequence[tuple[Member, Wait]]) -> None:
            for member, wait in aside:
                screen.hold([member], wait)

        shaping = Shaping(
            _own_address, set_aside, fresh.put_back, comes_together=True, is_heavy=_is_heavy
        )
        members = Listed(fresh.take_undrafted())
        return await self._shaper.call(self._caller, job, route, members, open_window, shaping)


def _address(again: Again) -> str | None:
    """None if the message may already have arrived: then its domain's limits do not apply."""
    row, member = again
    return None if resolves_silence(row) else member.address


def _own_address(member: Member) -> str | None:
    return member.address


def _leave(_left: Sequence[Again]) -> None:
    """They are still due."""


def _is_heavy(_each: object) -> bool:
    return False
