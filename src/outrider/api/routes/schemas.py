"""The published JSON Schemas, at the URLs in `dataschema`: public, since they hold no data."""

from functools import cache
from importlib import resources

from fastapi import APIRouter
from starlette.responses import Response

from outrider.api.errors import ApiError
from outrider.api.route import NotedRoute

router = APIRouter(route_class=NotedRoute, include_in_schema=False)

FOLDER = "schemas"
MEDIA_TYPE = "application/schema+json"
HEADERS = {"Cache-Control": "public, max-age=3600"}


@router.api_route(f"/{FOLDER}/{{version}}/{{name}}", methods=["GET", "HEAD"])
async def schema(version: str, name: str) -> Response:
    found = _schemas().get(f"{version}/{name}")
    if found is None:
        raise ApiError(404, "NOT_FOUND", "there is no schema with this name")
    return Response(found, 200, HEADERS, MEDIA_TYPE)


@cache
def _schemas() -> dict[str, bytes]:
    """Read once from the package: no request path ever reaches a disk."""
    return {
        f"{version.name}/{each.name}": each.read_bytes()
        for version in (resources.files("outrider") / FOLDER).iterdir()
        for each in version.iterdir()
        if each.name.endswith(".json")
    }
