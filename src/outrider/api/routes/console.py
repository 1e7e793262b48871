"""The console at the root: a public page and its files; they hold no data."""

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import Response

from outrider.api.console_files import FOLDER, HEADERS, INDEX, ConsoleFile, load_console
from outrider.api.errors import ApiError
from outrider.api.route import NotedRoute

router = APIRouter(route_class=NotedRoute, include_in_schema=False)

READING = ["GET", "HEAD"]


@router.api_route("/", methods=READING)
async def index(request: Request) -> Response:
    return _answer(request, INDEX)


@router.api_route(f"/{FOLDER}/{{name:path}}", methods=READING)
async def asset(name: str, request: Request) -> Response:
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    found = _console().get(name)
    if found is None:
        raise ApiError(404, "NOT_FOUND", "nothing was found at this path")
    headers = {**HEADERS, "ETag": found.etag}
    if found.is_known_to(request.headers.get("if-none-match")):
        return Response(None, 304, headers)
    return Response(found.content, 200, headers, found.media_type)


@cache
def _console() -> dict[str, ConsoleFile]:
    return load_console()
