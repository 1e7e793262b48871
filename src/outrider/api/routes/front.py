"""The page at the root, until the console takes its place."""

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from outrider import __version__
from outrider.api.route import NotedRoute

router = APIRouter(route_class=NotedRoute, include_in_schema=False)

PAGE = f"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Outrider</title></head>
<body>
<h1>Outrider {__version__}</h1>
<p>The API is at <code>/api/v2</code>. The console comes later.</p>
<ul>
<li><a href="/openapi.json">openapi.json</a></li>
<li><a href="/healthz">healthz</a></li>
<li><a href="/readyz">readyz</a></li>
<li><a href="/metrics">metrics</a></li>
</ul>
</body>
</html>
"""


@router.get("/")
async def front() -> HTMLResponse:
    return HTMLResponse(PAGE)
