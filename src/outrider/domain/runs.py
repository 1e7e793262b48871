"""A run's status is computed from its jobs' outcomes and nothing else; so is its phase's ending."""

from collections.abc import Collection

from outrider.domain.states import JobOutcome, RunStatus


def run_status(outcomes: Collection[JobOutcome]) -> RunStatus:
    """The terminal status of a run whose jobs are all finished."""
    kinds = set(outcomes)
    if kinds <= {JobOutcome.COMPLETED}:
        return RunStatus.COMPLETED
    if kinds == {JobOutcome.FAILED}:
        return RunStatus.FAILED
    return RunStatus.PARTIAL


RUN_TRIGGER = {
    RunStatus.COMPLETED: "complete",
    RunStatus.PARTIAL: "end_partially",
    RunStatus.FAILED: "fail",
}

PHASE_TRIGGER = {
    RunStatus.COMPLETED: "complete",
    RunStatus.PARTIAL: "complete",
    RunStatus.FAILED: "fail",
}
"""A partial run completes its phase: what failed can be rerun, what was sent stays sent."""
