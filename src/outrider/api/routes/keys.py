"""API keys of the workspace: created and shown once, listed without their secret, revoked."""

from fastapi import Request

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired, services_of
from outrider.api.idempotency import ShownOnce
from outrider.api.models.admin import KeyAnswer, KeyBody, NewKey, RevokedKey
from outrider.api.models.common import Page
from outrider.api.route import api_router, options
from outrider.domain.keys import KeyId, KeyScope
from outrider.kernel.transactions.paging import FIRST

router = api_router("keys")


@router.get(
    "/keys",
    operation_id="listKeys",
    summary="List API keys, including revoked ones; their secrets are not shown",
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def list_keys(
    outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[KeyAnswer]:
    found = await outrider.key_keeper.list(asker.scope, cursors.id_after(after, FIRST), limit)
    return Page(
        items=[KeyAnswer.of(key) for key in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.post(
    "/keys",
    status_code=201,
    operation_id="createKey",
    summary="Create an API key; its secret is only shown in this response",
    response_model=NewKey,
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def create(body: KeyBody, outrider: Wired, asker: Asker) -> ShownOnce:
    made, text = await outrider.key_keeper.create(asker.scope, body.name, body.scopes, asker.actor)
    answer = NewKey(**KeyAnswer.of(made).model_dump(), key=text)
    response = ShownOnce(answer.model_dump_json(), 201, media_type="application/json")
    response.later = answer.model_copy(update={"key": None}).model_dump_json().encode()
    return response


@router.delete(
    "/keys/{key_id}",
    operation_id="revokeKey",
    summary="Revoke an API key permanently",
    openapi_extra=options(scope=KeyScope.ADMIN),
)
async def revoke(key_id: str, request: Request, outrider: Wired, asker: Asker) -> RevokedKey:
    try:
        revoked = await outrider.key_keeper.revoke(asker.scope, KeyId(key_id), asker.actor)
    finally:
        # Even if it failed: it may have been done before the response was lost.
        services_of(request).doorkeeper.forget_revoked(KeyId(key_id))
    return RevokedKey(**KeyAnswer.of(revoked).model_dump())
