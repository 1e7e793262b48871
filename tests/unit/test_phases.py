"""Phases: what each control asks of a phase in each state, held against contract 003's own table.

The tables are written out here by hand, so that nothing is tested against itself.
"""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.errors import (
    ExpectedStateMismatch,
    InvalidPhaseTransition,
    InvalidTransition,
    PreconditionFailed,
)
from outrider.domain.phases import (
    AIMS,
    BEGINNINGS,
    LIFECYCLE_EVENTS,
    Action,
    check_free_to_begin,
    control_phase,
    decide,
    transition,
)
from outrider.domain.states import PhaseState

NOT_STARTED, IN_PROGRESS, PAUSED, COMPLETED, FAILED = PhaseState

CONTRACT_TABLE = {
    (NOT_STARTED, "start"): IN_PROGRESS,
    (IN_PROGRESS, "pause"): PAUSED,
    (IN_PROGRESS, "complete"): COMPLETED,
    (IN_PROGRESS, "fail"): FAILED,
    (PAUSED, "resume"): IN_PROGRESS,
    (COMPLETED, "rerun"): IN_PROGRESS,
    (FAILED, "retry"): IN_PROGRESS,
}
"""The ✅ rows of its transition table; `completion` and `error` are complete and fail."""

ALREADY = ()
NO = None
ONLY_ITS_RUN = "only its run"
ANSWERS: dict[Action, dict[PhaseState, tuple[str, ...] | str | None]] = {
    Action.START: {
        NOT_STARTED: ("start",), IN_PROGRESS: ALREADY, PAUSED: NO, COMPLETED: NO, FAILED: NO,
    },
    Action.PAUSE: {
        NOT_STARTED: NO, IN_PROGRESS: ("pause",), PAUSED: ALREADY, COMPLETED: NO, FAILED: NO,
    },
    Action.RESUME: {
        NOT_STARTED: NO, IN_PROGRESS: ALREADY, PAUSED: ("resume",), COMPLETED: NO, FAILED: NO,
    },
    Action.STOP: {
        NOT_STARTED: NO, IN_PROGRESS: ("fail",), PAUSED: ("resume", "fail"), COMPLETED: NO,
        FAILED: ALREADY,
    },
    Action.RERUN: {
        NOT_STARTED: NO, IN_PROGRESS: ALREADY, PAUSED: NO, COMPLETED: ("rerun",), FAILED: NO,
    },
    Action.RETRY: {
        NOT_STARTED: NO, IN_PROGRESS: ALREADY, PAUSED: NO, COMPLETED: NO, FAILED: ("retry",),
    },
    Action.COMPLETE: {
        NOT_STARTED: NO, IN_PROGRESS: ONLY_ITS_RUN, PAUSED: NO, COMPLETED: ALREADY, FAILED: NO,
    },
}  # fmt: skip
"""Section 7's table of answers: executed, already so, or a conflict; stop as D9 has it."""

TRIGGERS = [*LIFECYCLE_EVENTS, "stop", "teleport"]


@pytest.mark.parametrize(
    ("state", "action", "expected"), list(product(PhaseState, Action, [None, *PhaseState]))
)
def test_a_control_is_decided_as_the_contract_says(
    state: PhaseState, action: Action, expected: PhaseState | None
) -> None:
    if expected not in (None, state):
        with pytest.raises(ExpectedStateMismatch) as mismatch:
            decide(state, action, expected)
        assert mismatch.value.code == "EXPECTED_STATE_MISMATCH"
        assert mismatch.value.details == {
            "current_state": state.value,
            "expected_state": expected.value if expected else None,
            "attempted_action": action.value,
        }
        assert mismatch.value.message == (
            f"Expected state '{expected}' but current state is '{state}'; cannot {action}"
        )
        return
    answer = ANSWERS[action][state]
    if answer is NO:
        with pytest.raises(InvalidPhaseTransition) as refused:
            decide(state, action, expected)
        assert refused.value.code == "INVALID_PHASE_TRANSITION"
        assert refused.value.details == {
            "current_state": state.value, "attempted_action": action.value,
        }  # fmt: skip
        # CM: of a transition that the table has, it is not said that it cannot be.
        ways = [way for way, after in CONTRACT_TABLE.items() if after is AIMS[action]]
        instead = [trigger for left, trigger in ways if left is state and trigger in set(Action)]
        if instead:
            assert refused.value.message == f"Cannot {action} a phase that is '{state}'"
            assert refused.value.hint == f"{instead[0]} it instead"
        else:
            assert refused.value.message == f"Cannot transition from '{state}' to '{AIMS[action]}'"
    elif answer == ONLY_ITS_RUN:
        with pytest.raises(PreconditionFailed) as early:
            decide(state, action, expected)
        assert early.value.details["reason"] == "run_not_finished"
        assert early.value.details["current_state"] == state.value, "CM"
    else:
        assert decide(state, action, expected) == answer


@pytest.mark.parametrize(("state", "action"), list(product(PhaseState, Action)))
def test_the_triggers_of_a_control_lead_from_the_state_to_its_aim_by_valid_transitions_only(
    state: PhaseState, action: Action
) -> None:
    answer = ANSWERS[action][state]
    if not isinstance(answer, tuple):
        return
    for trigger in answer:
        assert (state, trigger) in CONTRACT_TABLE
        state = transition(state, trigger)[0]
    assert state is AIMS[action]


@pytest.mark.parametrize(("state", "trigger"), list(product(PhaseState, TRIGGERS)))
def test_a_transition_is_one_of_the_contracts_or_none(state: PhaseState, trigger: str) -> None:
    after = CONTRACT_TABLE.get((state, trigger))
    if after is None:
        with pytest.raises(InvalidTransition):
            transition(state, trigger)
    else:
        assert transition(state, trigger) == (after, LIFECYCLE_EVENTS[trigger])


def test_only_what_starts_a_run_is_announced_to_the_engine_as_a_start() -> None:
    started = {trigger for trigger, event in LIFECYCLE_EVENTS.items() if event == "phase_started"}
    assert started == BEGINNINGS == {"start", "rerun", "retry"}


@given(st.lists(st.tuples(st.sampled_from(Action), st.none() | st.sampled_from(PhaseState))))
def test_any_sequence_of_controls_leaves_one_state_and_takes_no_other_way_than_the_table(
    asked: list[tuple[Action, PhaseState | None]],
) -> None:
    state = PhaseState.NOT_STARTED
    for action, expected in asked:
        before = state
        try:
            triggers = decide(state, action, expected)
        except (ExpectedStateMismatch, InvalidPhaseTransition, PreconditionFailed):
            continue
        for trigger in triggers:
            state = CONTRACT_TABLE[state, trigger]
        assert state is AIMS[action]
        # Asking once more for what is so now changes nothing.
        assert decide(state, action, None) == ()
        assert (state is before) == (triggers == ())
    assert state in PhaseState


# Which phase a control targets


@given(st.lists(st.sampled_from(PhaseState), min_size=1, max_size=6))
def test_the_control_phase_is_what_is_paused_else_in_progress_else_none(
    states: list[PhaseState],
) -> None:
    phases = [(f"phase-{number}", state) for number, state in enumerate(states)]
    paused = [name for name, state in phases if state is PAUSED]
    running = [name for name, state in phases if state is IN_PROGRESS]
    assert control_phase(phases) == [*paused, *running, None][0]


def test_paused_comes_before_in_progress_whatever_their_order() -> None:
    for phases in permutations([("a", IN_PROGRESS), ("b", PAUSED), ("c", COMPLETED)]):
        assert control_phase(phases) == "b"


def test_a_campaign_without_phases_has_no_control_phase() -> None:
    assert control_phase([]) is None


# Whether a phase may begin

ORDER = ("first", "second", "third")


@pytest.mark.parametrize("phase", ORDER)
@pytest.mark.parametrize("action", [Action.START, Action.RERUN, Action.RETRY])
def test_a_phase_starts_alone_and_after_all_earlier_phases(phase: str, action: Action) -> None:
    for states in product(PhaseState, repeat=3):
        begins_alone_and_in_order(phase, action, dict(zip(ORDER, states, strict=True)))


def begins_alone_and_in_order(phase: str, action: Action, standing: dict[str, PhaseState]) -> None:
    others = {name: state for name, state in standing.items() if name != phase}
    active = [name for name, state in others.items() if state in (IN_PROGRESS, PAUSED)]
    behind = [name for name in ORDER[: ORDER.index(phase)] if standing[name] is not COMPLETED]
    if not active and not behind:
        check_free_to_begin(phase, action, standing)
        return
    with pytest.raises(PreconditionFailed) as refused:
        check_free_to_begin(phase, action, standing)
    again = action in (Action.RERUN, Action.RETRY)
    assert refused.value.code == (
        "RERUN_PRECONDITION_FAILED" if again else "PHASE_PRECONDITION_FAILED"
    )
    blocking = (active or behind)[0]
    reason = {
        IN_PROGRESS: "another_phase_in_progress", PAUSED: "another_phase_paused",
    }.get(standing[blocking], "predecessor_not_completed")  # fmt: skip
    assert refused.value.details == {
        "reason": reason, "blocking_phase": blocking, "attempted_action": action.value,
        "current_state": standing[phase].value,
    }  # fmt: skip


def test_the_phase_itself_never_blocks_its_own_beginning() -> None:
    for state in PhaseState:
        check_free_to_begin("only", Action.RERUN, {"only": state})
