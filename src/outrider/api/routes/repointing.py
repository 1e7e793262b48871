"""Moves a run to its targets' current addresses in the registry."""

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.repointing import RepointedAnswer
from outrider.api.route import api_router
from outrider.domain.ids import RunId

router = api_router("runs")


@router.post(
    "/runs/{run_id}/repoint",
    operation_id="repointRun",
    summary="Move what no provider can have to its target's current address in the registry",
    description="What was attempted stays where it was: the provider there may have it. Jobs that"
    " are with a worker stay for now; call again when they are back.",
    dependencies=[NEEDS_REGISTRY],
)
async def repoint(run_id: str, outrider: Wired, asker: Asker) -> RepointedAnswer:
    done = await outrider.run_repointer.repoint(asker.scope, RunId(run_id), asker.actor)
    return RepointedAnswer.of(run_id, asker.scope, done)
