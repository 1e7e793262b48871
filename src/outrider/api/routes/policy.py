"""A workspace's policy: quiet hours, the sending window and the frequency cap of its workflows."""

from fastapi import Request

from outrider.api.bodies import require_json
from outrider.api.context import Asker, Wired
from outrider.api.models.policy import PolicyAnswer, PolicyPut, policy_document
from outrider.api.route import BodyKind, api_router, options
from outrider.documents.policy import parse_policy
from outrider.domain.keys import KeyScope
from outrider.limits.workflows import POLICY_MAX_BYTES

router = api_router("workflows")


@router.get(
    "/workflows/policy",
    operation_id="getWorkflowPolicy",
    summary="Get the sending policy of the workspace",
)
async def show(outrider: Wired, asker: Asker) -> PolicyAnswer:
    return PolicyAnswer.of(await outrider.policy_keeper.get(asker.scope))


@router.put(
    "/workflows/policy",
    operation_id="replaceWorkflowPolicy",
    summary="Replace the sending policy; on mistakes, nothing changes and all are listed",
    openapi_extra=options(
        scope=KeyScope.ADMIN,
        body=BodyKind.RAW,
        body_most=POLICY_MAX_BYTES,
        request_body={
            "required": True,
            "content": {"application/json": {"schema": policy_document()}},
        },
    ),
)
async def replace(request: Request, outrider: Wired, asker: Asker) -> PolicyPut:
    require_json(request)
    policies = parse_policy(await request.body())
    await outrider.policy_keeper.put(asker.scope, policies, asker.actor)
    return PolicyPut.of(policies)
