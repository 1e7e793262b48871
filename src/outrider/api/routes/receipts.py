"""The fourth door, as documented: providers' callbacks, handshakes, and lists of receipts.

Callbacks that are posted usually never come here: `receipt_door` takes them before any routing.
"""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope as AsgiScope

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.errors import ApiError
from outrider.api.models.common import Page
from outrider.api.models.problems import PROBLEMS
from outrider.api.models.receipts import MatchBody, Matched, ReceiptAnswer
from outrider.api.receipt_door import taken, workspace_of
from outrider.api.route import NotedRoute, api_router
from outrider.domain.errors import NotFound
from outrider.domain.ids import OutboxId
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME
from outrider.kernel.transactions import receipts
from outrider.kernel.transactions.alerts import LAST
from outrider.limits.campaigns import NAME_MAX_CHARACTERS


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
    return await taken(request, DEFAULT_WORKSPACE_NAME, submission_target)


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
    return await taken(request, workspace_of(workspace), submission_target)


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
