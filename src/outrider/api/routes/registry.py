"""The registry of submission targets: what is in force, and how another takes its place."""

import asyncio
from collections.abc import Mapping

import structlog
from fastapi import Request

from outrider.api.bodies import require_json
from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.errors import ApiError
from outrider.api.models.admin import RegistryAnswer, TargetAnswer
from outrider.api.route import BodyKind, api_router, options
from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput
from outrider.domain.keys import KeyScope
from outrider.domain.submission import Contract
from outrider.kernel.transactions import targets
from outrider.settings import REGISTRY_MAX_BYTES, ApiLimits

log = structlog.get_logger()

router = api_router("registry")

EXAMPLE = {
    "targets": [
        {
            "submissionTarget": "sms.realtime",
            "gatewayType": "sms",
            "gatewayUrl": "http://localhost:8080",
            "mode": "realtime",
            "policy": "deadline",
            "maxAcceptanceSeconds": 30,
            "terminalOutcomes": ["invalid_request", "invalid_recipient", "invalid_message"],
        }
    ]
}
DOCUMENT = {
    "type": "object",
    "required": ["targets"],
    "additionalProperties": False,
    "properties": {
        "targets": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "submissionTarget", "gatewayType", "gatewayUrl", "mode", "policy",
                    "terminalOutcomes",
                ],
                "additionalProperties": False,
                "properties": {
                    "submissionTarget": {"type": "string", "minLength": 1},
                    "gatewayType": {"type": "string"},
                    "gatewayUrl": {"type": "string"},
                    "mode": {"enum": ["realtime", "batch"]},
                    "policy": {"enum": ["deadline", "max_attempts", "one_shot"]},
                    "maxAcceptanceSeconds": {"type": "number", "exclusiveMinimum": 0},
                    "maxAttempts": {"type": "integer", "minimum": 1},
                    "terminalOutcomes": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
    "examples": [EXAMPLE],
}  # fmt: skip


@router.get(
    "/registry",
    operation_id="getRegistry",
    summary="The contracts in force, and how their targets fare",
    dependencies=[NEEDS_REGISTRY],
)
async def show(outrider: Wired, asker: Asker) -> RegistryAnswer:  # noqa: ARG001 - it is the same for all
    return await _answer(outrider, outrider.registry_keeper.contracts())


@router.put(
    "/registry",
    operation_id="replaceRegistry",
    summary="Put another registry in force: all of it, or nothing and every mistake in it",
    openapi_extra=options(
        scope=KeyScope.ADMIN,
        body=BodyKind.RAW,
        body_most=REGISTRY_MAX_BYTES,
        request_body={
            "required": True,
            "content": {"application/json": {"schema": DOCUMENT}},
        },
    ),
)
async def replace(request: Request, outrider: Wired, asker: Asker) -> RegistryAnswer:  # noqa: ARG001 - the route has checked who it is
    require_json(request)
    raw = await request.body()
    # In a thread: it waits for the disk.
    try:
        in_force = await asyncio.to_thread(outrider.registry_keeper.replace, raw)
    except InvalidInput as error:
        if error.problems:
            raise
        # Nothing is wrong with the document: its file could not be written.
        log.error("registry_not_written", error=error.message)
        raise ApiError(
            503,
            "REGISTRY_NOT_WRITTEN",
            "the registry could not be written; the old one is still in force",
            headers={"Retry-After": str(ApiLimits.retry_after_seconds)},
        ) from error
    return await _answer(outrider, in_force)


async def _answer(outrider: Outrider, contracts: Mapping[str, Contract]) -> RegistryAnswer:
    states = await outrider.store.read(targets.all_states(outrider.limits.page_items))
    return RegistryAnswer(
        targets=[TargetAnswer.of(contracts[name], states.get(name)) for name in sorted(contracts)]
    )
