"""Folding a run's events: the contract's reduction, watermarks, unknown types, time travel."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.ids import RunId
from outrider.domain.projection import (
    RunSnapshot,
    SnapshotStatus,
    StepStatus,
    detect_non_contiguous,
    incremental_project,
    project_run,
    snapshot_document,
)
from outrider.domain.run_events import EMITTERS, RunEvent, RunEventType, event_key

RUN = RunId("01a1e20a-1c62-7f23-979d-e36f7b093e5b")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEP_EVENTS = ("StepStarted", "StepCompleted", "StepFailed", "StepSkipped")


def event(seq: int, kind: str, step: str | None = None, **payload: object) -> RunEvent:
    at = NOON + timedelta(seconds=seq)
    return RunEvent(RUN, seq, kind, at, step, engine_attempt=1, payload=payload)


def history() -> list[RunEvent]:
    return [
        event(1, "RunApproved"),
        event(3, "RunStarted", engineRunRef="local"),
        event(4, "StepStarted", "a"),
        event(5, "StepStarted", "b"),
        event(8, "StepCompleted", "a", artifacts=[{"uri": "file:x", "kind": "csv"}]),
        event(9, "RunPaused"),
        event(10, "RunResumed"),
        event(11, "StepFailed", "b", error={"code": "job_dead", "message": "x"}),
        event(12, "RunCompleted"),
    ]


@pytest.mark.parametrize(
    ("upto", "status"),
    [(0, "PENDING"), (1, "APPROVED"), (2, "RUNNING"), (6, "PAUSED"), (7, "RUNNING"),
     (9, "COMPLETED")],
)  # fmt: skip
def test_each_event_sets_the_status_the_contract_names(upto: int, status: str) -> None:
    assert project_run(RUN, history()[:upto]).status == status


@pytest.mark.parametrize(
    ("kind", "status"), [("RunFailed", "FAILED"), ("RunCancelled", "CANCELLED")]
)
def test_a_run_can_end_otherwise(kind: str, status: str) -> None:
    ended = project_run(RUN, [*history()[:5], event(20, kind, rootCause="why")])
    assert ended.status == status
    assert ended.completed_at == NOON + timedelta(seconds=20)


def test_steps_have_their_status_error_and_artifacts() -> None:
    done = project_run(RUN, history())
    assert {name: step.status for name, step in done.steps.items()} == {
        "a": StepStatus.SUCCESS, "b": StepStatus.FAILED,
    }  # fmt: skip
    assert done.failed_steps == 1
    assert [dict(each) for each in done.artifacts] == [{"uri": "file:x", "kind": "csv"}]
    assert done.total_duration_ms == 9_000


def test_the_watermark_is_the_highest_sequence_applied_and_gaps_are_natural() -> None:
    assert project_run(RUN, history()).last_event_seq == 12
    assert detect_non_contiguous(10, 12)
    assert not detect_non_contiguous(10, 11)
    assert not detect_non_contiguous(10, 10)


def test_an_unknown_type_moves_the_watermark_and_nothing_else() -> None:
    before = project_run(RUN, history())
    after = incremental_project(before, [event(13, "StepTeleported", "a")])
    assert after.last_event_seq == 13
    assert after.status == before.status
    assert after.steps == before.steps


def test_a_signal_changes_no_status() -> None:
    before = project_run(RUN, history()[:5])
    after = incremental_project(before, [event(30, "SignalAccepted", signal="CANCEL")])
    assert after.status is SnapshotStatus.RUNNING


def test_events_out_of_order_are_refused_not_reordered() -> None:
    with pytest.raises(ValueError, match="comes after"):
        project_run(RUN, [event(2, "RunStarted"), event(1, "RunApproved")])


def test_a_snapshot_is_never_changed_in_place() -> None:
    before = project_run(RUN, history()[:4])
    document = snapshot_document(before)
    incremental_project(before, history()[4:])
    assert snapshot_document(before) == document
    with pytest.raises(TypeError):
        before.steps["a"] = before.steps["b"]  # type: ignore[index]


events = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([*RunEventType, "SomethingNew"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=30,
)


def numbered(drawn: list[tuple[int, str, str]]) -> list[RunEvent]:
    seq, found = 0, []
    for step, kind, name in drawn:
        seq += step
        found.append(event(seq, kind, name if kind in STEP_EVENTS else None))
    return found


@given(events, st.data())
def test_projecting_in_pieces_with_repeats_gives_what_projecting_at_once_gives(
    drawn: list[tuple[int, str, str]], data: st.DataObject
) -> None:
    log = numbered(drawn)
    snapshot = RunSnapshot(RUN)
    position = 0
    while position < len(log):
        # A projector that crashed begins again somewhere before where it was.
        begin = data.draw(st.integers(0, position))
        position = data.draw(st.integers(position + 1, len(log)))
        snapshot = incremental_project(snapshot, log[begin:position])
    assert snapshot == project_run(RUN, log)


def test_the_key_is_the_contracts_formula_and_the_engines_attempt_is_no_part_of_it() -> None:
    expected = hashlib.sha256(f"{RUN}|step|2|StepStarted|1".encode()).hexdigest()
    assert event_key(RUN, "step", 2, "StepStarted", "1") == expected
    of_run = hashlib.sha256(f"{RUN}||1|RunStarted|1".encode()).hexdigest()
    assert event_key(RUN, None, 1, "RunStarted", "1") == of_run


def test_every_canonical_event_has_its_emitter() -> None:
    assert set(EMITTERS) == set(RunEventType)
    assert len(RunEventType) == 13
