"""The fourth door: providers' callbacks, authenticated by their own signature, and lists of
receipts. A callback is verified, stored durably and answered; matching it to messages happens
later. It needs no API key, and nothing is trusted that was not verified.
"""

import asyncio
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope as AsgiScope

from outrider.api import bodies, cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired, services_of
from outrider.api.errors import ApiError, problem
from outrider.api.models.common import Page
from outrider.api.models.problems import PROBLEMS
from outrider.api.models.receipts import MatchBody, Matched, ReceiptAnswer, Taken
from outrider.api.route import NotedRoute, api_router
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import OutboxId
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.kernel.transactions import receipts
from outrider.kernel.transactions.alerts import LAST
from outrider.limits.campaigns import NAME_MAX_CHARACTERS
from outrider.limits.receipts import CALLBACK_MAX_BYTES, READ_HERE_MAX_BYTES
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified

SEGMENT_SEPARATOR = ":"


class CallbackRoute(NotedRoute):
    """Reads the path as it was sent: an encoded slash belongs to a name."""

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        raw: bytes | None = scope.get("raw_path")
        if raw is None:
            return super().matches(scope)
        match, inner = super().matches({**scope, "path": raw.decode("latin-1")})
        if "path_params" in inner:
            given = inner["path_params"].items()
            inner["path_params"] = {name: unquote(value) for name, value in given}
        return match, inner


door = APIRouter(route_class=CallbackRoute, tags=["receipts"], strict_content_type=False)
router = api_router("receipts")

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "It is durable: the provider need not report it again. The body is what the"
        " provider expects, or how many of the receipts were new.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Taken"}},
            "*/*": {"schema": {"type": "string"}},
        },
    },
    400: PROBLEMS[400],
    401: {**PROBLEMS[401], "description": "Not signed, signed with another secret, or too old."},
    404: {**PROBLEMS[404], "description": "There is no such target, or it accepts no receipts."},
    413: PROBLEMS[413],
    429: {**PROBLEMS[429], "description": "Too many receipts for the target match no message."},
    503: PROBLEMS[503],
}
_BODY = {
    "requestBody": {
        "required": False,
        "description": "As the target's provider sends it; gateways of the families `sms` and"
        " `push` send Standard Webhooks.",
        "content": {"*/*": {"schema": {"type": "string"}}},
    }
}
_TARGET = Annotated[str, Path(max_length=NAME_MAX_CHARACTERS)]
_WORKSPACE = Annotated[
    str,
    Path(
        max_length=3 * NAME_MAX_CHARACTERS,
        description="TENANT:PROJECT:ENVIRONMENT, or with encoded slashes between them.",
    ),
]


@door.get(
    "/receipts/{submission_target}",
    operation_id="confirmReceipts",
    summary="A provider's handshake, or its callback if it uses GET",
    responses=_ANSWERS,
    response_model=None,
)
@door.post(
    "/receipts/{submission_target}",
    operation_id="takeReceipts",
    summary="A provider's callback, for a target of the default workspace",
    responses=_ANSWERS,
    response_model=None,
    openapi_extra=_BODY,
)
async def take(submission_target: _TARGET, request: Request) -> Response:
    return await _taken(request, DEFAULT_WORKSPACE_NAME, submission_target)


@door.get(
    "/receipts/{workspace}/{submission_target}",
    operation_id="confirmWorkspaceReceipts",
    summary="A provider's handshake, or its callback if it uses GET",
    responses=_ANSWERS,
    response_model=None,
)
@door.post(
    "/receipts/{workspace}/{submission_target}",
    operation_id="takeWorkspaceReceipts",
    summary="A provider's callback, for a target of this workspace",
    responses=_ANSWERS,
    response_model=None,
    openapi_extra=_BODY,
)
async def take_in_workspace(
    workspace: _WORKSPACE, submission_target: _TARGET, request: Request
) -> Response:
    return await _taken(request, _workspace(workspace), submission_target)


async def _taken(request: Request, workspace: WorkspaceName, target: str) -> Response:
    services = services_of(request)
    outrider = services.outrider
    await services.require_registry()
    scope = await outrider.receipt_intake.inbox_of(workspace, target)
    reader = outrider.receipt_readers.reader(str(workspace), target)
    if reader is None:
        raise NotFound(
            f"no target '{target}' takes receipts here",
            hint="it is in the registry, and its receiptsSecret or the provider's own is set?",
        )
    bodies.check_length(request, CALLBACK_MAX_BYTES)
    size = bodies.announced_bytes(request, CALLBACK_MAX_BYTES)
    if size <= READ_HERE_MAX_BYTES:
        callback = await _callback(request)
        await reader.prepare(callback, outrider.clock.now())
        read = reader.read(callback, outrider.clock.now())
    else:
        async with services.bodies.holding(scope, size):
            callback = await _callback(request)
            await reader.prepare(callback, outrider.clock.now())
            read = await asyncio.to_thread(reader.read, callback, outrider.clock.now())
    match read:
        case Refusal():
            return _refused(read)
        case Challenge():
            return Response(read.answer, 200, media_type="text/plain")
        case Verified():
            new = await outrider.receipt_intake.take_in(scope, target, read.receipts)
            for receipt in new:
                services.metrics.receipts.labels(target, receipt.event.value).inc()
            if read.answer:
                return Response(read.answer, 200, media_type=read.content_type)
            confirmation = Taken(taken=len(new)).model_dump_json()
            return Response(confirmation, 200, media_type="application/json")


async def _callback(request: Request) -> Callback:
    body = await bodies.read_bounded(request, CALLBACK_MAX_BYTES)
    return Callback(
        request.method,
        _public_url(request),
        dict(request.query_params),
        {name.lower(): value for name, value in request.headers.items()},
        body,
    )


def _public_url(request: Request) -> str:
    """As the provider called it: a proxy before us may have another name than we know."""
    public = services_of(request).outrider.settings.public_url
    if public is None:
        return str(request.url)
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    path = raw.decode("latin-1").partition("?")[0]
    return f"{public.rstrip('/')}{path}{'?' if query else ''}{query.decode('latin-1')}"


def _refused(refusal: Refusal) -> Response:
    if refusal.why is RefusedFor.MALFORMED:
        return problem(400, InvalidInput.code, refusal.detail)
    return problem(
        401,
        f"RECEIPT_{refusal.why.name}",
        refusal.detail,
        headers={"WWW-Authenticate": 'Signature realm="receipts"'},
    )


def _workspace(text: str) -> WorkspaceName:
    """One segment of a path: with slashes that were encoded, or with colons instead."""
    written = text
    if "/" not in text and text.count(SEGMENT_SEPARATOR) == 2:
        written = text.replace(SEGMENT_SEPARATOR, "/")
    try:
        return WorkspaceName.parse(written)
    except ValueError:
        raise NotFound(
            "there is no such workspace", hint="write TENANT:PROJECT:ENVIRONMENT"
        ) from None


@router.get("/receipts", operation_id="listReceipts", summary="List receipts, newest first")
async def list_receipts(
    outrider: Wired,
    asker: Asker,
    submission_target: Annotated[
        str | None, Query(alias="submissionTarget", max_length=NAME_MAX_CHARACTERS)
    ] = None,
    matched: Annotated[
        bool | None,
        Query(description="With `false`, only those that match no item so far."),
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[ReceiptAnswer]:
    found = await outrider.store.read(
        receipts.page(
            asker.scope,
            submission_target,
            limit,
            before=cursors.id_after(after, LAST),
            only_matched=matched is True,
            only_unmatched=matched is False,
        )
    )
    return Page(
        items=[ReceiptAnswer.of(each) for each in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.post(
    "/receipts/{receipt_id}/match",
    operation_id="matchReceipt",
    summary="Match a receipt with an item by hand",
)
async def match(receipt_id: str, body: MatchBody, outrider: Wired, asker: Asker) -> Matched:
    if not body.outbox_id.isascii():
        raise ApiError(404, NotFound.code, "there is no such item")
    item = await outrider.receipt_matcher.match_by_hand(
        asker.scope, receipt_id, OutboxId(body.outbox_id), asker.actor
    )
    return Matched(receipt_id=receipt_id, outbox_id=item.id)
