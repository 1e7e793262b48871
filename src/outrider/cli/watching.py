"""Watching a run: a progress bar until the run ends or waits for a person."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import err
from outrider.cli.phase_words import SCHEDULED, state_word, why
from outrider.domain.errors import NotFound, OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus
from outrider.kernel.transactions import accountings
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.run_requests import HeldFor

WATCH_SECONDS = 0.1

Look = Callable[[RunRecord, Accounting], Awaitable[None]]


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:,.0f}/s", style="dim")


def progress_bar() -> Progress:
    """On standard error, and only on a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=40),
        TextColumn("{task.percentage:>3.0f}%"),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=err,
        disable=not err.is_terminal,
    )


async def watch(
    outrider: Outrider, run_id: RunId, label: str, look: Look | None = None
) -> tuple[RunRecord, Accounting]:
    """Returns when the run is terminal, or when only in-doubt items keep it open."""
    with progress_bar() as progress:
        task = progress.add_task(label, total=None, note="")
        while True:
            run, accounting = await outrider.store.read(
                accountings.run_with_accounting(DEFAULT_SCOPE, run_id)
            )
            if not accounting.holds:
                raise OutriderError(
                    texts.Watching.DOES_NOT_ADD_UP.format(run_id=run_id, accounting=accounting)
                )
            progress.update(
                task, total=run.intended, completed=accounting.terminal, note=_note(accounting)
            )
            stuck = accounting.waiting == 0 and accounting.in_doubt > 0
            if RunStatus(run.status) in TERMINAL_RUNS or stuck:
                return run, accounting
            if look is not None:
                await look(run, accounting)
            await asyncio.sleep(WATCH_SECONDS)


def _note(accounting: Accounting) -> str:
    notes = []
    if accounting.in_doubt:
        notes.append(texts.Watching.IN_DOUBT_NOTE.format(in_doubt=accounting.in_doubt))
    if accounting.failed:
        notes.append(texts.Watching.FAILED.format(failed=accounting.failed))
    return " ".join(notes)


async def watch_phase(
    fetch: Callable[[], Awaitable[dict[str, Any]]], phase: str, label: str
) -> dict[str, Any]:
    """Follow a phase by its snapshots; returns when it is at rest, or waits for a person."""
    with progress_bar() as progress:
        task = progress.add_task(label, total=100, note="")
        while True:
            seen = (await fetch())["phases"].get(phase)
            if seen is None:
                raise NotFound(texts.Watching.NO_PHASE.format(phase=phase))
            accounting = seen["accounting"] or {}
            word, reason = state_word(seen), why(seen)
            note = "" if word == PhaseState.IN_PROGRESS else word
            if seen["waitsFor"] or word == SCHEDULED:
                note = f"{note} {reason}".strip()
            if (blockers := seen["blockers"]) and not note:
                first = blockers[0]
                note = texts.Blockers.NOTE.format(code=first["code"], since=first["since"][11:19])
            if doubts := accounting.get("inDoubt"):
                note += texts.Watching.IN_DOUBT.format(doubts=doubts)
            progress.update(task, completed=seen["progressPercentage"], note=note)
            stuck = accounting.get("inDoubt", 0) > 0 and accounting["waiting"] == 0
            # Room becomes available without intervention; an approval does not.
            stuck = stuck or seen["waitsFor"] == HeldFor.APPROVAL
            if seen["state"] != PhaseState.IN_PROGRESS or stuck:
                return {
                    "phase": phase,
                    "state": seen["state"],
                    "runId": seen["runId"],
                    "status": seen["runStatus"],
                    "accounting": seen["accounting"],
                    "waitsFor": seen["waitsFor"],
                    "reason": seen["reason"],
                    "runStatus": seen["runStatus"],
                    "scheduledFor": seen["scheduledFor"],
                    "runs": seen["runs"],
                    "outcome": seen["outcome"],
                    "blockers": seen["blockers"],
                }
            await asyncio.sleep(WATCH_SECONDS)
