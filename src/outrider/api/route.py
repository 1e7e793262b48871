"""A route of the API: who may call it, how much they may send, and how repeats are answered.

In this order, before the endpoint runs: authenticate, bound and read the body, claim the
idempotency key, and parse JSON strictly. The OpenAPI document gets the same options.
"""

import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from outrider.api import bodies, envelope
from outrider.api.auth import ScopeMissing
from outrider.api.context import services_of
from outrider.api.errors import answer_to
from outrider.api.idempotency import HEADERS, KEY_MAX_CHARACTERS, key_of, request_key
from outrider.api.models.problems import PROBLEMS
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId
from outrider.domain.keys import KeyScope, Principal
from outrider.domain.phases import Action
from outrider.limits.api import ApiLimits

PREFIX = "/api/v2"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

SCOPE = "x-required-scope"
BODY_MOST = "x-max-body-bytes"
BODY_KIND = "x-body"
IDEMPOTENT = "x-idempotency-key"
READS = "x-reads"
CONTROLS = "x-controls"
REQUEST_KEY = "request_key"
"""Where a control's endpoint finds the key that it has to commit with its change."""


class BodyKind(StrEnum):
    """JSON is parsed strictly before the endpoint; raw bytes and streams are the endpoint's."""

    JSON = "json"
    RAW = "raw"
    STREAM = "stream"


def options(
    *,
    scope: KeyScope | None = None,
    body: BodyKind = BodyKind.JSON,
    body_most: int = ApiLimits.body_max_bytes,
    idempotent: bool = True,
    reads: bool = False,
    controls: bool = False,
    request_body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A route's options, as its `openapi_extra`. `reads`: reads like a GET, at length. `controls`:
    its endpoint commits the idempotency key together with its change."""
    said: dict[str, Any] = {
        BODY_KIND: body.value,
        BODY_MOST: body_most,
        IDEMPOTENT: idempotent,
        READS: reads,
        CONTROLS: controls,
    }
    if scope is not None:
        said[SCOPE] = scope.value
    if request_body is not None:
        said["requestBody"] = request_body
    return said


class NotedRoute(APIRoute):
    """Leaves its template and parameters in the request's state, for the log and the metrics."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            self.note(request)
            return await handler(request)

        return handle

    def note(self, request: Request) -> None:
        setattr(request.state, envelope.TEMPLATE, self.path_format)
        setattr(request.state, envelope.PATH_PARAMS, dict(request.path_params))


class ApiRoute(NotedRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        said = given.pop("openapi_extra", None) or options()
        changes = bool(set(given.get("methods") or ["GET"]) - {"GET"})
        said.setdefault(SCOPE, KeyScope.OPERATE.value if changes else KeyScope.READ.value)
        self.needed = KeyScope(said[SCOPE])
        self.body_kind = BodyKind(said.pop(BODY_KIND))
        self.body_most: int = said[BODY_MOST]
        self.idempotent = changes and bool(said.pop(IDEMPOTENT))
        self.changes = changes
        self.controls = bool(said.pop(CONTROLS, False))
        self.reads = bool(said.pop(READS, False)) or not changes
        if not changes:
            del said[BODY_MOST]
        if self.idempotent:
            said["parameters"] = _KEY_PARAMETERS
        given["responses"] = {**PROBLEMS, **(given.get("responses") or {})}
        super().__init__(path, endpoint, openapi_extra=said, **given)

    def get_route_handler(self) -> Handler:
        handler = self._in_turn(super().get_route_handler())

        async def handle(request: Request) -> Response:
            self.note(request)
            if self.changes:
                return await admitted(request)
            return await services_of(request).database.found(admitted(request))

        async def admitted(request: Request) -> Response:
            services = services_of(request)
            try:
                principal = await services.doorkeeper.admit(request, self.needed)
            except ScopeMissing as refused:
                if self.controls:
                    await _record_refusal(request, refused)
                raise
            request.state.principal = principal
            if not self.changes or self.body_kind is BodyKind.STREAM:
                return await handler(request)
            bodies.check_length(request, self.body_most)
            size = bodies.announced_bytes(request, self.body_most)
            if size <= services.limits.form_max_bytes:
                return await self._answer(request, handler)
            async with services.bodies.holding(principal.scope, size):
                return await self._answer(request, handler)

        return handle

    async def _answer(self, request: Request, handler: Handler) -> Response:
        services, principal = services_of(request), request.state.principal
        raw = await bodies.read_bounded(request, self.body_most)
        key = key_of(request.headers) if self.idempotent else None

        async def work() -> Response:
            parsed = None
            if raw and self.body_kind is BodyKind.JSON:
                bodies.require_json(request)
                parsed = await bodies.strict_json(raw, services.limits.json_here_max_bytes)
            return await handler(ReadRequest(request, raw, parsed))

        if key is None:
            return await work()
        named = request_key(request, principal.scope, key, hashlib.sha256(raw).hexdigest())
        if self.controls:
            setattr(request.state, REQUEST_KEY, named)
            return await services.once.control(named, answered(work))
        return await services.once.answer(named, answered(work))

    def _in_turn(self, handler: Handler) -> Handler:
        """A read waits for its workspace's turn, so that none takes all of the store's
        connections."""
        if not self.reads:
            return handler

        async def handle(request: Request) -> Response:
            principal: Principal = request.state.principal
            async with services_of(request).reads.turn(principal.scope):
                return await handler(request)

        return handle


async def _record_refusal(request: Request, refused: ScopeMissing) -> None:
    """A refused attempt to control a run is in its log, even if it was refused here."""
    campaign_id, phase = request.path_params["campaign_id"], request.path_params.get("phase")
    action = Action(request.url.path.rstrip("/").rsplit("/", 1)[-1])
    principal = refused.principal
    recorder = services_of(request).outrider.refusal_recorder
    # Another workspace's campaign is treated as missing: the refusal stays the same.
    with suppress(NotFound):
        await recorder.record_at_door(
            principal.scope, CampaignId(campaign_id), phase, action, principal.actor,
            (refused.code, refused.reason),
        )  # fmt: skip


class ReadRequest(Request):
    """A request whose body was already read and validated."""

    def __init__(self, request: Request, raw: bytes, parsed: object) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self._parsed = parsed

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._parsed


def answered(work: Callable[[], Awaitable[Response]]) -> Callable[[], Awaitable[Response]]:
    """The same work with expected errors as responses, which can be stored."""

    async def answer() -> Response:
        try:
            return await work()
        except Exception as error:
            response = answer_to(error)
            if response is None:
                raise
            return response

    return answer


def api_router(tag: str, route_class: type[ApiRoute] = ApiRoute) -> APIRouter:
    return APIRouter(prefix=PREFIX, route_class=route_class, tags=[tag], strict_content_type=False)


_KEY_PARAMETERS = [
    {
        "name": name,
        "in": "header",
        "required": False,
        "description": "Makes retries safe: for five minutes, a repeated request gets the"
        " first response again.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": KEY_MAX_CHARACTERS,
            "pattern": r"^[\x20-\x7e]+$",
        },
    }
    for name in HEADERS
]
