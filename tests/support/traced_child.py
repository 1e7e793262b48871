"""A process with OpenTelemetry's SDK that sends a campaign and two single messages, and ends.

In a process of its own, because a process has one provider of tracers, for good.
"""

import asyncio
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import target, until_terminal
from tests.support.controls import begun, created
from tests.support.eventually import eventually
from tests.support.whole_runs import opened, working

TARGET, DEAD = "sms.all", "sms.dead"


async def send(folder: Path, dead_url: str, recipients: int) -> str:
    """The id of the run."""
    targets = target(TARGET, "noop", "noop:"), target(DEAD, "sms", dead_url)
    database = f"sqlite:///{folder}/traced.db"
    async with opened(database, folder, *targets) as outrider, working(outrider):
        run_id = await begun(outrider, await created(outrider, recipients))
        await until_terminal(outrider, run_id)
        payload = {"to": "+447700900123", "message": "Hello"}
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission("one", TARGET, payload))
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission("two", DEAD, payload))
        await eventually(lambda: _is_called(outrider, "one"))
        await eventually(lambda: _is_called(outrider, "two"))
    return run_id


async def _is_called(outrider: Outrider, intent_id: str) -> bool:
    intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
    return intent.final_outcome is not None or intent.reason is not None


def main(collector: str, folder: str, dead_url: str, recipients: str) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "outrider"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector}/v1/traces")))
    trace.set_tracer_provider(provider)
    print(asyncio.run(send(Path(folder), dead_url, int(recipients))))
    provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
