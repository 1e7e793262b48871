"""Folding a run's events: the contract's reduction, watermarks, unknown types, time travel."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.ids import RunId
from outrider.domain.projection import (
    Hole,
    RunSnapshot,
    SnapshotStatus,
    StepStatus,
    detect_non_contiguous,
    first_hole,
    incremental_project,
    phase_state,
    project_run,
    row_status,
)
from outrider.domain.run_events import EMITTERS, RunEvent, RunEventType, event_key
from outrider.domain.snapshot_documents import snapshot_document, snapshot_from

RUN = RunId("01a1e20a-1c62-7f23-979d-e36f7b093e5b")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEP_EVENTS = ("StepStarted", "StepCompleted", "StepFailed", "StepSkipped")


def event(
    seq: int,
    kind: str,
    step: str | None = None,
    *,
    attempt: int = 1,
    engine: int | None = 1,
    **payload: object,
) -> RunEvent:
    return RunEvent(RUN, seq, kind, at(seq), step, attempt, engine, payload)


def at(seq: int) -> datetime:
    return NOON + timedelta(seconds=seq)


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


def test_an_accepted_cancel_is_remembered_and_no_other_signal_is() -> None:
    before = project_run(RUN, history()[:5])
    for kind, signal in (("SignalAccepted", "PAUSE"), ("SignalRejected", "CANCEL")):
        after = incremental_project(before, [event(30, kind, signal=signal)])
        assert not after.cancel_requested
    after = incremental_project(before, [event(30, "SignalAccepted", signal="CANCEL")])
    assert after.cancel_requested
    assert not before.cancel_requested


@pytest.mark.parametrize("end", ["RunCompleted", "RunFailed", "RunCancelled"])
@pytest.mark.parametrize("late", [kind for kind in RunEventType if kind.startswith("Run")])
def test_nothing_changes_the_status_of_a_run_that_has_ended(end: str, late: str) -> None:
    ended = project_run(RUN, [*history()[:5], event(20, end)])
    after = incremental_project(ended, [event(21, late, rootCause="late", engineRunRef="late")])
    assert after.last_event_seq == 21
    assert snapshot_document(after) | {"lastEventSeq": 20} == snapshot_document(ended)


# Steps and their attempts


@pytest.mark.parametrize("end", ["StepCompleted", "StepFailed", "StepSkipped"])
def test_a_late_start_never_takes_a_step_back(end: str) -> None:
    ended = project_run(RUN, [event(4, end, "a", engine=3, outcome="failed")])
    started = RunEvent(RUN, 5, "StepStarted", at(2), "a", engine_attempt=1)
    after = incremental_project(ended, [started])
    known, step = ended.steps["a"], after.steps["a"]
    assert known.started_at is None
    assert step.started_at == at(2)
    assert (step.status, step.engine_attempt) == (known.status, 3)
    assert (step.completed_at, step.outcome) == (known.completed_at, known.outcome)
    assert after.failed_steps == ended.failed_steps


def test_a_higher_logical_attempt_restarts_a_step() -> None:
    failed = project_run(RUN, [
        event(1, "StepStarted", "a"),
        event(2, "StepFailed", "a", outcome="failed", sent=0, failed=5, skipped=0,
              error={"code": "JOB_DEAD", "message": "x", "retryable": True}),
    ])  # fmt: skip
    assert failed.failed_steps == 1
    again = incremental_project(failed, [event(3, "StepStarted", "a", attempt=2)])
    step = again.steps["a"]
    assert (step.status, step.logical_attempt, step.started_at) == (StepStatus.RUNNING, 2, at(3))
    assert (step.error, step.completed_at, step.outcome, step.counts) == (None, None, None, None)
    assert again.failed_steps == 0


def test_the_end_of_a_higher_attempt_whose_start_is_late_owes_the_earlier_one_nothing() -> None:
    done = project_run(RUN, [
        event(1, "StepStarted", "a"),
        event(2, "StepFailed", "a"),
        event(3, "StepCompleted", "a", attempt=2, engine=None),
    ])  # fmt: skip
    step = done.steps["a"]
    assert (step.started_at, step.error, step.engine_attempt) == (None, None, None)
    late = incremental_project(done, [event(4, "StepStarted", "a", attempt=2)])
    assert late.steps["a"].started_at == at(4)
    assert late.steps["a"].status is StepStatus.SUCCESS


@pytest.mark.parametrize("kind", STEP_EVENTS)
def test_events_of_a_lower_logical_attempt_change_nothing(kind: str) -> None:
    second = project_run(RUN, [event(1, "StepStarted", "a", attempt=2)])
    after = incremental_project(second, [event(2, kind, "a", attempt=1, engine=7)])
    assert after.steps == second.steps
    assert after.last_event_seq == 2


def test_the_engines_attempt_is_the_latest_reported_one() -> None:
    done = project_run(RUN, [
        event(1, "StepStarted", "a", engine=1),
        event(2, "StepCompleted", "a", engine=3),
        event(3, "StepStarted", "b", engine=2),
        event(4, "StepSkipped", "b", engine=None, reason="cancelled"),
    ])  # fmt: skip
    assert done.steps["a"].engine_attempt == 3
    assert done.steps["b"].engine_attempt == 2
    assert done.steps["b"].reason == "cancelled"


def test_a_step_keeps_its_outcome_and_counts() -> None:
    done = project_run(RUN, [
        event(1, "StepCompleted", "a", outcome="partial", sent=3, failed=2, skipped=1),
        event(2, "StepCompleted", "b"),
        event(3, "StepFailed", "c", outcome="of a later version", sent="many"),
    ])  # fmt: skip
    told = {name: (step.outcome, step.counts) for name, step in done.steps.items()}
    assert told == {"a": ("partial", (3, 2, 1)), "b": ("completed", None), "c": ("failed", None)}


def test_an_unexpected_payload_breaks_nothing() -> None:
    done = project_run(RUN, [
        event(1, "StepFailed", "a", error="no document", artifacts="no list"),
        event(2, "StepCompleted", "b", artifacts=[1, {"uri": "file:x"}, None]),
        event(3, "StepStarted", None),
        event(4, "SignalAccepted", "a", signal=["CANCEL"]),
    ])  # fmt: skip
    assert done.steps["a"].error == ("unknown", "", False)
    assert [dict(each) for each in done.steps["b"].artifacts] == [{"uri": "file:x"}]
    assert set(done.steps) == {"a", "b"}
    assert not done.cancel_requested


# What the run's row and its phase say


@pytest.mark.parametrize(
    ("log", "row", "phase"),
    [
        ([], "queued", "in_progress"),
        (["RunApproved"], "queued", "in_progress"),
        (["RunApproved", "RunPaused"], "queued", "paused"),
        (["RunApproved", "RunPaused", "RunResumed"], "queued", "in_progress"),
        (["RunStarted"], "running", "in_progress"),
        (["RunStarted", "RunPaused"], "running", "paused"),
        (["RunStarted", "RunPaused", "RunResumed"], "running", "in_progress"),
        (["RunStarted", "CANCEL"], "running", "failed"),
        (["RunStarted", "RunPaused", "CANCEL"], "running", "failed"),
        (["RunStarted", "completed", "RunCompleted"], "completed", "completed"),
        (["RunStarted", "completed", "failed", "RunCompleted"], "partial", "completed"),
        (["RunStarted", "partial", "RunCompleted"], "partial", "completed"),
        (["RunStarted", "RunCompleted"], "completed", "completed"),
        (["RunStarted", "failed", "RunFailed"], "failed", "failed"),
        (["RunStarted", "completed", "failed", "RunCancelled"], "partial", "failed"),
        (["RunStarted", "failed", "RunCancelled"], "failed", "failed"),
        (["RunStarted", "completed", "RunCancelled"], "completed", "failed"),
    ],
)
def test_the_row_and_the_phase_follow_from_the_log(log: list[str], row: str, phase: str) -> None:
    told = []
    for seq, each in enumerate(log, start=1):
        if each in ("completed", "partial", "failed"):
            kind = "StepFailed" if each == "failed" else "StepCompleted"
            told.append(event(seq, kind, f"step {seq}", outcome=each))
        elif each == "CANCEL":
            told.append(event(seq, "SignalAccepted", signal=each))
        else:
            told.append(event(seq, each))
    snapshot = project_run(RUN, told)
    assert (row_status(snapshot), phase_state(snapshot)) == (row, phase)


# Order


def test_an_event_of_another_run_is_refused() -> None:
    other = RunEvent(RunId("another"), 1, "RunStarted", NOON)
    with pytest.raises(ValueError, match="another"):
        project_run(RUN, [other])


def test_the_first_hole_is_found_before_the_events_or_between_them() -> None:
    log = [event(4, "RunStarted"), event(5, "StepStarted", "a"), event(8, "StepCompleted", "a")]
    assert first_hole(0, log) == Hole(0, 4)
    assert first_hole(3, log) == Hole(5, 8)
    assert first_hole(3, log[:2]) is None
    assert first_hole(3, []) is None


def test_events_out_of_order_are_refused_not_reordered() -> None:
    with pytest.raises(ValueError, match="comes after"):
        project_run(RUN, [event(2, "RunStarted"), event(1, "RunApproved")])


def test_an_event_that_comes_again_changes_nothing() -> None:
    """RM: reprocessing is safe, also within one list of events; it was refused there."""
    log = history()
    twice = [each for event in log for each in (event, event)]
    assert project_run(RUN, twice) == project_run(RUN, log)
    assert project_run(RUN, [*log[:5], *log[2:]]) == project_run(RUN, log)
    halfway = project_run(RUN, log[:4])
    assert incremental_project(halfway, [*log[2:], *log[5:]]) == project_run(RUN, log)


def test_a_snapshot_is_never_changed_in_place() -> None:
    before = project_run(RUN, history()[:4])
    document = snapshot_document(before)
    incremental_project(before, history()[4:])
    assert snapshot_document(before) == document
    with pytest.raises(TypeError):
        before.steps["a"] = before.steps["b"]  # type: ignore[index]


anything: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 2**53, "", "text \u2603", [], [1, None], {"a": [{}]}]
)
"""What JSON may hold where something else was expected."""

payloads = st.fixed_dictionaries(
    {},
    optional={
        "artifacts": st.just([{"uri": "file:x", "kind": "csv", "of": {"a": None}}]) | anything,
        "error": st.just({"code": "busy", "message": "later", "retryable": True}) | anything,
        "outcome": st.sampled_from(["completed", "partial", "failed", "else"]) | anything,
        "sent": anything,
        "failed": st.integers(0, 9),
        "skipped": st.integers(0, 9),
        "reason": anything,
        "rootCause": anything,
        "engineRunRef": anything,
        "signal": st.sampled_from(["PAUSE", "CANCEL"]) | anything,
    },
)
drawn_events = st.tuples(
    st.integers(1, 3),
    st.sampled_from([*RunEventType, "SomethingNew"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(1, 3),
    st.none() | st.integers(1, 3),
    st.integers(0, 10**9),
    payloads,
)
Drawn = tuple[int, str, str, int, int | None, int, dict[str, object]]
events = st.lists(drawn_events, max_size=15)


def numbered(drawn: list[Drawn]) -> list[RunEvent]:
    seq, found = 0, []
    for step, kind, name, attempt, engine, micros, payload in drawn:
        seq += step
        of_step = name if kind in STEP_EVENTS else None
        moment = NOON + timedelta(microseconds=micros)
        found.append(RunEvent(RUN, seq, kind, moment, of_step, attempt, engine, payload))
    return found


@given(events, st.data())
def test_projecting_in_pieces_with_repeats_gives_what_projecting_at_once_gives(
    drawn: list[Drawn], data: st.DataObject
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


@given(events)
def test_a_snapshot_comes_back_from_its_document_without_loss(drawn: list[Drawn]) -> None:
    snapshot = project_run(RUN, numbered(drawn))
    stored = json.dumps(snapshot_document(snapshot))
    assert snapshot_from(json.loads(stored)) == snapshot


@given(events, events)
def test_projecting_continues_from_a_stored_document_as_from_the_snapshot(
    first: list[Drawn], second: list[Drawn]
) -> None:
    log = numbered(first + second)
    stored = json.dumps(snapshot_document(project_run(RUN, log[: len(first)])))
    resumed = incremental_project(snapshot_from(json.loads(stored)), log[len(first) :])
    assert resumed == project_run(RUN, log)


@given(events)
def test_the_failed_steps_are_counted_right(drawn: list[Drawn]) -> None:
    snapshot = project_run(RUN, numbered(drawn))
    failed = [step for step in snapshot.steps.values() if step.status is StepStatus.FAILED]
    assert snapshot.failed_steps == len(failed)


def test_the_key_is_the_contracts_formula_and_the_engines_attempt_is_no_part_of_it() -> None:
    expected = hashlib.sha256(f"{RUN}|step|2|StepStarted|1".encode()).hexdigest()
    assert event_key(RUN, "step", 2, "StepStarted", "1") == expected
    of_run = hashlib.sha256(f"{RUN}||1|RunStarted|1".encode()).hexdigest()
    assert event_key(RUN, None, 1, "RunStarted", "1") == of_run


def test_every_canonical_event_has_its_emitter() -> None:
    assert set(EMITTERS) == set(RunEventType)
    assert len(RunEventType) == 19
