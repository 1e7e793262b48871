"""The state of submission targets; for the command line too, which loads no web server."""

from outrider.api.models.admin import standing_of
from outrider.api.models.targets import TargetExecution, TargetLine
from outrider.bootstrap import Outrider, target_policy
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.submission import Contract
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.targets import Overview, TargetLoad


async def target_lines(outrider: Outrider, scope: Scope) -> list[TargetLine]:
    in_force = outrider.registry_keeper.contracts()
    overview = await outrider.target_keeper.overview()
    loads = await outrider.store.read(targets.loads(scope))
    found = [
        _line(outrider, in_force[name], overview, scope, loads.get(name, TargetLoad()))
        for name in sorted(in_force)
    ]
    if scope != DEFAULT_SCOPE:
        # A gateway's address is the server operator's business.
        found = [each.model_copy(update={"gateway_url": None}) for each in found]
    return found


async def target_line(outrider: Outrider, scope: Scope, submission_target: str) -> TargetLine:
    for each in await target_lines(outrider, scope):
        if each.submission_target == submission_target:
            return each
    known = ", ".join(sorted(outrider.registry_keeper.contracts())) or "none"
    raise NotFound(
        f"there is no submission target '{submission_target}'", hint=f"the registry has: {known}"
    )


def _line(
    outrider: Outrider, contract: Contract, overview: Overview, scope: Scope, load: TargetLoad
) -> TargetLine:
    settings = outrider.target_settings(contract.submission_target)
    execution = TargetExecution.of(settings, target_policy(settings), contract)
    gateway = outrider.gateway_types[contract.gateway_type]
    standing = standing_of(overview, contract, scope.workspace_id)
    memory = outrider.reference_memory(contract.submission_target)
    return TargetLine.whole(contract, gateway, memory, standing, execution, load)
