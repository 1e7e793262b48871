"""The lane loader: reads the due items of a lane, and decides which may be sent now, by which
route.

Messages are screened again before every attempt. What must not be called again is put in
doubt; what cannot be called because of its target's configuration waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from outrider.domain.call_results import TARGET_SETUP
from outrider.domain.errors import OutriderError
from outrider.domain.ids import OutboxId
from outrider.domain.message_content import MessageContent
from outrider.domain.submission import WORKFLOW_ORIGIN, Contract
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import (
    GatewayRoutes,
    Route,
    WorkspaceRoutes,
    history_of,
)
from outrider.kernel.delivery.lane_backlog import Due
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import readable
from outrider.kernel.delivery.window_outcomes import Lost, Suspended
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import ledger, submissions
from outrider.kernel.transactions.claims import ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.screening import Deferral, HeldBack
from outrider.kernel.transactions.submissions import DueItem
from outrider.ports.stages import Stage, StageObserver, observed

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Routed:
    """What may go now, by its route; and when to check again for items without one, because of
    their target's configuration."""

    groups: list[tuple[Route, list[Due]]]
    held_until: datetime | None = None
    held_items: int = 0


class LaneLoader:
    def __init__(
        self,
        foundation: Foundation,
        routes: GatewayRoutes,
        contract_cache: ContractCache,
        screener: Screener,
        caller: GatewayCaller,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._routes = routes
        self._contract_cache = contract_cache
        self._screener = screener
        self._caller = caller
        self._clock = foundation.clock
        self._observer = observer

    async def load(self, lane: ClaimedLane, most: int) -> list[DueItem]:
        with observed(self._observer, Stage.LOAD):
            return await self._store.read(submissions.due(lane, most, self._clock.now()))

    async def routed(self, lane: ClaimedLane, rows: Sequence[DueItem]) -> Routed | Lost | Suspended:
        """Which of these may go now, by route."""
        with observed(self._observer, Stage.SCREEN):
            due = await self._screened(lane, rows)
        if isinstance(due, Lost | Suspended):
            return due
        routes = await self._routes.of(lane.scope)
        problems = routes.problems({each.contract for each in due})
        if not problems:
            return Routed(await self._routed(lane, routes, due))
        held = [each for each in due if each.contract in problems]
        until = await self._hold(lane, routes, problems)
        lane_held = await self._defer(lane, held, until)
        if lane_held is not Hold.OURS:
            return Lost() if lane_held is Hold.LOST else Suspended()
        usable = [each for each in due if each.contract not in problems]
        return Routed(await self._routed(lane, routes, usable), until, len(held))

    async def _screened(
        self, lane: ClaimedLane, rows: Sequence[DueItem]
    ) -> list[Due] | Lost | Suspended:
        """What may go now. A silence is resolved at any hour, so it is not screened."""
        fresh = [row for row in rows if not row.is_open and not row.maybe_received]
        passed = await self._screener.screen(lane, fresh) if fresh else {}
        if isinstance(passed, Hold):
            return Lost() if passed is Hold.LOST else Suspended()
        held = {row.id for row in fresh} - passed.keys()
        due: list[Due] = []
        lost: list[OutboxId] = []
        for row in rows:
            if row.id in held:
                continue
            content: MessageContent | str | None = passed.get(row.id)
            if content is None and row.origin == WORKFLOW_ORIGIN:
                content = readable(row.payload)
            if isinstance(content, str):
                # It may have arrived, and there is no way to ask again.
                lost.append(row.id)
                continue
            due.append(Due(row, await self._contract_cache.by_id(row.contract_id), content))
        if lost:
            await self._store.write(ledger.doubt(lane, lost, self._clock.now()))
            log.warning("items_in_doubt", job_id=lane.id, items=len(lost), why="worker_lost")
        return due

    async def _routed(
        self, lane: ClaimedLane, routes: WorkspaceRoutes, due: Sequence[Due]
    ) -> list[tuple[Route, list[Due]]]:
        """Items by their route; those that must not be called again are put in doubt."""
        now = self._clock.now()
        routed, unsafe = await routes.sorted_by_route(
            (
                (each, each.contract, each.row.fallback_contract_id, history_of(each.row))
                for each in due
            ),
            now,
        )
        if unsafe:
            await self._store.write(ledger.doubt(lane, [each.row.id for each in unsafe], now))
            log.warning("items_in_doubt", job_id=lane.id, items=len(unsafe), why="worker_lost")
        return routed

    async def _hold(
        self,
        lane: ClaimedLane,
        routes: WorkspaceRoutes,
        problems: Mapping[Contract, OutriderError],
    ) -> datetime:
        """A configuration error of the target does not count against the waiting items."""
        return min([
            await self._caller.hold(
                lane, contract, problem, own_door=routes.is_scoped(contract)
            )
            for contract, problem in problems.items()
        ])  # fmt: skip

    async def _defer(self, lane: ClaimedLane, held: Sequence[Due], until: datetime) -> Hold:
        """Workflow items record what they wait for, and their deadline counts from when they could
        go. A client's own items keep their deadline, and possibly received ones stay unchanged:
        they simply wait."""
        deferred = [
            Deferral(each.row.id, until, TARGET_SETUP, each.row.deadline_from(until))
            for each in held
            if each.content is not None and not (each.row.is_open or each.row.maybe_received)
        ]
        if not deferred:
            return Hold.OURS
        return await self._screener.hold_back(lane, HeldBack(deferred, [], []))
