"""A target's shared state: locked, changed by a pure function, and saved, in one transaction."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import Scope
from outrider.domain.targets import Breaker, TargetPolicy, TargetState
from outrider.ports.store import Result, Row, Transaction, ask, ask_alone

Change = Callable[[TargetState], tuple[TargetState, Result]]


def change_state(
    submission_target: str, policy: TargetPolicy, change: Change[Result], now: datetime
) -> Transaction[Result]:
    found = yield from ask("lock_target_state", submission_target=submission_target)
    if not found:
        yield from ask(
            "insert_target_state",
            submission_target=submission_target,
            tokens=float(policy.burst),
            now=now,
        )
        found = yield from ask("lock_target_state", submission_target=submission_target)
    before = _state(found[0])
    after, result = change(before)
    if after != before:
        yield from ask(
            "save_target_state",
            submission_target=submission_target,
            tokens=after.tokens,
            refilled_at=after.refilled_at,
            resume_at=after.resume_at,
            failures=after.failures,
            breaker=after.breaker.value,
            probe_at=after.probe_at,
            now=now,
        )
    return result


def state_of(submission_target: str) -> Transaction[TargetState | None]:
    found = yield from ask_alone("target_state", submission_target=submission_target)
    return _state(found[0]) if found else None


def all_states(most: int) -> Transaction[dict[str, TargetState]]:
    rows = yield from ask("target_states", most=most)
    return {row[0]: _state(row[1:]) for row in rows}


class TargetLoad(NamedTuple):
    """What a workspace has at a target: jobs that have not settled, and items in doubt."""

    open_jobs: int = 0
    in_doubt: int = 0


def loads(scope: Scope) -> Transaction[dict[str, TargetLoad]]:
    jobs = yield from ask("open_jobs_by_target", **scope._asdict())
    found = {row[0]: TargetLoad(open_jobs=row[1]) for row in jobs}
    for target, count in (yield from ask("doubts_by_target", **scope._asdict())):
        found[target] = found.get(target, TargetLoad())._replace(in_doubt=count)
    return found


def _state(row: Row) -> TargetState:
    tokens, refilled_at, resume_at, failures, breaker, probe_at = row
    return TargetState(tokens, refilled_at, resume_at, failures, Breaker(breaker), probe_at)
