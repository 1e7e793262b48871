"""The registry of submission targets: what is in force, and replacing it."""

import json
from collections.abc import Mapping
from typing import Annotated

import structlog
from fastapi import Query, Request

from outrider.api.bodies import require_json
from outrider.api.context import NEEDS_REGISTRY, Asker, Wired
from outrider.api.errors import ApiError
from outrider.api.models.admin import (
    RegistryAnswer,
    RegistryWarning,
    TargetAnswer,
    standing_of,
)
from outrider.api.route import BodyKind, api_router, options
from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.domain.submission import Contract
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import REGISTRY_MAX_BYTES

log = structlog.get_logger()

router = api_router("registry")

POLICY_TERMS = ("maxAcceptanceSeconds", "maxAttempts")

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
    summary="List the contracts in force, with the state of their targets",
    dependencies=[NEEDS_REGISTRY],
)
async def show(outrider: Wired, asker: Asker) -> RegistryAnswer:
    # A read after a replacement sees it, on whichever server.
    await outrider.registry_follower.refresh()
    in_force = outrider.registry_keeper.contracts()
    return await _answer(outrider, in_force, with_urls=asker.scope == DEFAULT_SCOPE)


@router.put(
    "/registry",
    operation_id="replaceRegistry",
    summary="Replace the registry; on mistakes, nothing changes and all are listed",
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
async def replace(
    request: Request,
    outrider: Wired,
    asker: Asker,
    accept_problems: Annotated[
        bool,
        Query(alias="acceptProblems", description="Apply it even if it breaks workflows."),
    ] = False,
) -> RegistryAnswer:
    if asker.scope != DEFAULT_SCOPE:
        # All tenants send through it: changing it decides where their messages go.
        raise ApiError(
            403,
            "INSUFFICIENT_SCOPE",
            "the registry is shared by all tenants, and only the default workspace may change it",
            hint="use the root key, or an admin key of the default workspace",
        )
    require_json(request)
    raw = _as_written(await request.body())
    warnings = await _rehearsed(outrider, raw, accept_problems=accept_problems)
    try:
        in_force = await outrider.registry_follower.replace(asker.scope, raw, asker.actor)
    except InvalidInput as error:
        if error.problems:
            raise
        # The document is valid: its file could not be written.
        log.error("registry_not_written", error=error.message)
        raise ApiError(
            503,
            "REGISTRY_NOT_WRITTEN",
            "the registry could not be written; the previous one stays in force",
            headers={"Retry-After": str(ApiLimits.retry_after_seconds)},
        ) from error
    answer = await _answer(outrider, in_force, with_urls=True)
    shown = [RegistryWarning(path=each.path, message=each.message) for each in warnings]
    return answer.model_copy(update={"warnings": shown})


async def _rehearsed(outrider: Outrider, raw: bytes, *, accept_problems: bool) -> list[Problem]:
    """Refuse what would break a rule or a legacy sender that works under the registry in force."""
    proposed = outrider.registry_keeper.judged(raw)
    found = await outrider.workflow_checker.check(proposed)
    if not found.problems:
        return found.warnings
    before = await outrider.workflow_checker.check(_in_force(outrider))
    broken = [problem for problem in found.problems if problem not in before.problems]
    if broken and not accept_problems:
        raise InvalidInput(
            "the registry would break existing workflows",
            broken,
            hint="change the rules or workflow_targets first, or repeat with ?acceptProblems=true",
        )
    return [*found.problems, *found.warnings]


def _in_force(outrider: Outrider) -> Mapping[str, Contract]:
    try:
        return outrider.registry_keeper.contracts()
    except InvalidInput:
        # There is none yet, or it cannot be read: nothing works under it.
        return {}


def _as_written(raw: bytes) -> bytes:
    """This resource's response can be sent back: without descriptive fields, and without terms that
    a policy does not have."""
    try:
        document = json.loads(raw)
        document.pop("warnings", None)
        for entry in document["targets"]:
            described = [
                name
                for name, value in entry.items()
                if name == "state" or (name in POLICY_TERMS and value is None)
            ]
            for name in described:
                del entry[name]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # It is not a registry, and is validated unchanged.
        return raw
    return raw if document == json.loads(raw) else json.dumps(document, indent=2).encode()


async def _answer(
    outrider: Outrider, contracts: Mapping[str, Contract], *, with_urls: bool
) -> RegistryAnswer:
    overview = await outrider.target_keeper.overview()
    found = [
        TargetAnswer.of(contracts[name], standing_of(overview, contracts[name], ""))
        for name in sorted(contracts)
    ]
    if not with_urls:
        found = [each.model_copy(update={"gateway_url": None}) for each in found]
    return RegistryAnswer(targets=found)
