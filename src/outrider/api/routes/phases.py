"""The phases of a campaign: the snapshot, the controls, the dry run."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.models.phases import (
    BeginBody,
    CampaignStatus,
    ControlBody,
    ControlDone,
    RerunBody,
)
from outrider.api.models.previews import DryRun, DryRunBody
from outrider.api.route import REQUEST_KEY, api_router, options
from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import CampaignId
from outrider.domain.keys import Principal
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer
from outrider.ports.idempotency import RequestKey, StoredAnswer
from outrider.ports.store import Transaction

router = api_router("phases")

Guard = Callable[[Transaction[ControlAnswer]], Transaction[ControlAnswer]]


async def _one_expectation(
    request: Request,
    expected_state: Annotated[
        PhaseState | None,
        Query(description="Same as in the body; if both are given they must agree."),
    ] = None,
) -> PhaseState | None:
    given = request.query_params.getlist("expected_state")
    if len(given) > 1:
        raise InvalidInput(
            "the expected state was given more than once",
            [Problem("expected_state", f"is given {len(given)} times in the query")],
        )
    return expected_state


async def _guard(request: Request, outrider: Wired) -> Guard | None:
    """Makes a control with a key commit that key and its answer with its change."""
    key: RequestKey | None = getattr(request.state, REQUEST_KEY, None)
    if key is None:
        return None
    return lambda script: outrider.idempotency.guarded(key, script, _stored)


Expected = Annotated[PhaseState | None, Depends(_one_expectation)]
Guarded = Annotated[Guard | None, Depends(_guard)]

JSON = "application/json"

SUMMARIES = {
    Action.START: "Start a phase",
    Action.PAUSE: "Pause a phase: calls in progress finish, no new attempt is opened",
    Action.RESUME: "Resume a paused phase",
    Action.STOP: "Stop a phase: items not attempted yet are skipped",
    Action.RETRY: "Retry a failed phase",
    Action.COMPLETE: "Always refused: a phase is completed by its run",
}


@router.get(
    "/campaigns/{campaign_id}/status",
    operation_id="getCampaignStatus",
    summary="Get the snapshot of a campaign (contract 003)",
)
async def status(campaign_id: str, outrider: Wired, asker: Asker) -> CampaignStatus:
    snapshot = await outrider.phase_controller.snapshot(asker.scope, CampaignId(campaign_id))
    return CampaignStatus.of(snapshot)


@router.post(
    f"/campaigns/{{campaign_id}}/phases/{LAUNCH}/dry-run",
    operation_id="dryRunLaunch",
    summary="Count recipients that would be sent to or skipped, and why; nothing is sent",
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
    summary="Stop the running phase",
    response_model=ControlDone,
    openapi_extra=options(controls=True),
)
async def stop_campaign(
    campaign_id: str,
    outrider: Wired,
    asker: Asker,
    guard: Guarded,
    expected_state: Expected,
    body: ControlBody | None = None,
) -> Response:
    campaign = CampaignId(campaign_id)
    await _require(outrider, asker, campaign, None, Action.STOP)
    control = _control(Action.STOP, asker, expected_state, body, guard)
    return await _done(outrider.phase_controller.stop_campaign(asker.scope, campaign, control))


@router.post(
    "/campaigns/{campaign_id}/phases/{phase}/rerun",
    operation_id="rerunPhase",
    summary="Run a completed phase again, for the remainder or for everyone",
    dependencies=[NEEDS_REGISTRY],
    response_model=ControlDone,
    openapi_extra=options(controls=True),
)
async def rerun(
    campaign_id: str,
    phase: str,
    outrider: Wired,
    asker: Asker,
    guard: Guarded,
    expected_state: Expected,
    body: RerunBody | None = None,
) -> Response:
    control = _control(Action.RERUN, asker, expected_state, body, guard)
    return await _done(
        outrider.phase_controller.control(asker.scope, CampaignId(campaign_id), phase, control)
    )


def _add(action: Action, summary: str, body_of: type[ControlBody]) -> None:
    @router.post(
        f"/campaigns/{{campaign_id}}/phases/{{phase}}/{action.value}",
        operation_id=f"{action.value}Phase",
        summary=summary,
        dependencies=[NEEDS_REGISTRY] if body_of is BeginBody else [],
        response_model=ControlDone,
        openapi_extra=options(controls=True),
    )
    async def control(
        campaign_id: str,
        phase: str,
        outrider: Wired,
        asker: Asker,
        guard: Guarded,
        expected_state: Expected,
        body: body_of | None = None,  # type: ignore[valid-type]
    ) -> Response:
        campaign = CampaignId(campaign_id)
        await _require(outrider, asker, campaign, phase, action)
        asked = _control(action, asker, expected_state, body, guard)
        return await _done(outrider.phase_controller.control(asker.scope, campaign, phase, asked))


for _action, _summary in SUMMARIES.items():
    _begins = _action in (Action.START, Action.RETRY)
    _add(_action, _summary, BeginBody if _begins else ControlBody)


async def _require(
    outrider: Outrider, asker: Principal, campaign_id: CampaignId, phase: str | None, action: Action
) -> None:
    """The key was already checked; a custom rule may be stricter."""
    if outrider.settings.authorisation is not None:
        await outrider.run_signaller.require_control(asker, campaign_id, phase, action)


async def _done(controlled: Awaitable[ControlAnswer]) -> Response:
    answer = _stored(await controlled)
    return Response(answer.body, answer.status, media_type=answer.media_type)


def _stored(answer: ControlAnswer) -> StoredAnswer:
    """The very bytes that a repeat gets."""
    return StoredAnswer(200, JSON, ControlDone.of(answer).model_dump_json())


def _control(
    action: Action,
    asker: Principal,
    in_query: PhaseState | None,
    body: ControlBody | None,
    guard: Guard | None,
) -> Control:
    in_body = body.expected_state if body else None
    if in_query is not None and in_body is not None and in_query is not in_body:
        raise InvalidInput(
            "two different expected states were given",
            [Problem("expected_state", f"is {in_query} in the query and {in_body} in the body")],
        )
    expected = in_query or in_body
    control = Control(action, asker.actor, expected, guard=guard)
    if isinstance(body, BeginBody):
        control = replace(control, request_id=body.run_request_id)
    if isinstance(body, RerunBody):
        control = replace(control, scope=body.scope, confirm=body.confirm)
    return control
