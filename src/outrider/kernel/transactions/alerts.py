"""Alerts: raised once, counted while open, resolved when their cause is gone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from outrider.domain.ids import Scope
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


class AlertCode(StrEnum):
    PROJECTOR_LAG_HIGH = "PROJECTOR_LAG_HIGH"
    PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED = "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"
    EVENT_BUS_DEAD_LETTER = "EVENT_BUS_DEAD_LETTER"
    RUN_NOT_STARTED = "RUN_NOT_STARTED"
    EVENT_BUS_SINK_GONE = "EVENT_BUS_SINK_GONE"
    JOB_DEAD = "JOB_DEAD"
    TARGET_HELD = "TARGET_HELD"
    TARGET_DOWN = "TARGET_DOWN"
    TARGET_THROTTLED = "TARGET_THROTTLED"
    NO_WORKER = "NO_WORKER"
    ENGINE_DOWN = "ENGINE_DOWN"
    DOUBTS_WAITING = "DOUBTS_WAITING"
    CLOCK_SKEW = "CLOCK_SKEW"
    JOB_RESTS = "JOB_RESTS"
    OUT_OF_HANDLES = "OUT_OF_HANDLES"
    LATE_ACCEPTANCE = "LATE_ACCEPTANCE"
    EVENTS_FAILED = "EVENTS_FAILED"
    EVENTS_STUCK = "EVENTS_STUCK"
    EVENT_BUS_STUCK = "EVENT_BUS_STUCK"
    HISTORY_BEHIND = "HISTORY_BEHIND"
    SPOOL_STUCK = "SPOOL_STUCK"
    RUN_STALLED = "RUN_STALLED"
    WORKFLOW_STUCK = "WORKFLOW_STUCK"
    BOUNCE_RATE_HIGH = "BOUNCE_RATE_HIGH"
    COMPLAINT_RATE_HIGH = "COMPLAINT_RATE_HIGH"
    DATABASE_RESTORED = "DATABASE_RESTORED"


LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""Sorts after every id: the start of a newest-first list."""

SEVERITY = {
    **dict.fromkeys(AlertCode, "P2"),
    AlertCode.NO_WORKER: "P1",
    AlertCode.ENGINE_DOWN: "P1",
    AlertCode.RUN_STALLED: "P1",
    AlertCode.TARGET_HELD: "P1",
    AlertCode.JOB_DEAD: "P1",
    AlertCode.DATABASE_RESTORED: "P1",
    AlertCode.TARGET_THROTTLED: "P3",
    AlertCode.DOUBTS_WAITING: "P3",
    AlertCode.LATE_ACCEPTANCE: "P3",
    AlertCode.HISTORY_BEHIND: "P3",
}
"""P1: messages are not being sent, and somebody has to act. P2: something is wrong that may resolve
itself. P3: look at it during working hours."""

RUNBOOK = "/console/runbook.html"


def runbook(code: str, public_url: str | None = None) -> str:
    """The page that says what to do about an alert with this code; on the server that was asked, if
    it has not been told its address."""
    return f"{public_url or ''}{RUNBOOK}#{code.lower()}"


@dataclass(frozen=True, slots=True)
class Alert:
    """`subject` is what it is about (a run, a sink): there is one open alert per code and
    subject."""

    scope: Scope
    code: AlertCode
    subject: str
    message: str
    detail: Mapping[str, object] = field(default_factory=dict)


class AlertRecord(NamedTuple):
    id: str
    code: str
    severity: str
    subject: str
    message: str
    detail: str
    times: int
    raised_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None


def raise_alert(alert: Alert, ids: IdSource, now: datetime) -> Transaction[int]:
    """Returns how often it was raised since it was opened."""
    rows = yield from ask(
        "raise_alert",
        **alert.scope._asdict(),
        id=ids.new(),
        code=alert.code.value,
        severity=SEVERITY[alert.code],
        subject=alert.subject,
        message=alert.message,
        detail=msgspec.json.encode(alert.detail).decode(),
        now=now,
    )
    times: int = rows[0][0]
    return times


def resolve_alert(code: AlertCode, subject: str, now: datetime) -> Transaction[bool]:
    rows = yield from ask("resolve_alert", code=code.value, subject=subject, now=now)
    return bool(rows)


def resolve_in_workspace(
    code: AlertCode, subject: str, scope: Scope, now: datetime
) -> Transaction[bool]:
    """For subjects that other workspaces may have too."""
    rows = yield from ask(
        "resolve_workspace_alert",
        code=code.value,
        subject=subject,
        workspace_id=scope.workspace_id,
        now=now,
    )
    return bool(rows)


def alerts_page(
    scope: Scope, before: str, most: int, *, only_open: bool
) -> Transaction[list[AlertRecord]]:
    rows = yield from ask(
        "alerts_page",
        **scope._asdict(),
        before=before,
        only_open=only_open,
        most=most,
    )
    return [AlertRecord(*row) for row in rows]


def standing_by_code() -> Transaction[dict[str, int]]:
    rows = yield from ask("count_standing_alerts")
    return {code: count for code, count in rows}  # noqa: C416 - a Record is no pair to dict()
