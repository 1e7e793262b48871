"""The state machines: what the contracts' tables list is allowed, and nothing else is."""

from enum import StrEnum
from itertools import product

import pytest

from outrider.domain.errors import InvalidTransition
from outrider.domain.phases import LIFECYCLE_EVENTS, transition
from outrider.domain.states import (
    ITEM_MACHINE,
    JOB_MACHINE,
    MACHINES,
    PHASE_MACHINE,
    RUN_MACHINE,
    SUCCESSES,
    TERMINAL_ITEMS,
    TERMINAL_RUNS,
    Channel,
    ItemStatus,
    JobStatus,
    PhaseState,
    RunStatus,
    StateMachine,
    success_status,
)

ALL_TRIGGERS = sorted({trigger for machine in MACHINES for _, trigger in machine.table})


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: str(machine.name))
def test_only_listed_transitions_are_allowed(machine: StateMachine[StrEnum]) -> None:
    states = list(type(machine.initial))
    for state, trigger in product(states, [*ALL_TRIGGERS, "teleport"]):
        listed = machine.table.get((state, trigger))
        assert machine.allows(state, trigger) == (listed is not None)
        if listed is not None:
            assert machine.after(state, trigger) is listed
            continue
        with pytest.raises(InvalidTransition) as refused:
            machine.after(state, trigger)
        assert (refused.value.machine, refused.value.state) == (machine.name, state.value)
        assert refused.value.trigger == trigger


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: str(machine.name))
def test_every_state_can_be_reached_from_the_initial_one(machine: StateMachine[StrEnum]) -> None:
    reached = {machine.initial}
    while more := {after for (state, _), after in machine.table.items() if state in reached}:
        if more <= reached:
            break
        reached |= more
    assert reached == set(type(machine.initial))


def test_the_run_machine_is_contract_000s_diagram() -> None:
    assert {(state.value, after.value) for (state, _), after in RUN_MACHINE.table.items()} == {
        ("queued", "running"),
        ("running", "completed"),
        ("running", "partial"),
        ("running", "failed"),
    }


def test_the_item_machine_is_contract_000s_diagram() -> None:
    assert {(state.value, after.value) for (state, _), after in ITEM_MACHINE.table.items()} == {
        ("queued", status) for status in ("sent", "called", "posted", "failed", "skipped")
    }


def test_the_job_machine_is_contract_000s_diagram_with_parking_and_rescue() -> None:
    arrows = {(state.value, after.value) for (state, _), after in JOB_MACHINE.table.items()}
    assert arrows == {
        ("queued", "locked"),
        ("locked", "completed"),
        ("locked", "failed"),
        ("failed", "queued"),
        ("failed", "dead"),
        ("locked", "queued"),
    }


VALID_PHASES = [
    ("not_started", "in_progress", "start"),
    ("in_progress", "paused", "pause"),
    ("in_progress", "completed", "complete"),
    ("in_progress", "failed", "fail"),
    ("paused", "in_progress", "resume"),
    ("completed", "in_progress", "rerun"),
    ("failed", "in_progress", "retry"),
]
"""The ✅ rows of contract 003's table; its `completion` and `error` are complete and fail."""

INVALID_PHASES = [
    ("not_started", "paused"),
    ("not_started", "completed"),
    ("paused", "completed"),
    ("paused", "failed"),
    ("completed", "paused"),
    ("failed", "paused"),
]
"""Its ❌ rows."""


@pytest.mark.parametrize(("source", "target", "trigger"), VALID_PHASES)
def test_a_phase_transition_of_contract_003s_table_is_valid(
    source: str, target: str, trigger: str
) -> None:
    state, event = transition(PhaseState(source), trigger)
    assert state == PhaseState(target)
    assert event == LIFECYCLE_EVENTS[trigger]


@pytest.mark.parametrize(("source", "target"), INVALID_PHASES)
def test_a_phase_transition_that_contract_003_crosses_out_has_no_trigger(
    source: str, target: str
) -> None:
    from_source = {
        after for (state, _), after in PHASE_MACHINE.table.items() if state == PhaseState(source)
    }
    assert PhaseState(target) not in from_source


def test_the_phase_machine_has_exactly_contract_003s_valid_rows() -> None:
    table = {
        (state.value, after.value, trigger)
        for (state, trigger), after in PHASE_MACHINE.table.items()
    }
    assert table == set(VALID_PHASES)


@pytest.mark.parametrize(
    ("trigger", "event"),
    [
        ("start", "phase_started"),
        ("rerun", "phase_started"),
        ("retry", "phase_started"),
        ("pause", "phase_paused"),
        ("resume", "phase_resumed"),
        ("complete", "phase_completed"),
        ("fail", "phase_failed"),
    ],
)
def test_each_trigger_records_the_lifecycle_event_contract_003_names(
    trigger: str, event: str
) -> None:
    assert LIFECYCLE_EVENTS[trigger] == event


def test_every_phase_trigger_has_a_lifecycle_event() -> None:
    assert set(LIFECYCLE_EVENTS) == {trigger for _, trigger in PHASE_MACHINE.table}


def test_the_terminal_statuses_are_contract_000s() -> None:
    assert {status.value for status in TERMINAL_ITEMS} == {
        "sent", "called", "posted", "failed", "skipped",
    }  # fmt: skip
    assert {status.value for status in TERMINAL_RUNS} == {"completed", "partial", "failed"}


def test_nothing_leaves_a_terminal_state() -> None:
    assert not {state for state, _ in ITEM_MACHINE.table} & TERMINAL_ITEMS
    assert not {state for state, _ in RUN_MACHINE.table} & TERMINAL_RUNS
    assert not {state for state, _ in JOB_MACHINE.table} & {JobStatus.COMPLETED, JobStatus.DEAD}


def test_the_status_sets_are_contract_000s_taxonomy() -> None:
    assert {status.value for status in ItemStatus} == {
        "queued", "sent", "called", "posted", "failed", "skipped",
    }  # fmt: skip
    assert {status.value for status in JobStatus} == {
        "queued", "locked", "completed", "failed", "dead",
    }  # fmt: skip
    assert {status.value for status in RunStatus} == {
        "queued", "running", "completed", "partial", "failed",
    }  # fmt: skip


@pytest.mark.parametrize("channel", Channel)
def test_a_voice_success_is_called_a_social_one_posted_and_any_other_sent(channel: Channel) -> None:
    expected = {Channel.VOICE: ItemStatus.CALLED, Channel.SOCIAL: ItemStatus.POSTED}
    assert success_status(channel) is expected.get(channel, ItemStatus.SENT)
    assert success_status(channel) in SUCCESSES
