"""The set-up inspector: checks at worker start that every target of the registry can be called.

No calls are made. A target with a wrong option, sender, secret or certificate file is held with an
alert before its first message; one that was held for that and is now correct is opened.
"""

from collections.abc import Iterable

import structlog

from outrider.domain.call_results import TARGET_SETUP
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.submission import Contract
from outrider.kernel.delivery.gateway_routes import GatewayRoutes, WorkspaceRoutes
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.target_holds import TargetHolds
from outrider.kernel.work.queue_turns import WorkFilter

log = structlog.get_logger()


class SetupInspector:
    def __init__(
        self,
        routes: GatewayRoutes,
        gate: TargetGate,
        holds: TargetHolds,
        work_filter: WorkFilter,
    ) -> None:
        self._routes = routes
        self._gate = gate
        self._holds = holds
        self._filter = work_filter

    async def inspect(self, contracts: Iterable[Contract]) -> None:
        wanted = self._filter.targets
        mine = [each for each in contracts if wanted is None or each.submission_target in wanted]
        routes = await self._routes.of(DEFAULT_SCOPE)
        problems = routes.problems(mine)
        held = await self._holds.held_for(TARGET_SETUP)
        for contract in mine:
            others = self._routes.own_workspaces(contract.submission_target)
            if others:
                # Each has its own door, which its first message finds open or closes.
                self._log_problems(contract, others)
                continue
            target, problem = contract.submission_target, problems.get(contract)
            key = self._gate.door_key(DEFAULT_SCOPE, target, contract.gateway_url)
            if problem is None and key.shared in held:
                await self._holds.open_again(key, TARGET_SETUP)
            elif problem is not None:
                log.error("target_unusable", submission_target=target, error=problem.message)
                await self._holds.hold(key, problem.message)

    def _log_problems(self, contract: Contract, workspaces: Iterable[WorkspaceRoutes]) -> None:
        for routes in workspaces:
            problem = routes.problem(contract)
            if problem is not None:
                log.error(
                    "target_unusable", submission_target=contract.submission_target,
                    workspace=str(routes.workspace), error=problem.message,
                )  # fmt: skip
