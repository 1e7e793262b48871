"""What endpoints depend on: the wired Outrider, the caller, and the page of a list.

They are coroutines, as all of an endpoint's dependencies must be: FastAPI passes a plain function
to a thread, for each request, however little it does.
"""

from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.security import HTTPBearer

from outrider.api.services import Services
from outrider.bootstrap import Outrider
from outrider.domain.keys import Principal
from outrider.limits.api import ApiLimits

_bearer = HTTPBearer(
    auto_error=False, scheme_name="key", description="An API key: `outrider_…`, or the root key."
)


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _outrider(request: Request) -> Outrider:
    return services_of(request).outrider


async def _principal(request: Request, _: Annotated[object, Depends(_bearer)]) -> Principal:
    """The route has authenticated; declaring the scheme adds it to the OpenAPI document."""
    principal: Principal = request.state.principal
    return principal


async def _registry(request: Request) -> None:
    await services_of(request).require_registry()


Wired = Annotated[Outrider, Depends(_outrider)]
Asker = Annotated[Principal, Depends(_principal)]
NEEDS_REGISTRY = Depends(_registry)

Limit = Annotated[int, Query(ge=1, le=ApiLimits.page_max, description="Maximum number of items.")]
After = Annotated[
    str | None,
    Query(
        max_length=ApiLimits.cursor_max_characters,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="The `next` of the previous page.",
    ),
]
PAGE_DEFAULT = ApiLimits.page_default
