"""What every request goes through: an id, a span, security headers, one log line.

It is the outermost layer, so that every response passes it; an unexpected error becomes a 500 here
that contains only the request's id.
"""

import time
import uuid
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outrider import tracing
from outrider.api import request_ids
from outrider.api.errors import unforeseen
from outrider.api.failures import log_failure
from outrider.api.metrics import Metrics

log = structlog.get_logger()

UNMATCHED = "unmatched"
CLIENT_GONE = 499
PROTECTIONS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": (
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PROTECTIONS = [(name.lower().encode(), value.encode()) for name, value in PROTECTIONS.items()]
_REQUEST_ID = request_ids.HEADER.lower().encode()
TEMPLATE = "route_template"
PATH_PARAMS = "path_params"
PRINCIPAL = "principal"
"""What the routes leave in the request's state for the log."""


class Envelope:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(request_ids.HEADER, "")
        request_id = given if request_ids.is_fit(given) else str(uuid.uuid4())
        request_ids.use(request_id)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        state = scope.setdefault("state", {})
        status = 0

        async def send_protected(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers_given = message["headers"]
                present = {name.lower() for name, _ in headers_given}
                message["headers"] = [
                    *headers_given,
                    *(each for each in _PROTECTIONS if each[0] not in present),
                    (_REQUEST_ID, request_id.encode("latin-1")),
                ]
            await send(message)

        method, started = scope["method"], time.perf_counter()
        with tracing.request_span(method, request_id, headers) as span:
            try:
                await self._app(scope, receive, send_protected)
            except ClientDisconnect:
                status = status or CLIENT_GONE
            except Exception as error:
                log_failure(error)
                if status:
                    # The response had started; all that is left is to abort it.
                    raise
                await unforeseen()(scope, receive, send_protected)
            finally:
                seconds = time.perf_counter() - started
                noted = _noted(state)
                route = state.get(TEMPLATE, UNMATCHED)
                span.update_name(f"{method} {route}")
                span.set_attributes({tracing.ROUTE: route, tracing.STATUS: status, **noted})
                self._metrics.answered(method, route, status, seconds)
                log.info(
                    "request",
                    method=method,
                    route=route,
                    status=status,
                    duration_ms=round(seconds * 1000, 2),
                    **{name.removeprefix("outrider.").replace(".", "_"): value
                       for name, value in noted.items()},
                )  # fmt: skip


def _noted(state: dict[str, Any]) -> dict[str, str]:
    """Who asked, and for what: ids only."""
    noted = {}
    if principal := state.get(PRINCIPAL):
        noted[tracing.TENANT_ID] = principal.scope.tenant_id
    path = state.get(PATH_PARAMS, {})
    for name, attribute in (("campaign_id", tracing.CAMPAIGN_ID), ("run_id", tracing.RUN_ID)):
        if name in path:
            noted[attribute] = path[name][:64]
    return noted
