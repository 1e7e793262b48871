"""Submission targets: their contract, settings and current state, and their controls."""

from collections.abc import Awaitable, Callable

from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.errors import ApiError
from outrider.api.models.targets import TargetControlled, TargetsAnswer
from outrider.api.route import api_router, options
from outrider.api.target_lines import target_line, target_lines
from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.keys import KeyScope, Principal

router = api_router("registry")


@router.get(
    "/targets",
    operation_id="listTargets",
    summary="List the submission targets with their settings and state",
    dependencies=[NEEDS_REGISTRY],
)
async def list_targets(outrider: Wired, asker: Asker) -> TargetsAnswer:
    return TargetsAnswer(targets=await target_lines(outrider, asker.scope))


@router.post(
    "/targets/{submission_target}/pause",
    operation_id="pauseTarget",
    summary="Pause a target; waiting messages keep their attempts",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def pause(submission_target: str, outrider: Wired, asker: Asker) -> TargetControlled:
    return await _controlled(outrider, asker, submission_target, outrider.target_keeper.pause)


@router.post(
    "/targets/{submission_target}/resume",
    operation_id="resumeTarget",
    summary="Resume a target",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def resume(submission_target: str, outrider: Wired, asker: Asker) -> TargetControlled:
    return await _controlled(outrider, asker, submission_target, outrider.target_keeper.resume)


@router.post(
    "/targets/{submission_target}/reset",
    operation_id="resetTarget",
    summary="Reset a target: allow calls now and forget its failures",
    dependencies=[NEEDS_REGISTRY],
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def reset(submission_target: str, outrider: Wired, asker: Asker) -> TargetControlled:
    return await _controlled(outrider, asker, submission_target, outrider.target_keeper.reset)


async def _controlled(
    outrider: Outrider,
    asker: Principal,
    submission_target: str,
    control: Callable[[Scope, str, str], Awaitable[bool]],
) -> TargetControlled:
    if asker.scope != DEFAULT_SCOPE:
        raise ApiError(
            403,
            "INSUFFICIENT_SCOPE",
            "targets are shared by all tenants, and only the default workspace may control them",
            hint="use the root key, or an admin key of the default workspace",
        )
    await target_line(outrider, asker.scope, submission_target)
    changed = await control(asker.scope, submission_target, asker.actor)
    line = await target_line(outrider, asker.scope, submission_target)
    return TargetControlled(
        submission_target=submission_target, changed=changed, state=line.state, success=True
    )
