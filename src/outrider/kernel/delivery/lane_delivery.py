"""Lane delivery: the single messages of one submission target, as they become due.

A lane is a permanent job: its fence identifies the holder of open attempts, its lease recovers it
from a dead worker. It is visited until nothing is due, and then given back.
"""

from collections.abc import Callable

from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.lane_loader import LaneLoader
from outrider.kernel.delivery.lane_opener import LaneOpener
from outrider.kernel.delivery.lane_visit import LaneVisit, OpenVisits
from outrider.kernel.delivery.window_outcomes import Deferred, Done, Lost
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import submissions
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.ports.stages import Stage, StageObserver, observed


class LaneDelivery:
    def __init__(
        self,
        foundation: Foundation,
        loader: LaneLoader,
        opener: LaneOpener,
        caller: GatewayCaller,
        observer: StageObserver,
    ) -> None:
        self._foundation = foundation
        self._loader = loader
        self._opener = opener
        self._caller = caller
        self._store = foundation.store
        self._clock = foundation.clock
        self._observer = observer
        self._visits = OpenVisits()
        self.when_missed: Callable[[ClaimedLane], None] = lambda _lane: None

    async def process(self, lane: ClaimedLane) -> LeaseLost | None:
        """Deliver due items for as long as there are any, then give the lane back."""
        for _ in range(self._foundation.limits.lane_rounds):
            visit = LaneVisit(
                self._foundation, self._loader, self._opener, self._caller, self._visits, lane
            )
            outcome = await visit.run()
            await self._caller.durable(lane)
            if (
                not isinstance(outcome, Done)
                or visit.wakes == self._visits.wakes
                or self._caller.stopping
            ):
                break
            # Something arrived while the last items were being closed: no need for another claim.
        if isinstance(outcome, Lost):
            return LeaseLost()
        now = self._clock.now()
        not_before = outcome.until if isinstance(outcome, Deferred) else now
        with observed(self._observer, Stage.SETTLE):
            ours = await self._store.write(submissions.release(lane, not_before, now))
        if visit.wakes != self._visits.wakes:
            # A claimer that looked for a lane meanwhile did not find this one.
            self.when_missed(lane)
        return None if ours else LeaseLost()

    def wake(self) -> None:
        """There may be something new in a lane that is held here, or in another one."""
        self._caller.right_of_way.expect()
        self._visits.wake()

    def nothing_came(self) -> None:
        """There was no lane to claim; the held ones look for new work themselves."""
        if not self._visits:
            self._caller.right_of_way.looked()
