"""Recovery: a database that was restored or promoted is quarantined; its work is distrusted."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import DEFAULT_SCOPE, JobId, OutboxId, RunId
from outrider.domain.restored_database import (
    DatabasePlace,
    RememberedDatabase,
    RestoredDatabase,
)
from outrider.kernel.transactions import audit
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask, ask_alone

SUBJECT = "database"
QUARANTINED, RELEASED = "database.quarantined", "database.released"


class Quarantine(NamedTuple):
    """Why nothing may be sent, and since when."""

    reason: str
    since: datetime


class DistrustedJob(NamedTuple):
    id: JobId
    run_id: RunId


def recognise(
    place: DatabasePlace,
    remembered: RememberedDatabase | None,
    actor: str,
    ids: IdSource,
    now: datetime,
) -> Transaction[Quarantine | RememberedDatabase]:
    """Unless it is in quarantine, it may be worked with: it notes where it is now.

    `remembered`: when this process last noted that, as it remembers it outside of the database.
    Returns what there is to remember from now on.
    """
    known, noted_at, releases, reason, began_at = (yield from ask("database_place"))[0]
    if reason is not None:
        found = Quarantine(reason, began_at)
    elif known not in (None, place.name):
        found = Quarantine(RestoredDatabase.MOVED, now)
    elif known is not None and _went_back(place, noted_at, releases, remembered):
        found = Quarantine(RestoredDatabase.WENT_BACK, now)
    else:
        yield from ask("note_place", place=place.name, now=now)
        return RememberedDatabase(now, releases or 0, place.log_position)
    noted = {"reason": found.reason, "place": place.name, "now": found.since}
    if (yield from ask("quarantine_database", **noted)):
        yield from ask("shut_out_holders", now=now)
        entry = AuditEntry(DEFAULT_SCOPE, QUARANTINED, actor, detail={"reason": found.reason})
        yield from audit.record([entry], ids, now)
    yield from _tell(found, ids, now)
    return found


def _went_back(
    place: DatabasePlace,
    noted_at: datetime,
    releases: int,
    remembered: RememberedDatabase | None,
) -> bool:
    if remembered is None:
        return False
    if releases != remembered.releases:
        return releases < remembered.releases
    return noted_at < remembered.noted_at or place.is_behind(remembered.log_position)


def _tell(found: Quarantine, ids: IdSource, now: datetime) -> Transaction[None]:
    message = (
        f"nothing is sent from this database: {found.reason}. Run `outrider recovery release`"
        " once it is the one to work with"
    )
    alert = Alert(DEFAULT_SCOPE, AlertCode.DATABASE_RESTORED, SUBJECT, message)
    yield from raise_alert(alert, ids, now)


def quarantine() -> Transaction[Quarantine | None]:
    *_, reason, since = (yield from ask("database_place"))[0]
    return None if reason is None else Quarantine(reason, since)


def distrust_jobs(
    after: str, until: datetime, most: int, now: datetime
) -> Transaction[list[DistrustedJob]]:
    """The next window of jobs that may have been done, and all that waits in them."""
    rows = yield from ask("jobs_to_distrust", after=after, until=until, most=most)
    jobs = [DistrustedJob(*row) for row in rows]
    for job in jobs:
        # A job is a window of items.
        yield from ask("archive_restored", run_id=job.run_id, job_id=job.id, now=now)
        yield from ask("distrust_items", run_id=job.run_id, job_id=job.id, now=now)
    if jobs:
        yield from ask("distrust_jobs", {"id": [job.id for job in jobs]}, now=now)
    return jobs


def lanes(after: str, most: int) -> Transaction[list[JobId]]:
    rows = yield from ask_alone("lanes_to_distrust", after=after, most=most)
    return [JobId(row[0]) for row in rows]


def distrust_messages(lane: JobId, until: datetime, most: int, now: datetime) -> Transaction[int]:
    """A window of a lane's messages."""
    yield from ask("archive_restored_messages", job_id=lane, now=now)
    rows = yield from ask("distrust_messages", job_id=lane, until=until, most=most, now=now)
    return len(rows)


def distrust_reserved(outbox_ids: Sequence[OutboxId], since: datetime) -> Transaction[None]:
    """They were reserved in this transaction."""
    yield from ask("distrust_reserved", {"id": outbox_ids}, since=since)


def release(actor: str, ids: IdSource, now: datetime, *, distrusted: bool) -> Transaction[bool]:
    """From now on this is the database to work with. False: it was not in quarantine."""
    rows = yield from ask("end_quarantine")
    if not rows:
        return False
    yield from ask("note_place", place=rows[0][0], now=now)
    yield from ask("count_release")
    if distrusted:
        # Of events that are not routed yet.
        yield from ask("distrust_until", now=now)
    entry = AuditEntry(DEFAULT_SCOPE, RELEASED, actor, detail={"distrusted": distrusted})
    yield from audit.record([entry], ids, now)
    yield from resolve_alert(AlertCode.DATABASE_RESTORED, SUBJECT, now)
    return True
