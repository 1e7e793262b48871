"""The application: routes, errors and the envelope around them, over one wired Outrider."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from outrider import __version__
from outrider.api import errors, request_ids
from outrider.api.envelope import Envelope
from outrider.api.idempotency import HEADERS, REPLAYED
from outrider.api.models.problems import ProblemAnswer
from outrider.api.receipt_door import ReceiptDoor
from outrider.api.routes import (
    alerts,
    artifacts,
    audience,
    audit,
    bus,
    campaigns,
    console,
    domain_events,
    doubts,
    events,
    health,
    intents,
    keys,
    outbox,
    people,
    phases,
    policy,
    receipts,
    registry,
    rehearsals,
    repointing,
    run_log,
    runs,
    schemas,
    session,
    signals,
    suppressions,
    targets,
    trouble,
    unsubscribe,
    workers,
    workflows,
)
from outrider.api.services import Services
from outrider.bootstrap import Outrider
from outrider.limits.api import ApiLimits

ROUTERS = (
    # Routers are asked in this order, and most requests are providers' callbacks.
    receipts.door, campaigns.router, audience.router, phases.router, events.router, runs.router,
    run_log.router, signals.router, outbox.router,
    doubts.router, intents.router, domain_events.router, registry.router, suppressions.router,
    keys.router,
    audit.router, artifacts.router, bus.router, alerts.router, unsubscribe.router,
    workflows.router, policy.router, rehearsals.router, targets.router, trouble.router,
    workers.router, health.router, session.router, console.router,
    schemas.router, repointing.router, receipts.router, people.router,
)  # fmt: skip

DESCRIPTION = """\
Campaigns and single messages through a durable ledger. Every change takes an idempotency key, every
error is `application/problem+json` with `error.code`, every list has a cursor."""


def create_app(
    outrider: Outrider,
    *,
    limits: ApiLimits | None = None,
    run_worker: bool = False,
    behind_tls: bool = False,
    on_failure: Callable[[], None] = lambda: None,
) -> FastAPI:
    """`on_failure` is called when a background role has failed for good.

    `behind_tls`: browsers reach it over TLS, so the cookie is restricted to that.
    """
    services = Services(
        outrider,
        limits or ApiLimits(),
        run_worker=run_worker,
        behind_tls=behind_tls,
        on_failure=on_failure,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with services.running():
            yield

    app = FastAPI(
        title="Outrider",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        # FastAPI's own pages would load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        strict_content_type=False,
    )
    app.state.services = services
    errors.install(app, _methods_of)
    for router in ROUTERS:
        app.include_router(router)
    if outrider.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=outrider.settings.cors_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Last-Event-ID", request_ids.HEADER, *HEADERS],
            expose_headers=[request_ids.HEADER, REPLAYED, "Retry-After"],
        )
    app.add_middleware(ReceiptDoor)
    app.add_middleware(Envelope, metrics=services.metrics)
    _document_problems(app)
    return app


def _methods_of(path: str) -> list[str]:
    routes = (route for router in ROUTERS for route in router.routes)
    return sorted(
        method
        for route in routes
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods or ()
    )


def _document_problems(app: FastAPI) -> None:
    """The schemas that errors refer to, which no route returns; and none that is unused."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            schemas = document["components"]["schemas"]
            problem = ProblemAnswer.model_json_schema(
                ref_template="#/components/schemas/{model}", mode="serialization"
            )
            schemas.update(problem.pop("$defs"))
            schemas["ProblemAnswer"] = problem
            for operations in document["paths"].values():
                for operation in operations.values():
                    _without_framework_error(operation)
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _without_framework_error(operation: dict[str, Any]) -> None:
    """FastAPI documents its own 422; ours are 400."""
    documented = operation["responses"].get("422", {})
    if "application/json" in documented.get("content", {}):
        del operation["responses"]["422"]
