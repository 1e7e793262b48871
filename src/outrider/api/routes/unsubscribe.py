"""Where the unsubscribe links of messages lead: no key, the signed token is the permission.

A GET only asks, since scanners follow links; a POST opts out, from the page or with one click (RFC
8058). Only invalid tokens are counted and limited, so guessing blocks no real recipient.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from outrider.api import bodies, unsubscribe_page
from outrider.api.context import Wired, services_of
from outrider.api.errors import answer_to
from outrider.api.models.problems import PROBLEMS
from outrider.api.route import NotedRoute
from outrider.domain.errors import SchemaMismatch, StoreUnavailable
from outrider.domain.unsubscribe import PATH, Unsubscription
from outrider.limits.api import ApiLimits

router = APIRouter(route_class=NotedRoute, tags=["unsubscribe"], strict_content_type=False)

TEMPLATE = f"/{PATH}/{{token:path}}"
"""Slashes included: whatever a mail program made of a link, its reader gets a page."""

_HTML = {"text/html": {"schema": {"type": "string"}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {
        "description": "The token is not valid.",
        "content": {**_HTML, **PROBLEMS[404]["content"]},
    },
    429: {"description": "Too many invalid tokens came from this address.", "content": _HTML},
    503: {"description": "The database is unavailable.", "content": _HTML},
}
_FORM = {
    "requestBody": {
        "required": False,
        "description": "As mailbox providers send it. Only `everything` matters: with it, a link"
        " that is for one topic opts out of the whole channel.",
        "content": {
            kind: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "List-Unsubscribe": {"type": "string", "example": "One-Click"},
                        "everything": {"type": "string", "example": "yes"},
                    },
                }
            }
            for kind in ("application/x-www-form-urlencoded", "multipart/form-data")
        },
    }
}


@router.head(TEMPLATE, include_in_schema=False)
@router.get(
    TEMPLATE,
    operation_id="askToUnsubscribe",
    summary="Show a page that asks whether to unsubscribe; nothing is changed",
    response_class=HTMLResponse,
    responses=_RESPONSES,
)
async def ask(token: str, request: Request, outrider: Wired) -> Response:
    return await _answer(
        request, lambda: outrider.unsubscriber.read(token), unsubscribe_page.question
    )


@router.post(
    TEMPLATE,
    operation_id="unsubscribe",
    summary="Opt the recipient out of the message's topic, or of the channel if it has none",
    response_class=HTMLResponse,
    responses={**_RESPONSES, 413: PROBLEMS[413]},
    openapi_extra=_FORM,
)
async def unsubscribe(token: str, request: Request, outrider: Wired) -> Response:
    form = parse_qs(
        (await bodies.read_bounded(request, ApiLimits.form_max_bytes)).decode("ascii", "replace")
    )
    everything = unsubscribe_page.EVERYTHING in form
    return await _answer(
        request,
        lambda: outrider.unsubscriber.unsubscribe(token, everything=everything),
        unsubscribe_page.done,
    )


async def _answer(
    request: Request,
    find: Callable[[], Awaitable[Unsubscription | None]],
    shown: Callable[[Unsubscription], str],
) -> Response:
    try:
        found = await find()
    except (StoreUnavailable, SchemaMismatch) as error:
        response = answer_to(error)
        assert response is not None
        retry = {"Retry-After": response.headers.get("Retry-After", "1")}
        return _page(unsubscribe_page.unavailable(), response.status_code, retry)
    if found is not None:
        return _page(shown(found))
    services = services_of(request)
    address = services.proxies.client_of(request)
    now = services.outrider.clock.now()
    wait = services.failed_tokens.seconds_to_wait(address, now)
    if wait is not None:
        return _page(unsubscribe_page.too_many(), 429, {"Retry-After": str(math.ceil(wait))})
    services.failed_tokens.note_failure(address, now)
    return _page(unsubscribe_page.unknown(), 404)


def _page(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return HTMLResponse(text, status, {**unsubscribe_page.HEADERS, **(headers or {})})
