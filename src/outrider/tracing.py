"""Spans through OpenTelemetry's API; without an installed SDK they are no-ops, or not even made.

The attribute names are defined only here, because the conventions still change: HTTP's for
requests, and those of messaging for windows of messages and the calls of each.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider.ports.tracing import CallFacts, DeliveryTracer, WindowFacts, WindowTrace

METHOD = "http.request.method"
ROUTE = "http.route"
STATUS = "http.response.status_code"
SYSTEM = "messaging.system"
OPERATION = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
MESSAGE_ID = "messaging.message.id"
MESSAGES = "messaging.batch.message_count"
SERVER = "server.address"
PORT = "server.port"
ERROR = "error.type"
REQUEST_ID = "outrider.request.id"
TENANT_ID = "outrider.tenant.id"
CAMPAIGN_ID = "outrider.campaign.id"
RUN_ID = "outrider.run.id"
JOB_ID = "outrider.job.id"
OUTBOX_ID = "outrider.outbox.id"
ATTEMPT = "outrider.attempt.number"
REPEAT = "outrider.attempt.repeat"

SEND = "send"
CALL = "call"
NANOSECONDS = 1_000_000_000

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


def delivery_tracer() -> DeliveryTracer | None:
    """None if no SDK has been set up: then nothing of a delivery is measured for traces."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return SpanTracer(provider)


class SpanTracer:
    """A window of messages is a span, and each call below it another."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("outrider.delivery")

    def opened(self, window: WindowFacts, seconds: float) -> WindowTrace:
        attributes: dict[str, str | int] = {
            SYSTEM: window.gateway_type,
            OPERATION: SEND,
            OPERATION_TYPE: SEND,
            DESTINATION: window.submission_target,
            MESSAGES: window.messages,
            TENANT_ID: window.tenant_id,
            JOB_ID: window.job_id,
        }
        if window.run_id is not None:
            attributes[RUN_ID] = window.run_id
        span = self._tracer.start_span(
            f"{SEND} {window.submission_target}",
            # Not below whatever happens to run: windows are of their job, not of a request.
            Context(),
            SpanKind.PRODUCER,
            attributes,
            start_time=time.time_ns() - int(seconds * NANOSECONDS),
        )
        return _WindowSpan(self._tracer, span, window)


class _WindowSpan:
    def __init__(self, tracer: Tracer, span: Span, window: WindowFacts) -> None:
        self._tracer = tracer
        self._span = span
        self._context = trace.set_span_in_context(span, Context())
        self._left = window.messages
        self._common: dict[str, str | int] = {
            SYSTEM: window.gateway_type,
            OPERATION: CALL,
            OPERATION_TYPE: SEND,
            DESTINATION: window.submission_target,
            **_server(window.gateway_url),
        }
        self._name = f"{CALL} {window.submission_target}"

    def called(self, call: CallFacts) -> None:
        now = time.time_ns()
        attributes = {
            **self._common,
            MESSAGE_ID: call.reference,
            OUTBOX_ID: call.outbox_id,
            ATTEMPT: call.attempt,
            REPEAT: call.repeat,
        }
        if call.error is not None:
            attributes[ERROR] = call.error
        span = self._tracer.start_span(
            self._name, self._context, SpanKind.CLIENT, attributes,
            start_time=now - int(call.seconds * NANOSECONDS),
        )  # fmt: skip
        if call.error is not None:
            span.set_status(Status(StatusCode.ERROR, call.error))
        span.end(now)
        self.given_back()

    def given_back(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._span.end()


def _server(url: str) -> dict[str, str | int]:
    """Without user, password and path, which may be secret."""
    parts = urlsplit(url)
    found: dict[str, str | int] = {}
    if parts.hostname:
        found[SERVER] = parts.hostname
        if parts.port is not None:
            found[PORT] = parts.port
    return found
