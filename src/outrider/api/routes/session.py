"""Signing in to the console: a key once, and from then on a cookie that no script can read."""

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from outrider.api import bodies, sessions
from outrider.api.context import services_of
from outrider.api.models.common import Success
from outrider.api.models.problems import PROBLEMS
from outrider.api.models.sessions import SessionAnswer, SignInBody
from outrider.api.route import NotedRoute
from outrider.documents import Problems
from outrider.kernel.access.session_keeper import Session
from outrider.limits.api import ApiLimits

router = APIRouter(route_class=NotedRoute, tags=["session"], strict_content_type=False)

PATH = "/session"
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": SignInBody.model_json_schema()}},
    }
}


def _failures(*statuses: int) -> dict[int | str, dict[str, object]]:
    return {status: PROBLEMS[status] for status in (*statuses, 500, 503)}


@router.post(
    PATH,
    operation_id="signIn",
    summary="Sign in: exchange an API key for a session cookie",
    response_model=SessionAnswer,
    responses=_failures(400, 401, 403, 413, 415, 429),
    openapi_extra=_BODY,
)
async def sign_in(request: Request) -> Response:
    services = services_of(request)
    bodies.require_json(request)
    raw = await bodies.read_bounded(request, ApiLimits.body_max_bytes)
    session = await services.doorkeeper.sign_in(request, await _key(raw))
    response = await _answer(request, session)
    sessions.keep(response, session, secure=services.behind_tls)
    return response


@router.get(
    PATH,
    operation_id="getSession",
    summary="Get the current session",
    response_model=SessionAnswer,
    responses=_failures(401),
)
async def show(request: Request) -> Response:
    session = await services_of(request).doorkeeper.session_of(request)
    return await _answer(request, session)


@router.delete(
    PATH,
    operation_id="signOut",
    summary="Sign out",
    response_model=Success,
    responses=_failures(403),
)
async def sign_out(request: Request) -> Response:
    services = services_of(request)
    token = sessions.token_of(request)
    session = await services.outrider.session_keeper.find(token) if token else None
    if session is not None:
        sessions.require_own_page(request, session)
    response = JSONResponse(Success().model_dump())
    sessions.forget(response, secure=services.behind_tls)
    return response


async def _key(raw: bytes) -> str:
    try:
        return SignInBody.model_validate(await bodies.strict_json(raw)).key
    except ValidationError as error:
        problems = Problems("request")
        problems.add_all(error)
        raise problems.error() from None


async def _answer(request: Request, session: Session) -> JSONResponse:
    workspace = await services_of(request).outrider.session_keeper.workspace_of(session)
    return JSONResponse(SessionAnswer.of(session, workspace).model_dump(mode="json"))
