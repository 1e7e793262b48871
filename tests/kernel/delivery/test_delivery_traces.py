"""Traces of deliveries: the real SDK exports them over OTLP, and a receiver reads its protobuf."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.tracing import delivery_tracer
from tests.support.broken_server import closed_port

pytest.importorskip(
    "opentelemetry.sdk", reason="NOT TESTED: no OpenTelemetry SDK; run `make setup` again"
)
trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

ROOT = Path(__file__).parents[3]
RECIPIENTS = 30
PATIENCE_SECONDS = 120.0
CLIENT, PRODUCER, FAILED = 3, 4, 2
"""Kinds and status of a span, as its protocol numbers them."""


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[Any]]]:
    """Its address, and the spans that it was sent."""
    spans: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        message = trace_service.ExportTraceServiceRequest()
        message.ParseFromString(await request.read())
        for of_resource in message.resource_spans:
            for of_scope in of_resource.scope_spans:
                spans.extend(of_scope.spans)
        body = trace_service.ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = closed_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}", spans
    finally:
        await runner.cleanup()


def attributes(span: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


def of(spans: list[Any], name: str) -> list[Any]:
    return [span for span in spans if span.name == name]


async def test_each_window_is_a_span_and_each_call_one_below_it(tmp_path: Path) -> None:
    dead_port = closed_port()
    async with collector() as (url, spans):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.traced_child", url, str(tmp_path),
            f"http://127.0.0.1:{dead_port}/hidden", str(RECIPIENTS),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    run_id = out.decode().split()[-1]

    windows = {span.span_id: attributes(span) for span in of(spans, "send sms.all")}
    of_run = {key: each for key, each in windows.items() if "outrider.run.id" in each}
    assert {each["outrider.run.id"] for each in of_run.values()} == {run_id}
    assert sum(each["messaging.batch.message_count"] for each in of_run.values()) == RECIPIENTS
    for each in of_run.values():
        assert (each["messaging.system"], each["messaging.operation.type"]) == ("noop", "send")
        assert each["messaging.destination.name"] == "sms.all"
    assert {span.kind for span in of(spans, "send sms.all")} == {PRODUCER}

    calls = of(spans, "call sms.all")
    below = [span for span in calls if span.parent_span_id in of_run]
    assert len(below) == RECIPIENTS
    assert len({attributes(span)["messaging.message.id"] for span in below}) == RECIPIENTS
    assert {span.kind for span in calls} == {CLIENT}
    (alone,) = (span for span in calls if span.parent_span_id not in of_run)
    assert windows[alone.parent_span_id]["messaging.batch.message_count"] == 1

    failed = of(spans, "call sms.dead")[0]
    said = attributes(failed)
    assert (said["server.address"], said["server.port"]) == ("127.0.0.1", dead_port)
    assert said["error.type"] == failed.status.message
    assert failed.status.code == FAILED
    # Ids are shown; addresses, texts and what is secret in a URL are not.
    everything = str(spans)
    assert not any(text in everything for text in ("447700900123", "Hello", "hidden"))


def test_without_an_sdk_there_is_no_tracer_at_all() -> None:
    assert delivery_tracer() is None
