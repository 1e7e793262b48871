"""The phases of a campaign: the snapshot, the controls, the dry run."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.campaigns import DryRun, DryRunBody
from outrider.api.models.phases import (
    BeginBody,
    CampaignStatus,
    ControlBody,
    ControlDone,
    RerunBody,
)
from outrider.api.route import api_router, options
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import CampaignId
from outrider.domain.keys import Principal
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.kernel.phase_controller import Control

router = api_router("phases")

Expected = Annotated[
    PhaseState | None, Query(description="The same as in the body; both have to agree.")
]

SUMMARIES = {
    Action.START: "Start a phase",
    Action.PAUSE: "Pause a phase: windows under way are finished, no attempt is opened any more",
    Action.RESUME: "Resume a paused phase",
    Action.STOP: "Stop a phase for good: what was not attempted is skipped",
    Action.RETRY: "Retry a failed phase",
    Action.COMPLETE: "Always refused: only its run completes a phase",
}


@router.get(
    "/campaigns/{campaign_id}/status",
    operation_id="getCampaignStatus",
    summary="The snapshot of a campaign (contract 003)",
)
async def status(campaign_id: str, outrider: Wired, asker: Asker) -> CampaignStatus:
    snapshot = await outrider.phase_controller.snapshot(asker.scope, CampaignId(campaign_id))
    return CampaignStatus.of(snapshot)


@router.post(
    f"/campaigns/{{campaign_id}}/phases/{LAUNCH}/dry-run",
    operation_id="dryRunLaunch",
    summary="Who would be sent to, who skipped and why; nothing is sent",
    openapi_extra=options(reads=True),
)
async def dry_run(
    campaign_id: str, outrider: Wired, asker: Asker, body: DryRunBody | None = None
) -> DryRun:
    scope = body.scope if body else None
    found: dict[str, Any] = await outrider.previewer.dry_run(
        asker.scope, CampaignId(campaign_id), scope
    )
    return DryRun.model_validate(found)


@router.post(
    "/campaigns/{campaign_id}/stop",
    operation_id="stopCampaign",
    summary="Stop whichever phase is under way",
)
async def stop_campaign(
    campaign_id: str,
    outrider: Wired,
    asker: Asker,
    expected_state: Expected = None,
    body: ControlBody | None = None,
) -> ControlDone:
    control = _control(Action.STOP, asker, expected_state, body)
    return ControlDone.of(
        await outrider.phase_controller.stop_campaign(asker.scope, CampaignId(campaign_id), control)
    )


@router.post(
    "/campaigns/{campaign_id}/phases/{phase}/rerun",
    operation_id="rerunPhase",
    summary="Run a completed phase again, for the remainder or for everybody",
    dependencies=[NEEDS_REGISTRY],
)
async def rerun(
    campaign_id: str,
    phase: str,
    outrider: Wired,
    asker: Asker,
    expected_state: Expected = None,
    body: RerunBody | None = None,
) -> ControlDone:
    control = _control(Action.RERUN, asker, expected_state, body)
    return ControlDone.of(
        await outrider.phase_controller.control(
            asker.scope, CampaignId(campaign_id), phase, control
        )
    )


def _add(action: Action, summary: str, body_of: type[ControlBody]) -> None:
    @router.post(
        f"/campaigns/{{campaign_id}}/phases/{{phase}}/{action.value}",
        operation_id=f"{action.value}Phase",
        summary=summary,
        dependencies=[NEEDS_REGISTRY] if body_of is BeginBody else [],
    )
    async def control(
        campaign_id: str,
        phase: str,
        outrider: Wired,
        asker: Asker,
        expected_state: Expected = None,
        body: body_of | None = None,  # type: ignore[valid-type]
    ) -> ControlDone:
        asked = _control(action, asker, expected_state, body)
        return ControlDone.of(
            await outrider.phase_controller.control(
                asker.scope, CampaignId(campaign_id), phase, asked
            )
        )


for _action, _summary in SUMMARIES.items():
    _begins = _action in (Action.START, Action.RETRY)
    _add(_action, _summary, BeginBody if _begins else ControlBody)


def _control(
    action: Action, asker: Principal, in_query: PhaseState | None, body: ControlBody | None
) -> Control:
    in_body = body.expected_state if body else None
    if in_query is not None and in_body is not None and in_query is not in_body:
        raise InvalidInput(
            "two different expected states were given",
            [Problem("expected_state", f"is {in_query} in the query and {in_body} in the body")],
        )
    expected = in_query or in_body
    control = Control(action, asker.actor, expected)
    if isinstance(body, BeginBody):
        control = replace(control, request_id=body.run_request_id)
    if isinstance(body, RerunBody):
        control = replace(control, scope=body.scope, confirm=body.confirm)
    return control
