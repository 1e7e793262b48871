"""What the history of runs is made from, and compared with."""

from collections.abc import Sequence
from typing import NamedTuple

from outrider.domain.bus_queues import HISTORY
from outrider.domain.ids import RunId, Scope, TenantId, WorkspaceId
from outrider.ports.history import RunContext
from outrider.ports.store import Transaction, ask_alone


class LoggedRun(NamedTuple):
    """A run, and how many events its log has."""

    run_id: RunId
    scope: Scope
    events: int


def contexts(runs: Sequence[RunId]) -> Transaction[dict[RunId, RunContext]]:
    rows = yield from ask_alone("history_contexts", {"run_id": runs})
    return {RunId(row[0]): RunContext(*row[1:]) for row in rows}


def runs_after(after: str, most: int) -> Transaction[list[LoggedRun]]:
    rows = yield from ask_alone("history_runs", after=after, most=most)
    return [
        LoggedRun(RunId(run_id), Scope(TenantId(tenant), WorkspaceId(workspace)), events)
        for run_id, tenant, workspace, events in rows
    ]


def queued(runs: Sequence[RunId]) -> Transaction[set[RunId]]:
    """Those of these runs whose events have not all been written to the history yet."""
    rows = yield from ask_alone("history_queued", {"run_id": runs}, sink=HISTORY)
    return {RunId(row[0]) for row in rows}
