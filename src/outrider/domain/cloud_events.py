"""Run and message events as CloudEvents 1.0: every sink of the event bus gets the same bytes.

A consumer recognises a repeat by `source` and `id`. Not every bus takes events over 64 KiB: then
the payload stays in the log and the event links to it. `dataschema` points to the JSON Schema of
`data`: at the server's public URL where that is set, else by name.
"""

import json
from urllib.parse import quote

from outrider.domain.contract_versions import CONTRACT_VERSION, major
from outrider.domain.ids import Scope
from outrider.domain.message_events import MessageEvent
from outrider.domain.run_events import RunEvent
from outrider.domain.times import rfc3339

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
CLOUD_EVENT_MAX_BYTES = 64 * 1024
DATA_SCHEMA_PATH = f"/schemas/v{major(CONTRACT_VERSION)}/run-event.json"
DATA_SCHEMA_NAME = f"urn:outrider:schemas:v{major(CONTRACT_VERSION)}:run-event"
MESSAGE_SCHEMA_PATH = f"/schemas/v{major(CONTRACT_VERSION)}/message-event.json"
MESSAGE_SCHEMA_NAME = f"urn:outrider:schemas:v{major(CONTRACT_VERSION)}:message-event"
SEQUENCE_DIGITS = 20
"""As many digits as a 64-bit number has, so that sequences also sort as text."""


def event_id(event: RunEvent) -> str:
    return f"{event.run_id}/{event.run_seq}"


def data_schema(public_url: str | None) -> str:
    """CloudEvents requires an absolute URI, so a path alone is not enough."""
    return DATA_SCHEMA_NAME if public_url is None else public_url + DATA_SCHEMA_PATH


def message_schema(public_url: str | None) -> str:
    return MESSAGE_SCHEMA_NAME if public_url is None else public_url + MESSAGE_SCHEMA_PATH


def message_event_id(event: MessageEvent) -> str:
    return f"{event.outbox_id}/{event.seq}"


def message_cloud_event(
    event: MessageEvent, scope: Scope, schema: str = MESSAGE_SCHEMA_NAME
) -> bytes:
    """Of one item all have its id as `subject` and `partitionkey`."""
    family = "intent" if event.type.startswith("Intent") else "message"
    content = _encoded(
        {
            "specversion": SPEC_VERSION,
            "id": message_event_id(event),
            "source": f"/outrider/workspaces/{scope.workspace_id}",
            "type": f"outrider.{family}.{event.type}",
            "time": rfc3339(event.occurred_at),
            "subject": event.outbox_id,
            "datacontenttype": "application/json",
            "dataschema": schema,
            "partitionkey": event.outbox_id,
            "sequence": f"{event.seq:0{SEQUENCE_DIGITS}d}",
            "tenantid": scope.tenant_id,
            "data": {
                "contractVersion": event.contract_version,
                "eventType": event.type,
                "outboxId": event.outbox_id,
                **event.data,
            },
        }
    )
    assert len(content) <= CLOUD_EVENT_MAX_BYTES, "recording bounds message events"
    return content


def cloud_event(event: RunEvent, scope: Scope, schema: str = DATA_SCHEMA_NAME) -> bytes:
    """The event as JSON, at most 64 KiB."""
    content = _encoded(_document(event, scope, schema, {"payload": dict(event.payload)}))
    if len(content) > CLOUD_EVENT_MAX_BYTES:
        content = _encoded(_document(event, scope, schema, {"payloadRef": _reference(event)}))
    assert len(content) <= CLOUD_EVENT_MAX_BYTES, "all but the payload is small"
    return content


def _document(
    event: RunEvent, scope: Scope, schema: str, payload: dict[str, object]
) -> dict[str, object]:
    subject = {} if event.step_id is None else {"subject": event.step_id}
    return {
        "specversion": SPEC_VERSION,
        "id": event_id(event),
        "source": f"/outrider/workspaces/{scope.workspace_id}",
        "type": f"outrider.run.{event.type}",
        "time": rfc3339(event.occurred_at),
        **subject,
        "datacontenttype": "application/json",
        "dataschema": schema,
        "partitionkey": event.run_id,
        "sequence": f"{event.run_seq:0{SEQUENCE_DIGITS}d}",
        "tenantid": scope.tenant_id,
        "data": {
            "contractVersion": event.contract_version,
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
    """The API path at which the whole event can be read."""
    return f"/api/v2/runs/{quote(event.run_id)}/events?after={event.run_seq - 1}&limit=1"


def _encoded(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
