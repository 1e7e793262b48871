"""Submission targets: what is agreed with each, how it is executed, and how it fares."""

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.targets import TargetExecution, TargetLine, TargetsAnswer
from outrider.api.route import api_router
from outrider.bootstrap import Outrider, target_policy
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.submission import Contract
from outrider.domain.targets import TargetState
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import TargetLoad
from outrider.ports.store import Transaction

router = api_router("registry")


@router.get(
    "/targets",
    operation_id="listTargets",
    summary="The submission targets in force, with how they are executed and how they fare",
    dependencies=[NEEDS_REGISTRY],
)
async def list_targets(outrider: Wired, asker: Asker) -> TargetsAnswer:
    in_force = outrider.registry_keeper.contracts()
    states, loads = await outrider.store.read(_standing(asker.scope, outrider.limits.page_items))
    found = [
        _line(outrider, in_force[name], states.get(name), loads.get(name, TargetLoad()))
        for name in sorted(in_force)
    ]
    if asker.scope != DEFAULT_SCOPE:
        # Where a gateway is belongs to who runs the server.
        found = [each.model_copy(update={"gateway_url": None}) for each in found]
    return TargetsAnswer(targets=found)


def _line(
    outrider: Outrider, contract: Contract, state: TargetState | None, load: TargetLoad
) -> TargetLine:
    settings = outrider.target_settings(contract.submission_target)
    execution = TargetExecution.of(settings, target_policy(settings))
    gateway = outrider.gateway_types[contract.gateway_type]
    return TargetLine.whole(contract, gateway, state, execution, load)


def _standing(
    scope: Scope, most: int
) -> Transaction[tuple[dict[str, TargetState], dict[str, TargetLoad]]]:
    states = yield from targets.all_states(most)
    return states, (yield from targets.loads(scope))
