"""Who works at this database: each process writes its row now and then."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.ids import RunId, WorkerId
from outrider.ports.store import Row, Transaction, ask, ask_alone


class WorkerCard(NamedTuple):
    """A process as it describes itself. `targets` and `mode`: what it is limited to."""

    id: WorkerId
    role: str
    host: str
    pid: int
    version: str
    engine: str
    targets: Sequence[str] | None = None
    mode: str | None = None


class SeenWorker(NamedTuple):
    card: WorkerCard
    started_at: datetime
    seen_at: datetime

    @property
    def takes_jobs(self) -> bool:
        return self.card.role == "worker"

    def takes(self, submission_target: str, mode: str) -> bool:
        if not self.takes_jobs or self.card.mode not in (None, mode):
            return False
        return self.card.targets is None or submission_target in self.card.targets


class HeldWork(NamedTuple):
    """Jobs of one run, or a target's lanes, that a worker holds."""

    worker_id: str
    run_id: RunId | None
    submission_target: str
    jobs: int
    since: datetime
    lease_ends_at: datetime | None


class SilentHolder(NamedTuple):
    id: str
    host: str
    pid: int
    seen_at: datetime
    jobs: int
    lease_ends_at: datetime | None


def seen(card: WorkerCard, now: datetime) -> Transaction[None]:
    targets = None if card.targets is None else msgspec.json.encode(card.targets).decode()
    yield from ask_alone("worker_seen", **{**card._asdict(), "targets": targets}, now=now)


def left(worker_id: WorkerId) -> Transaction[None]:
    yield from ask_alone("worker_left", id=worker_id)


def forget(before: datetime) -> Transaction[None]:
    yield from ask_alone("forget_workers", before=before)


def seen_since(since: datetime, most: int) -> Transaction[list[SeenWorker]]:
    rows = yield from ask_alone("workers_seen_since", since=since, most=most)
    return [_seen(row) for row in rows]


def seen_last() -> Transaction[datetime | None]:
    ((at,),) = yield from ask_alone("worker_seen_last")
    found: datetime | None = at
    return found


def unlisted_holders(now: datetime) -> Transaction[int]:
    """Workers that hold jobs and have no row."""
    ((count,),) = yield from ask_alone("unlisted_holders", now=now)
    found: int = count
    return found


def page(after: str, most: int) -> Transaction[list[SeenWorker]]:
    rows = yield from ask("all_workers", after=after, most=most)
    return [_seen(row) for row in rows]


def held_by(worker_ids: Sequence[str], most: int) -> Transaction[list[HeldWork]]:
    rows = yield from ask("jobs_held", {"id": list(worker_ids)}, most=most)
    return [HeldWork(*row) for row in rows]


def silent_holders(before: datetime, most: int) -> Transaction[list[SilentHolder]]:
    rows = yield from ask_alone("silent_holders", before=before, most=most)
    return [SilentHolder(*row) for row in rows]


def _seen(row: Row) -> SeenWorker:
    worker_id, role, host, pid, version, engine, targets, mode, started_at, seen_at = row
    wanted = msgspec.json.decode(targets, type=list[str]) if targets else None
    card = WorkerCard(worker_id, role, host, pid, version, engine, wanted, mode)
    return SeenWorker(card, started_at, seen_at)
