"""The published JSON Schemas: all that we write keeps to them, and they name all of it."""

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.unit.test_golden_histories import HISTORIES, events_of

from outrider.domain.cloud_events import (
    CLOUD_EVENT_MAX_BYTES,
    DATA_SCHEMA_NAME,
    DATA_SCHEMA_PATH,
    cloud_event,
    data_schema,
)
from outrider.domain.contract_versions import CONTRACT_VERSION, major
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.projection import project_run
from outrider.domain.run_events import RunEvent, event_key
from outrider.domain.snapshot_documents import snapshot_document, stored_document

Document = dict[str, Any]
FOLDER = resources.files("outrider") / "schemas" / f"v{major(CONTRACT_VERSION)}"
SCHEMAS: dict[str, Document] = {
    each.name.removesuffix(".json"): json.loads(each.read_text()) for each in FOLDER.iterdir()
}
RUN = RunId("01990000-0000-7000-8000-000000000001")


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    registry = jsonschema_rs.Registry([(each["$id"], each) for each in SCHEMAS.values()])
    return jsonschema_rs.Draft202012Validator(
        SCHEMAS[name], registry=registry, validate_formats=True
    )


def problems(name: str, document: object) -> list[str]:
    return [
        f"{error.instance_path}: {error.message}" for error in validator(name).iter_errors(document)
    ]


def unnamed(schema: Document, document: Document) -> set[str]:
    """Fields that the schema does not speak of."""
    return set(document) - set(schema["properties"])


def event(**changes: Any) -> RunEvent:
    key = event_key(RUN, "step-1", 2, "StepCompleted", "1")
    given: Document = {
        "step_id": "step-1", "logical_attempt": 2, "engine_attempt": 3, "payload": {"sent": 5},
        "emitter": "activity", "plan_version": "1", "idempotency_key": key,
    }  # fmt: skip
    return RunEvent(
        RUN, 7, "StepCompleted", datetime(2026, 1, 1, 12, tzinfo=UTC), **{**given, **changes}
    )


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_schema_is_valid_and_has_the_name_of_its_file(name: str) -> None:
    """R7."""
    jsonschema_rs.meta.validate(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"urn:outrider:schemas:v1:{name}"


@pytest.mark.parametrize(
    "given",
    [
        event(),
        event(step_id=None, engine_attempt=None),
        event(payload={"text": "x" * CLOUD_EVENT_MAX_BYTES}),
        event(contract_version="1.0"),
    ],
    ids=["step", "run", "large", "of the version before"],
)
def test_every_cloud_event_keeps_to_its_schema(given: RunEvent) -> None:
    """R7."""
    document = json.loads(cloud_event(given, DEFAULT_SCOPE))
    assert problems("cloud-event", document) == []
    assert unnamed(SCHEMAS["cloud-event"], document) == set()
    assert unnamed(SCHEMAS["run-event"], document["data"]) == set()


@pytest.mark.parametrize(
    "damage",
    [
        {"specversion": "2.0"},
        {"dataschema": "/schemas/v1/run-event.json"},
        {"contractVersion": "1.1"},
        {"data": {}},
    ],
)
def test_an_unknown_event_is_refused(damage: Document) -> None:
    """R7: `dataschema` is a whole URI and names of attributes are lower-case in CloudEvents."""
    assert problems("cloud-event", json.loads(cloud_event(event(), DEFAULT_SCOPE)) | damage)


def test_an_event_of_a_later_minor_version_keeps_to_the_schema_too() -> None:
    """R7: consumers that check are not broken by an additional field or type."""
    document = json.loads(cloud_event(event(contract_version="1.9"), DEFAULT_SCOPE))
    document["data"] |= {"eventType": "StepTeleported", "ofALaterVersion": 1}
    assert problems("cloud-event", document) == []
    document["data"]["contractVersion"] = "2.0"
    assert problems("cloud-event", document) != []


@pytest.mark.parametrize("file", HISTORIES, ids=[file.stem for file in HISTORIES])
def test_every_snapshot_keeps_to_its_schema(file: Path) -> None:
    """R7."""
    log = events_of(json.loads(file.read_text()))
    schema = SCHEMAS["run-snapshot"]
    for upto in range(len(log) + 1):
        snapshot = project_run(log[0].run_id, log[:upto])
        for written in (snapshot_document(snapshot), stored_document(snapshot)):
            document = json.loads(json.dumps(written))
            assert problems("run-snapshot", document) == []
            assert unnamed(schema, document) == set()
            for step in document["steps"]:
                assert unnamed(schema["$defs"]["step"], step) == set()


def test_dataschema_is_at_the_public_address_where_that_is_known() -> None:
    """R7."""
    assert data_schema(None) == DATA_SCHEMA_NAME == SCHEMAS["run-event"]["$id"]
    assert data_schema("https://news.example") == f"https://news.example{DATA_SCHEMA_PATH}"
    document = json.loads(cloud_event(event(), DEFAULT_SCOPE, data_schema("https://news.example")))
    assert document["dataschema"] == "https://news.example/schemas/v1/run-event.json"
    assert problems("cloud-event", document) == []
