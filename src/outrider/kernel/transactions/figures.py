"""What a metrics scrape counts: bypasses, doubts, unfinished jobs, targets and workers, over all
tenants."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.evidence import Settles
from outrider.domain.targets import DoorState
from outrider.kernel.transactions import blockers, workers
from outrider.kernel.transactions.phase_repairs import count_bypasses
from outrider.ports.store import Transaction, ask


def figures() -> Transaction[tuple[int, int, dict[str, int]]]:
    bypasses = yield from count_bypasses()
    in_doubt = yield from ask("count_doubted")
    jobs = yield from ask("count_open_jobs")
    return bypasses, in_doubt[0][0], {row[0]: row[1] for row in jobs}


class TargetFigures(NamedTuple):
    """`states` by target, only of those that are not open; `due_at`: since when work for a target
    has been due; `doubts` by what settles them."""

    states: dict[str, str]
    due_at: dict[str, datetime]
    workers: int
    doubts: dict[str, int]


HELD, PAUSED, UNKNOWN = "held", "paused", "unknown"
TARGET_STATES = (*(state.value for state in DoorState), HELD, PAUSED)
DOUBT_LABELS = (*(each.value for each in Settles), UNKNOWN)
"""`unknown`: no worker has checked it yet."""


def target_figures(now: datetime, silent_before: datetime, most: int) -> Transaction[TargetFigures]:
    found = yield from blockers.targets_now(most)
    states: dict[str, str] = {}
    for key, door in found.doors.items():
        if not key.workspace_id:
            # A door of one workspace leaves the target open for the others.
            states[key.submission_target] = HELD if door.is_held else door.state.value
    states |= dict.fromkeys(found.paused, PAUSED)
    due = yield from ask("oldest_due_by_target", now=now, most=most)
    live = yield from workers.seen_since(silent_before, most)
    doubts = yield from ask("count_doubts_by_settles")
    return TargetFigures(
        states,
        {target: due_at for target, due_at in due},  # noqa: C416 - a Record is no pair to dict()
        sum(worker.takes_jobs for worker in live),
        {settles or UNKNOWN: count for settles, count in doubts},
    )
