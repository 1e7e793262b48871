"""Spans through OpenTelemetry's API; without an installed SDK they are no-ops.

The attribute names are defined only here, because the conventions still change.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

METHOD = "http.request.method"
ROUTE = "http.route"
STATUS = "http.response.status_code"
REQUEST_ID = "outrider.request.id"
TENANT_ID = "outrider.tenant.id"
CAMPAIGN_ID = "outrider.campaign.id"
RUN_ID = "outrider.run.id"

_TRACE_PARENT = "traceparent"
_w3c = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("outrider.api")


@contextmanager
def request_span(method: str, request_id: str, headers: Mapping[str, str]) -> Iterator[Span]:
    """The span of one request, below the caller's if it sent `traceparent`."""
    with _tracer.start_as_current_span(
        method,
        propagate.extract(headers),
        SpanKind.SERVER,
        {METHOD: method, REQUEST_ID: request_id},
    ) as span:
        yield span


def trace_parent() -> str | None:
    """The current span in W3C's form, for its later consequences: this request's own, or its
    caller's if no SDK is installed."""
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    return carrier.get(_TRACE_PARENT)
