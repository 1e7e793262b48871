"""Run events as CloudEvents 1.0: what every sink of the event bus is told, byte for byte the same.

A consumer knows a repeat by `source` and `id`. An event of more than 64 KiB would not pass through
every bus: its payload stays in the log, and the event says where.
"""

import json
from urllib.parse import quote

from outrider.domain.ids import Scope
from outrider.domain.run_events import RunEvent
from outrider.domain.times import rfc3339

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
CLOUD_EVENT_MAX_BYTES = 64 * 1024
SEQUENCE_DIGITS = 20
"""As many as a 64-bit number has, so that sequences sort as text too."""


def event_id(event: RunEvent) -> str:
    return f"{event.run_id}/{event.run_seq}"


def cloud_event(event: RunEvent, scope: Scope) -> bytes:
    """The event as JSON, of 64 KiB at the most."""
    content = _encoded(_document(event, scope, {"payload": dict(event.payload)}))
    if len(content) > CLOUD_EVENT_MAX_BYTES:
        content = _encoded(_document(event, scope, {"payloadRef": _reference(event)}))
    assert len(content) <= CLOUD_EVENT_MAX_BYTES, "all but the payload is small"
    return content


def _document(event: RunEvent, scope: Scope, payload: dict[str, object]) -> dict[str, object]:
    subject = {} if event.step_id is None else {"subject": event.step_id}
    return {
        "specversion": SPEC_VERSION,
        "id": event_id(event),
        "source": f"/outrider/workspaces/{scope.workspace_id}",
        "type": f"outrider.run.{event.type}",
        "time": rfc3339(event.occurred_at),
        **subject,
        "datacontenttype": "application/json",
        "partitionkey": event.run_id,
        "sequence": f"{event.run_seq:0{SEQUENCE_DIGITS}d}",
        "tenantid": scope.tenant_id,
        "data": {
            "runId": event.run_id,
            "runSeq": event.run_seq,
            "eventType": event.type,
            "stepId": event.step_id,
            "logicalAttemptId": str(event.logical_attempt),
            "engineAttemptId": None if event.engine_attempt is None else str(event.engine_attempt),
            "planVersion": event.plan_version,
            "emitter": event.emitter,
            "idempotencyKey": event.idempotency_key,
            **payload,
        },
    }


def _reference(event: RunEvent) -> str:
    """Where the whole event can be read: a path of the API."""
    return f"/api/v2/runs/{quote(event.run_id)}/events?after={event.run_seq - 1}&limit=1"


def _encoded(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
