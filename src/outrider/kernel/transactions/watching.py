"""The watcher's queries: each look is one statement, over a bounded number of subjects."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import DEFAULT_SCOPE, JobId, Scope, TenantId, WorkspaceId
from outrider.kernel.transactions.alerts import AlertCode
from outrider.ports.store import Rows, Transaction, ask, ask_alone


class Sighting(NamedTuple):
    """Something that has been in this state since then."""

    scope: Scope
    subject: str
    since: datetime


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


def unmoved_runs(before: datetime, most: int) -> Transaction[list[Sighting]]:
    return _sightings((yield from ask_alone("watch_runs", before=before, most=most)))


def unrouted_events(before: datetime, most: int) -> Transaction[list[Sighting]]:
    return _sightings((yield from ask_alone("watch_events", before=before, most=most)))


def undelivered_sinks(before: datetime, most: int) -> Transaction[list[Sighting]]:
    """Sinks belong to the installation, and so do alerts about them."""
    rows = yield from ask_alone("watch_bus", before=before, most=most)
    return [Sighting(DEFAULT_SCOPE, name, due_at) for name, due_at in rows]


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
