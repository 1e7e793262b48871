"""Dry runs of domain events: what the current rules would make of one."""

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.rehearsals import RehearsalAnswer, RehearsalBody
from outrider.api.route import api_router, options

router = api_router("workflows")


@router.post(
    "/workflows/dry-run",
    operation_id="rehearseEvent",
    summary="Show what an event would do: decisions, recipients and messages; nothing is stored",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(idempotent=False),
)
async def rehearse(body: RehearsalBody, outrider: Wired, asker: Asker) -> RehearsalAnswer:
    found = await outrider.event_rehearser.rehearse(asker.scope, body.emission())
    return RehearsalAnswer.of(found)
