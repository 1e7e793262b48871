"""How many calls to a workflow's recipient fit within a target's contract."""

from typing import assert_never

from outrider.domain.submission import Contract, Deadline, MaxAttempts, OneShot
from outrider.domain.workflow_retry import WorkflowRetry


def calls_allowed(contract: Contract, retry: WorkflowRetry) -> int:
    """How many of the retry policy's calls the contract still allows."""
    match contract.policy:
        case OneShot():
            return 1
        case MaxAttempts(max_attempts=most):
            return min(most, retry.attempts)
        case Deadline(max_acceptance_seconds=seconds):
            calls, passed = 1, 0.0
            for wait in retry.waits_seconds():
                passed += wait
                if passed >= seconds:
                    break
                calls += 1
            return calls
        case other:
            assert_never(other)


def shortfall(contract: Contract, retry: WorkflowRetry) -> str | None:
    """A warning where the contract ends before the retry policy does."""
    calls = calls_allowed(contract, retry)
    if calls >= retry.attempts:
        return None
    return (
        f"the contract ends a workflow's message after {calls} of {retry.attempts} calls;"
        f" the workspace's retry policy is {retry.in_words()}"
    )
