"""Monitoring: alive, ready, and metrics. No tenants."""

import asyncio
from datetime import datetime, timedelta
from ipaddress import ip_address

import structlog
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from outrider.api.context import services_of
from outrider.api.errors import ApiError
from outrider.api.metrics import CountedFigures
from outrider.api.models.admin import Health
from outrider.api.models.problems import PROBLEMS
from outrider.api.route import NotedRoute
from outrider.api.services import Services
from outrider.domain.errors import InvalidInput, SchemaMismatch, StoreError
from outrider.kernel.transactions import figures
from outrider.kernel.transactions.alerts import standing_by_code
from outrider.limits.api import ApiLimits

log = structlog.get_logger()

NOT_READY = {
    False: "the database is unavailable or read-only",
    True: "the database schema does not match this server",
}
REDIS_AWAY = "Redis does not answer; idempotency keys are only looked up in the database"

router = APIRouter(route_class=NotedRoute, tags=["health"])


@router.get("/healthz", operation_id="getHealth", summary="Liveness: the process is running")
async def healthz() -> Health:
    return Health(status="alive")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Readiness: the database has the right schema, is writable and has disk space",
    responses={503: PROBLEMS[503]},
)
async def readyz(request: Request) -> Health:
    services = services_of(request)
    redis_away = asyncio.create_task(_redis_is_away(services))
    try:
        await services.database.require("schema", services.outrider.store.verify_schema())
        await services.database.require("room", services.outrider.check_writable())
    except StoreError as error:
        redis_away.cancel()
        log.warning("not_ready", error=error.message)
        raise ApiError(
            503, "NOT_READY", NOT_READY[isinstance(error, SchemaMismatch)],
            headers={"Retry-After": str(ApiLimits.retry_after_seconds)},
        ) from error  # fmt: skip
    if await redis_away:
        return Health(status="ready", degraded=[REDIS_AWAY])
    return Health(status="ready")


async def _redis_is_away(services: Services) -> bool:
    try:
        async with asyncio.timeout(services.limits.redis_silence_seconds):
            return await services.outrider.answer_finder.is_away()
    except TimeoutError:
        return True


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Prometheus metrics; with a key, or by `metrics_without_key` from this machine",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        401: PROBLEMS[401],
        403: PROBLEMS[403],
        429: PROBLEMS[429],
    },
)
async def metrics(request: Request) -> Response:
    services = services_of(request)
    if not (services.outrider.settings.metrics_without_key and _is_here(request)):
        await services.doorkeeper.admit_watcher(request)
    found: CountedFigures | None = None
    try:
        bypasses, in_doubt, jobs = await services.outrider.store.read(figures.figures())
        lag_seconds = await services.outrider.projector.lag_seconds()
        projected = services.outrider.projector.projected_events
        alerts = await services.outrider.store.read(standing_by_code())
        sinks = await services.outrider.bus_keeper.sinks()
        targets, now = await _target_figures(services)
        found = CountedFigures(
            bypasses, in_doubt, jobs, lag_seconds, projected, alerts, sinks, targets,
            _registry_targets(services), now, await services.outrider.blocker_finder.blocked_runs(),
        )  # fmt: skip
    except StoreError as error:
        log.warning("figures_not_read", error=error.message)
    return Response(services.metrics.page(found), media_type=CONTENT_TYPE_LATEST)


async def _target_figures(services: Services) -> tuple[figures.TargetFigures, datetime]:
    outrider = services.outrider
    now = outrider.clock.now()
    silent_before = now - timedelta(seconds=outrider.limits.worker_silent_seconds)
    script = figures.target_figures(now, silent_before, outrider.limits.page_items)
    return await outrider.store.read(script), now


def _registry_targets(services: Services) -> list[str]:
    try:
        return list(services.outrider.registry_keeper.contracts())
    except InvalidInput:
        return []


def _is_here(request: Request) -> bool:
    """As far as can be determined: a local proxy need not say whom it serves."""
    forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
    try:
        return (
            not forwarded
            and request.client is not None
            and ip_address(request.client.host).is_loopback
        )
    except ValueError:
        return False
