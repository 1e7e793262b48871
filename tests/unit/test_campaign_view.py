"""A client's view by contract 003: snapshots win, stale events never, progress is guarded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.phases import PROGRESS_EVENT
from outrider.domain.states import PhaseState
from outrider.testing.campaign_view import STATUS_SET_BY, CampaignView

LIFECYCLE = {
    "phase_started": PhaseState.IN_PROGRESS,
    "phase_paused": PhaseState.PAUSED,
    "phase_resumed": PhaseState.IN_PROGRESS,
    "phase_completed": PhaseState.COMPLETED,
    "phase_failed": PhaseState.FAILED,
}
PHASES = ("audience_import", "launch")


def snapshot(sequence: int, state: PhaseState, progress: float = 50.0) -> dict[str, Any]:
    return {
        "lastSequence": sequence,
        "phases": {
            phase: {"state": state.value, "progressPercentage": progress} for phase in PHASES
        },
    }


def event(sequence: int, kind: str, phase: str = "launch", progress: float = 0.0) -> dict[str, Any]:
    payload = {"progressPercentage": progress} if kind == PROGRESS_EVENT else {}
    return {"sequence": sequence, "type": kind, "phase": phase, "payload": payload}


def view_of(sequence: int, state: PhaseState, progress: float = 50.0) -> CampaignView:
    view = CampaignView()
    view.apply_snapshot(snapshot(sequence, state, progress))
    return view


def test_each_lifecycle_event_sets_the_state_the_contract_names() -> None:
    assert STATUS_SET_BY == LIFECYCLE
    for kind, state in LIFECYCLE.items():
        view = view_of(10, PhaseState.IN_PROGRESS)
        assert view.apply_event(event(11, kind))
        assert view.states["launch"] is state
        assert view.states["audience_import"] is PhaseState.IN_PROGRESS
        assert view.last_applied_sequence == 11


@pytest.mark.parametrize("sequence", [0, 8, 9, 10])
@pytest.mark.parametrize("kind", [*LIFECYCLE, PROGRESS_EVENT])
def test_an_event_that_is_not_newer_is_discarded(kind: str, sequence: int) -> None:
    view = view_of(10, PhaseState.IN_PROGRESS)
    assert not view.apply_event(event(sequence, kind, progress=99.0))
    assert view == view_of(10, PhaseState.IN_PROGRESS)


@pytest.mark.parametrize("state", PhaseState)
def test_a_snapshot_wins_over_everything_even_a_later_sequence(state: PhaseState) -> None:
    view = view_of(5, PhaseState.IN_PROGRESS)
    view.apply_event(event(90, "phase_failed"))
    view.apply_event(event(91, "phase_started", "a phase that is gone"))
    view.apply_snapshot(snapshot(10, state, 20.0))
    assert view == view_of(10, state, 20.0)
    assert view.apply_event(event(11, "phase_paused"))


@pytest.mark.parametrize("state", PhaseState)
def test_progress_is_shown_only_of_a_phase_in_progress_and_never_changes_a_state(
    state: PhaseState,
) -> None:
    view = view_of(10, state)
    applied = view.apply_event(event(11, PROGRESS_EVENT, progress=80.0))
    assert applied is (state is PhaseState.IN_PROGRESS)
    assert view.progress["launch"] == (80.0 if applied else 50.0)
    assert view.states == dict.fromkeys(PHASES, state)


def test_progress_that_comes_after_a_pause_cannot_flip_it_back() -> None:
    view = view_of(10, PhaseState.IN_PROGRESS)
    view.apply_event(event(12, "phase_paused"))
    assert not view.apply_event(event(11, PROGRESS_EVENT, progress=60.0))
    assert not view.apply_event(event(13, PROGRESS_EVENT, progress=60.0))
    assert (view.states["launch"], view.progress["launch"]) == (PhaseState.PAUSED, 50.0)
    assert view.control_phase == "launch"


def test_progress_of_an_unknown_phase_is_ignored() -> None:
    assert not CampaignView().apply_event(event(1, PROGRESS_EVENT))


def test_an_event_of_an_unknown_kind_changes_no_state() -> None:
    view = view_of(10, PhaseState.PAUSED)
    assert not view.apply_event(event(11, "phase_teleported"))
    assert view.states["launch"] is PhaseState.PAUSED


def test_resuming_keeps_the_progress_made() -> None:
    view = view_of(10, PhaseState.PAUSED, 50.0)
    view.apply_event(event(11, "phase_resumed"))
    assert (view.states["launch"], view.progress["launch"]) == (PhaseState.IN_PROGRESS, 50.0)


histories = st.lists(
    st.tuples(
        st.sampled_from([*LIFECYCLE, PROGRESS_EVENT]),
        st.sampled_from(PHASES),
        st.floats(0, 100),
    ),
    max_size=30,
)


@given(histories, st.data())
def test_events_in_any_order_and_number_never_leave_the_view_behind_its_snapshot(
    history: list[tuple[str, str, float]], data: st.DataObject
) -> None:
    """The snapshot was taken somewhere in the history; a network brings back what it likes."""
    events = [event(sequence, *each) for sequence, each in enumerate(history, start=1)]
    at = data.draw(st.integers(0, len(events)))
    truth = CampaignView(dict.fromkeys(PHASES, PhaseState.NOT_STARTED))
    for each in events[:at]:
        truth.apply_event(each)
    known = dict(truth.states)
    view = CampaignView(dict(known), dict(truth.progress), at)
    brought = data.draw(st.lists(st.sampled_from(events))) if events else []
    newest = dict.fromkeys(PHASES, 0)
    last = at
    for each in brought:
        applied = view.apply_event(each)
        assert not (applied and each["sequence"] <= last)
        assert view.last_applied_sequence == max(last, each["sequence"])
        if each["sequence"] > last and each["type"] in LIFECYCLE:
            newest[each["phase"]] = each["sequence"]
        last = max(last, each["sequence"])
    assert view.last_applied_sequence >= at
    for phase in PHASES:
        sequence = newest[phase]
        expected = LIFECYCLE[events[sequence - 1]["type"]] if sequence else known[phase]
        assert view.states[phase] is expected


@given(histories)
def test_events_in_order_with_repeats_give_the_same_result_as_without(
    history: list[tuple[str, str, float]],
) -> None:
    events = [event(sequence, *each) for sequence, each in enumerate(history, start=1)]
    once, twice = (view_of(0, PhaseState.NOT_STARTED) for _ in range(2))
    for number, each in enumerate(events):
        once.apply_event(each)
        twice.apply_event(each)
        for earlier in events[: number + 1]:
            assert not twice.apply_event(earlier)
    assert once == twice
