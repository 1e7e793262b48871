"""Run events as CloudEvents: their attributes, their identity, and the largest there may be."""

import json
from datetime import UTC, datetime

from outrider.domain.cloud_events import CLOUD_EVENT_MAX_BYTES, cloud_event
from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.run_events import RunEvent

RUN = RunId("01990000-0000-7000-8000-000000000001")
EVENT = RunEvent(
    RUN, 7, "StepCompleted", datetime(2026, 1, 1, 12, tzinfo=UTC), step_id="step-1",
    logical_attempt=2, engine_attempt=3, payload={"sent": 5}, emitter="activity",
    plan_version="1", idempotency_key="ab" * 32,
)  # fmt: skip


def test_an_event_has_the_attributes_that_cloudevents_asks_for() -> None:
    document = json.loads(cloud_event(EVENT, DEFAULT_SCOPE))
    data = document.pop("data")
    assert document == {
        "specversion": "1.0",
        "id": f"{RUN}/7",
        "source": f"/outrider/workspaces/{DEFAULT_SCOPE.workspace_id}",
        "type": "outrider.run.StepCompleted",
        "time": "2026-01-01T12:00:00Z",
        "subject": "step-1",
        "datacontenttype": "application/json",
        "dataschema": "urn:outrider:schemas:v1:run-event",
        "partitionkey": RUN,
        "sequence": "00000000000000000007",
        "tenantid": DEFAULT_SCOPE.tenant_id,
    }
    assert data == {
        "contractVersion": CONTRACT_VERSION,
        "runId": RUN, "runSeq": 7, "eventType": "StepCompleted", "stepId": "step-1",
        "logicalAttemptId": "2", "engineAttemptId": "3", "planVersion": "1",
        "emitter": "activity", "idempotencyKey": "ab" * 32, "payload": {"sent": 5},
    }  # fmt: skip


def test_an_event_of_the_whole_run_has_no_subject() -> None:
    document = json.loads(
        cloud_event(RunEvent(RUN, 1, "RunStarted", EVENT.occurred_at), DEFAULT_SCOPE)
    )
    assert "subject" not in document
    assert document["data"]["stepId"] is None
    assert document["data"]["engineAttemptId"] is None


def test_attribute_names_are_lower_case_letters_and_digits() -> None:
    names = json.loads(cloud_event(EVENT, DEFAULT_SCOPE)).keys()
    assert [name for name in names if not (name.isalnum() and name.islower())] == []


def test_sequences_sort_as_text() -> None:
    def sequence(number: int) -> str:
        event = RunEvent(RUN, number, "RunStarted", EVENT.occurred_at)
        found: str = json.loads(cloud_event(event, DEFAULT_SCOPE))["sequence"]
        return found

    numbers = [2**63 - 1, 10, 9, 1, 100]
    assert sorted(numbers, key=sequence) == sorted(numbers)


def test_a_payload_that_is_too_large_stays_in_the_log_and_is_referred_to() -> None:
    def with_text(characters: int) -> bytes:
        payload = {"text": "é" * characters}
        return cloud_event(
            RunEvent(RUN, 7, "StepFailed", EVENT.occurred_at, payload=payload), DEFAULT_SCOPE
        )

    fits = (CLOUD_EVENT_MAX_BYTES - len(with_text(0))) // 2
    assert len(json.loads(with_text(fits))["data"]["payload"]["text"]) == fits
    larger = with_text(fits + 1)
    assert len(larger) < CLOUD_EVENT_MAX_BYTES
    data = json.loads(larger)["data"]
    assert "payload" not in data
    assert data["payloadRef"] == f"/api/v2/runs/{RUN}/events?after=6&limit=1"
