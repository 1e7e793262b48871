"""What the watcher looks for among runs, workers, targets and doubts.

Their words are the blocker finder's, so that an alert says what the pages say.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from outrider.domain.blocker_facts import FAULTS, Blocker, ClosedDoor
from outrider.domain.blocker_words import door_message, engine_down
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.times import rfc3339
from outrider.kernel.delivery.door_writer import door_alert
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder, JudgedBlockers, short_name
from outrider.kernel.transactions import blockers, watching, workers
from outrider.kernel.transactions.blockers import TargetsNow
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.targets import DoorKey
from outrider.kernel.transactions.watching import Sighting
from outrider.kernel.transactions.workers import SilentHolder

ENGINE_SUBJECT = "engine"


class StalledRuns:
    """Runs with work to do of which nothing has ended for a while, each with its cause."""

    def __init__(self, foundation: Foundation, finder: BlockerFinder) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._finder = finder

    async def find(self) -> Sequence[Sighting]:
        found: list[Sighting] = []
        after, judged = FIRST, 0
        while judged < self._limits.watcher_runs:
            now, most = self._clock.now(), self._limits.watcher_subjects
            page = await self._store.read(blockers.unfinished_runs(after, now, most))
            found += await self._stalled(page)
            judged += len(page)
            if len(page) < most:
                break
            after = page[-1]
        return found

    async def _stalled(self, run_ids: Sequence[RunId]) -> list[Sighting]:
        judged = await self._finder.judge(run_ids)
        now = self._clock.now()
        before = now - timedelta(seconds=self._limits.run_stall_seconds)
        return [seen for each in judged if (seen := _stall(each, before)) is not None]


def _stall(judged: JudgedBlockers, before: datetime) -> Sighting | None:
    run = judged.run
    known = [run.progressed_at, run.state_since, run.scheduled_for, run.created_at]
    moved_at = max(each for each in known if each is not None)
    if moved_at > before:
        return None
    faults = [each for each in judged.blockers if each.code in FAULTS and each.since <= before]
    if faults:
        fault = min(faults, key=lambda each: each.since)
        return Sighting(run.scope, run.id, fault.since, fault.message, _cause(run.id, fault))
    if judged.blockers or not any(each.held and each.contract_id for each in judged.jobs):
        return None
    taken = [each.taken_at for each in judged.jobs if each.taken_at is not None]
    since = max(moved_at, *taken)
    if since > before:
        return None
    message = (
        f"Workers hold its jobs, and nothing of the run has ended since {rfc3339(since)}: calls"
        " take long, or their answers cannot be written."
    )
    return Sighting(run.scope, run.id, since, message, {"runId": run.id, "cause": None})


def _cause(run_id: str, fault: Blocker) -> dict[str, object]:
    return {
        "runId": run_id,
        "cause": fault.code.value,
        "hint": fault.hint,
        "submissionTarget": fault.submission_target,
    }


class MissingWorkers:
    """Work is due and no worker runs; or a worker that holds jobs has gone silent. Workers belong
    to the installation, and so do alerts about them."""

    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def find(self) -> Sequence[Sighting]:
        now, limits = self._clock.now(), self._limits
        silent_before = now - timedelta(seconds=limits.worker_silent_seconds)
        live = await self._store.read(workers.seen_since(silent_before, limits.workers_judged))
        silent = await self._store.read(
            workers.silent_holders(silent_before, limits.watcher_subjects)
        )
        found = [_silent(each) for each in silent]
        if not any(worker.takes_jobs for worker in live):
            before = now - timedelta(seconds=limits.no_worker_seconds)
            due_at = await self._store.read(watching.due_before(before))
            if due_at is not None:
                found.append(
                    Sighting(
                        DEFAULT_SCOPE,
                        "workers",
                        due_at,
                        f"Work has been due since {rfc3339(due_at)} and no worker is running.",
                        {"hint": "Start a worker with `outrider work`."},
                    )
                )
        return found


def _silent(holder: SilentHolder) -> Sighting:
    name = short_name(holder.id)
    ends = (
        f" Others take them over at {rfc3339(holder.lease_ends_at)}."
        if holder.lease_ends_at is not None
        else ""
    )
    message = (
        f"The worker {name} holds {holder.jobs} jobs and has not reported since"
        f" {rfc3339(holder.seen_at)}: it is frozen, cut off or dead.{ends}"
    )
    detail = {"workerId": holder.id, "host": holder.host, "pid": holder.pid, "jobs": holder.jobs}
    return Sighting(DEFAULT_SCOPE, name, holder.seen_at, message, detail)


class SilentEngine:
    """The engine's server does not answer, and hands out no work: it is asked, so that the alert
    ends with the outage."""

    def __init__(self, away_since: Callable[[], Awaitable[datetime | None]]) -> None:
        self._away_since = away_since

    async def find(self) -> Sequence[Sighting]:
        since = await self._away_since()
        if since is None:
            return []
        found = engine_down(since, None)
        detail = {"hint": found.hint}
        return [Sighting(DEFAULT_SCOPE, ENGINE_SUBJECT, since, found.message, detail)]


class ClosedTargets:
    """Doors that have been closed for a while. Whoever calls raises the alert first, and opening
    the door resolves it; this is for targets that asked to wait for long, and are not called."""

    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def find(self) -> Sequence[Sighting]:
        now = self._clock.now()
        before = now - timedelta(seconds=self._limits.door_alert_seconds)
        state: TargetsNow = await self._store.read(
            blockers.targets_now(self._limits.watcher_subjects)
        )
        return [
            _closed(key, door)
            for key, door in state.doors.items()
            if not key.workspace_id and door.since <= before
        ]


def _closed(key: DoorKey, door: ClosedDoor) -> Sighting:
    target = key.submission_target
    detail = {"submissionTarget": target, "state": door.state.value, "reason": door.reason}
    message = door_message(target, door)
    return Sighting(DEFAULT_SCOPE, target, door.since, message, detail, door_alert(door))


class Outage:
    """The database as this process's watcher sees it: since when it has not answered."""

    def __init__(self, now: Callable[[], datetime], again_seconds: float) -> None:
        self._now = now
        self._again = timedelta(seconds=again_seconds)
        self._said_at: datetime | None = None
        self.since: datetime | None = None

    def seen(self) -> str | None:
        """The name of the log line that is due, if one is: one at first, then one a minute."""
        now = self._now()
        if self.since is None:
            self.since = self._said_at = now
            return "database_down"
        if self._said_at is None or now - self._said_at >= self._again:
            self._said_at = now
            return "database_still_down"
        return None

    def over(self) -> float | None:
        """How long it lasted, in seconds, if there was one."""
        since, self.since = self.since, None
        return (self._now() - since).total_seconds() if since is not None else None
