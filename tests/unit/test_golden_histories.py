"""Stored histories, replayed: today's code makes of yesterday's events what it made of them then.

The events are as `GET /runs/{runId}/events` gives them. An expectation is only ever changed
together with the contract.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.ids import RunId
from outrider.domain.projection import (
    RunSnapshot,
    incremental_project,
    phase_state,
    project_run,
    row_status,
)
from outrider.domain.run_events import RunEvent, event_key
from outrider.domain.snapshot_documents import snapshot_document, snapshot_from

GOLDEN = Path(__file__).parents[1] / "golden"
HISTORIES = sorted(GOLDEN.glob("*.json"))
KINDS = {
    "plain", "paused_and_resumed", "lease_lost", "step_retried", "cancelled", "failed", "gaps",
    "of_a_later_version", "late_start",
}  # fmt: skip

History = dict[str, Any]


@pytest.fixture(params=HISTORIES, ids=[file.stem for file in HISTORIES])
def history(request: pytest.FixtureRequest) -> History:
    read: History = json.loads(request.param.read_text())
    return read


def events_of(history: History) -> list[RunEvent]:
    return [
        RunEvent(
            run_id=RunId(line["runId"]),
            run_seq=line["runSeq"],
            type=line["eventType"],
            occurred_at=datetime.fromisoformat(line["occurredAt"]),
            step_id=line["stepId"],
            logical_attempt=int(line["logicalAttemptId"]),
            engine_attempt=line["engineAttemptId"] and int(line["engineAttemptId"]),
            payload=line["payload"],
            emitter=line["emittedBy"],
            plan_version=line["planVersion"],
            idempotency_key=line["idempotencyKey"],
        )
        for line in history["events"]
    ]


def seen(snapshot: RunSnapshot) -> dict[str, object]:
    """Without the version: the histories are older than it."""
    document = snapshot_document(snapshot)
    assert document.pop("contractVersion") == CONTRACT_VERSION
    return {
        "rowStatus": row_status(snapshot),
        "phaseState": phase_state(snapshot),
        "snapshot": document,
    }


def test_there_is_a_history_of_every_kind() -> None:
    assert {file.stem for file in HISTORIES} == KINDS


def test_a_stored_history_gives_the_snapshots_it_always_gave(history: History) -> None:
    log = events_of(history)
    assert history["expected"]
    for at, expected in history["expected"].items():
        upto = [event for event in log if event.run_seq <= int(at)]
        assert seen(project_run(log[0].run_id, upto)) == expected, at


def test_it_gives_them_event_by_event_through_stored_documents_too(history: History) -> None:
    log = events_of(history)
    snapshot = RunSnapshot(log[0].run_id)
    for event in log:
        stored = json.dumps(snapshot_document(snapshot))
        snapshot = incremental_project(snapshot_from(json.loads(stored)), [event])
        expected = history["expected"].get(str(event.run_seq))
        assert expected is None or seen(snapshot) == expected


def test_the_keys_of_stored_events_are_the_contracts_formula(history: History) -> None:
    for event in events_of(history):
        assert event.idempotency_key == event_key(
            event.run_id, event.step_id, event.logical_attempt, event.type, event.plan_version
        )
