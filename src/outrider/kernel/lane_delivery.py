"""Lane delivery: the single messages of one submission target, as they fall due.

A lane is a standing job: its fence tells whose open attempts are whose, its lease brings it back
when a worker dies. Rendering and reserving happened when the message was submitted.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import structlog

from outrider.domain.ids import RecipientId
from outrider.domain.states import ItemStatus
from outrider.domain.submission import Contract
from outrider.kernel.caller import Caller, Deferred, Done, Lost, Passage, Suspended, earliest
from outrider.kernel.contract_shelf import ContractShelf
from outrider.kernel.reservations import OpenAttempt, Reserver
from outrider.kernel.routes import Route, Routes, past_of
from outrider.kernel.transactions import ledger, submissions
from outrider.kernel.transactions.jobs import ClaimedLane, Hold
from outrider.kernel.transactions.ledger import Draft
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.kernel.transactions.submissions import DueIntent
from outrider.ports.clock import Clock
from outrider.ports.stages import Stage, StageObserver, observed
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()

Due = tuple[DueIntent, Contract]


class LaneDelivery:
    def __init__(
        self,
        store: Store,
        routes: Routes,
        shelf: ContractShelf,
        reserver: Reserver,
        caller: Caller,
        clock: Clock,
        limits: Limits,
        observer: StageObserver,
    ) -> None:
        self._store = store
        self._routes = routes
        self._shelf = shelf
        self._reserver = reserver
        self._caller = caller
        self._clock = clock
        self._limits = limits
        self._observer = observer

    async def process(self, lane: ClaimedLane) -> LeaseLost | None:
        """Deliver what is due, for a bounded number of rounds, then give the lane back."""
        not_before: datetime | None = None
        for _ in range(self._limits.lane_rounds):
            with observed(self._observer, Stage.LOAD):
                due = await self._load(lane)
            if not due:
                break
            passage = await self._deliver(lane, due)
            if isinstance(passage, Lost):
                return LeaseLost()
            if isinstance(passage, Suspended):
                break
            if isinstance(passage, Deferred):
                not_before = passage.until
                break
        now = self._clock.now()
        with observed(self._observer, Stage.SETTLE):
            ours = await self._store.write(submissions.release(lane, not_before or now, now))
        return None if ours else LeaseLost()

    async def _load(self, lane: ClaimedLane) -> list[Due]:
        now = self._clock.now()
        horizon = now + timedelta(seconds=self._limits.lease_seconds)
        rows = await self._store.read(
            submissions.due(lane, self._limits.lane_window_items, horizon, now)
        )
        return [(row, await self._shelf.by_id(row.contract_id)) for row in rows]

    async def _deliver(self, lane: ClaimedLane, due: Sequence[Due]) -> Passage:
        """Every route gets its turn: one that takes no more does not hold up the others."""
        deferred, progressed = None, False
        for route, group in await self._routed(lane, due):

            async def open_window(
                window: Sequence[Due], route: Route = route
            ) -> list[OpenAttempt] | Hold:
                return await self._open(lane, route, window)

            passage = await self._caller.in_windows(route, group, open_window)
            if isinstance(passage, Lost | Suspended):
                return passage
            progressed = progressed or isinstance(passage, Done)
            deferred = earliest(deferred, passage)
        if deferred is not None and progressed:
            # What comes in meanwhile for the open routes must not wait for the closed one.
            soon = self._clock.now() + timedelta(seconds=self._limits.gate_patience_seconds)
            return Deferred(min(deferred.until, soon))
        return deferred or Done()

    async def _routed(self, lane: ClaimedLane, due: Sequence[Due]) -> list[tuple[Route, list[Due]]]:
        """Items by the route they take; those that must not be called again are put in doubt."""
        now = self._clock.now()
        routed, unsafe = await self._routes.sorted_by_route(
            (
                ((row, contract), contract, row.fallback_contract_id, past_of(row))
                for row, contract in due
            ),
            now,
        )
        if unsafe:
            await self._store.write(ledger.doubt(lane, [row.id for row, _ in unsafe], now))
            log.warning("items_in_doubt", job_id=lane.id, items=len(unsafe), why="worker_lost")
        return routed

    async def _open(
        self, lane: ClaimedLane, route: Route, window: Sequence[Due]
    ) -> list[OpenAttempt] | Hold:
        drafts = {row.id: (_draft(row), contract) for row, contract in window}
        self._observer.before(Stage.OPEN)
        opened = await self._reserver.reopen(lane, route.contract_id, drafts)
        self._observer.after(Stage.OPEN)
        return opened


def _draft(row: DueIntent) -> Draft:
    return Draft(
        row.id, RecipientId(row.intent_id), None, None, "", row.key, ItemStatus.QUEUED, None, None,
        msgspec.json.decode(row.payload),
    )  # fmt: skip
