"""The watcher's queries: each look is one statement, over a bounded number of subjects."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from outrider.domain.bus_queues import HISTORY
from outrider.domain.ids import DEFAULT_SCOPE, JobId, Scope, TenantId, WorkspaceId
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.alerts import AlertCode
from outrider.ports.store import Rows, Transaction, ask, ask_alone


class Sighting(NamedTuple):
    """Something that has been in this state since then."""

    scope: Scope
    subject: str
    since: datetime
    message: str | None = None
    """Details of this finding, beyond what all findings of the look have in common."""
    detail: Mapping[str, object] | None = None
    code: AlertCode | None = None
    """Which alert it is about, if the look's reading serves several."""


class OpenAlert(NamedTuple):
    code: AlertCode
    subject: str
    scope: Scope
    last_seen_at: datetime


def open_alerts(codes: Iterable[AlertCode], most: int) -> Transaction[list[OpenAlert]]:
    rows = yield from ask_alone("open_alerts", {"code": [each.value for each in codes]}, most=most)
    return [
        OpenAlert(AlertCode(code), subject, Scope(TenantId(tenant), WorkspaceId(workspace)), seen)
        for code, subject, tenant, workspace, seen in rows
    ]


def unprojected_runs(before: datetime, most: int) -> Transaction[list[Sighting]]:
    return _sightings((yield from ask_alone("watch_projection", before=before, most=most)))


def due_before(before: datetime) -> Transaction[datetime | None]:
    """Since when a job has been due that no worker holds, of any run or lane."""
    rows = yield from ask_alone("watch_queue", before=before)
    return rows[0][0] if rows else None


def waiting_doubts(before: datetime, most: int) -> Transaction[list[Sighting]]:
    """Workspaces with doubts that only people can settle."""
    rows = yield from ask_alone("watch_doubts", before=before, most=most)
    return [
        Sighting(
            Scope(TenantId(tenant), WorkspaceId(workspace)), "doubts", since,
            f"{items:,} items in doubt are left to people, the first since {rfc3339(since)}: no"
            " evidence settles them. `outrider doubts list --settles person` shows them.",
            {"items": items},
        )
        for tenant, workspace, items, since in rows
    ]  # fmt: skip


def unrouted_events(before: datetime, most: int) -> Transaction[list[Sighting]]:
    return _sightings((yield from ask_alone("watch_events", before=before, most=most)))


def undelivered_sinks(before: datetime, most: int) -> Transaction[list[Sighting]]:
    """Sinks belong to the installation, and so do alerts about them."""
    rows = yield from ask_alone("watch_bus", before=before, most=most)
    return [Sighting(DEFAULT_SCOPE, name, due_at) for name, due_at in rows]


def failing_sinks(before: datetime, most: int) -> Transaction[list[Sighting]]:
    """Sinks whose first event in line has been tried in vain for a while."""
    rows = yield from ask_alone("watch_sinks", before=before, most=most)
    return [
        Sighting(
            DEFAULT_SCOPE, name, since,
            f"The sink '{name}' has not taken an event since {rfc3339(since)}: {error}. Its events"
            " wait, in order, and are tried again.",
            {"sink": name, "attempts": attempts, "error": error},
        )
        for name, since, attempts, error in rows
    ]  # fmt: skip


def late_history(before: datetime, most: int) -> Transaction[list[Sighting]]:
    rows = yield from ask_alone("watch_history", sink=HISTORY, before=before, most=most)
    return [
        Sighting(
            DEFAULT_SCOPE, HISTORY, since,
            f"The history is behind: an event of {rfc3339(since)} has not been written to it"
            f"{'' if error is None else f' ({error})'}. Events wait, and nothing else does.",
            {"attempts": attempts, "error": error},
        )
        for since, attempts, error in rows
    ]  # fmt: skip


def unmoved_workflows(before: datetime, most: int) -> Transaction[list[Sighting]]:  # noqa: ARG001
    """The alert was raised when they were restarted; it is open until their jobs move."""
    return _sightings((yield from ask_alone("watch_workflows", most=most)))


def late_acceptances(before: datetime, most: int) -> Transaction[list[Sighting]]:
    return _sightings((yield from ask_alone("watch_late_acceptances", before=before, most=most)))


def scope_of_job(job_id: JobId) -> Transaction[Scope | None]:
    rows = yield from ask("scope_of_job", job_id=job_id)
    return Scope(*rows[0]) if rows else None


def _sightings(rows: Rows) -> list[Sighting]:
    return [
        Sighting(Scope(TenantId(tenant), WorkspaceId(workspace)), subject, since)
        for tenant, workspace, subject, since in rows
    ]
