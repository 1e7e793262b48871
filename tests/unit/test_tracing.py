"""Spans of requests: what they are called, what they carry, and whose children they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from outrider import tracing

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorder:
    """A tracer that remembers; an SDK would send."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []

    @contextmanager
    def start_as_current_span(
        self, name: str, context: Any, kind: SpanKind, attributes: dict[str, str]
    ) -> Iterator[Span]:
        parent = trace.get_current_span(context).get_span_context()
        self.begun.append({"name": name, "parent": parent, "kind": kind, **attributes})
        yield INVALID_SPAN


def test_a_request_is_a_server_span_below_its_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(tracing, "_tracer", recorder)
    with tracing.request_span("POST", "request-1", {"traceparent": CALLER}):
        pass
    (begun,) = recorder.begun
    assert (begun["name"], begun["kind"]) == ("POST", SpanKind.SERVER)
    assert begun[tracing.REQUEST_ID] == "request-1"
    assert f"{begun['parent'].trace_id:032x}" == CALLER.split("-")[1]


def test_without_an_sdk_a_span_records_nothing() -> None:
    with tracing.request_span("GET", "request-2", {}) as span:
        span.set_attributes({tracing.ROUTE: "/api/v2/campaigns"})
        assert not span.is_recording()
