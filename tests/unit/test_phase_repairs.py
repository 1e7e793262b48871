"""Which of a phase and its run follows the other, for every pair of states."""

from itertools import product

import pytest

from outrider.domain.phase_repairs import PhaseFollows, RunBeside, RunFollows, repair
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState, RunStatus


def beside(
    status: str = "running",
    *,
    stopped: bool = False,
    released: bool = True,
    paused: bool = False,
    going: bool = True,
) -> RunBeside:
    return RunBeside(RunStatus(status), stopped, released, paused, going)


FAILED = PhaseState.FAILED

CASES = [
    ("in_progress", None, PhaseFollows(FAILED, "run_missing")),
    ("paused", None, PhaseFollows(FAILED, "run_missing")),
    ("completed", None, None),
    ("in_progress", beside("completed"), PhaseFollows(PhaseState.COMPLETED, "run_completed")),
    ("paused", beside("partial"), PhaseFollows(PhaseState.COMPLETED, "run_partial")),
    ("paused", beside("failed"), PhaseFollows(FAILED, "run_failed")),
    ("in_progress", beside("partial", stopped=True), PhaseFollows(FAILED, "stopped")),
    ("paused", beside(stopped=True), PhaseFollows(FAILED, "stopped")),
    ("failed", beside(stopped=True), None),
    ("in_progress", beside(), None),
    ("in_progress", beside(paused=True), RunFollows(Action.RESUME)),
    ("in_progress", beside("queued", released=False, paused=True, going=False), None),
    (
        "paused",
        beside("queued", released=False, paused=True, going=False),
        PhaseFollows(PhaseState.IN_PROGRESS, "run_not_released"),
    ),
    ("paused", beside(), RunFollows(Action.PAUSE)),
    ("paused", beside(paused=True, going=False), None),
    ("completed", beside(), RunFollows(Action.STOP)),
    ("failed", beside("queued", released=False), RunFollows(Action.STOP)),
    ("not_started", beside(), RunFollows(Action.STOP)),
]


@pytest.mark.parametrize(("state", "run", "verdict"), CASES)
def test_phases_follow_their_order(
    state: str, run: RunBeside | None, verdict: PhaseFollows | RunFollows | None
) -> None:
    assert repair(PhaseState(state), run) == verdict


def test_a_repaired_phase_agrees_with_its_run() -> None:
    """Whatever the pair, a repair leaves one that needs no other."""
    flags = [False, True]
    for status, stopped, released, paused, going in product(RunStatus, flags, flags, flags, flags):
        run = RunBeside(status, stopped, released, paused, going)
        for state in PhaseState:
            match repair(state, run):
                case PhaseFollows(after, _):
                    left = repair(after, run)
                    assert not isinstance(left, PhaseFollows), (state, run)
                case RunFollows(Action.STOP):
                    stopped_run = RunBeside(status, True, released, False, going)
                    assert repair(state, stopped_run) is None
                case RunFollows(action):
                    is_pause = action is Action.PAUSE
                    moved = RunBeside(status, stopped, released, is_pause, not is_pause)
                    assert repair(state, moved) is None
                case None:
                    pass
