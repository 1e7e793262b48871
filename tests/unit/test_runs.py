"""A run's status comes from its jobs' outcomes and nothing else: contract 000's invariant 4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.runs import PHASE_TRIGGER, RUN_TRIGGER, run_status
from outrider.domain.states import (
    PHASE_MACHINE,
    RUN_MACHINE,
    TERMINAL_RUNS,
    JobOutcome,
    PhaseState,
    RunStatus,
)

DONE, SOME, NONE = JobOutcome.COMPLETED, JobOutcome.PARTIAL, JobOutcome.FAILED
outcomes = st.lists(st.sampled_from(JobOutcome), max_size=20)


@pytest.mark.parametrize(
    ("jobs", "status"),
    [
        ([DONE], RunStatus.COMPLETED),
        ([DONE, DONE], RunStatus.COMPLETED),
        ([NONE], RunStatus.FAILED),
        ([NONE, NONE], RunStatus.FAILED),
        ([DONE, NONE], RunStatus.PARTIAL),
        ([SOME], RunStatus.PARTIAL),
        ([DONE, SOME], RunStatus.PARTIAL),
        ([SOME, NONE], RunStatus.PARTIAL),
    ],
)
def test_a_runs_status_is_computed_from_its_jobs(jobs: list[JobOutcome], status: RunStatus) -> None:
    assert run_status(jobs) is status


@given(outcomes)
def test_the_status_is_terminal_and_depends_only_on_which_outcomes_there_are(
    jobs: list[JobOutcome],
) -> None:
    status = run_status(jobs)
    assert status in TERMINAL_RUNS
    assert status is run_status(sorted(jobs + jobs))


@given(outcomes)
def test_a_run_is_completed_only_if_all_jobs_are_and_failed_only_if_all_failed(
    jobs: list[JobOutcome],
) -> None:
    assert (run_status(jobs) is RunStatus.COMPLETED) == all(job is DONE for job in jobs)
    assert (run_status(jobs) is RunStatus.FAILED) == (
        bool(jobs) and all(job is NONE for job in jobs)
    )


@pytest.mark.parametrize("status", sorted(TERMINAL_RUNS))
def test_a_runs_end_is_a_transition_of_the_run_and_of_its_phase(status: RunStatus) -> None:
    assert RUN_MACHINE.after(RunStatus.RUNNING, RUN_TRIGGER[status]) is status
    ended = PHASE_MACHINE.after(PhaseState.IN_PROGRESS, PHASE_TRIGGER[status])
    assert ended is (PhaseState.FAILED if status is RunStatus.FAILED else PhaseState.COMPLETED)
