"""Closing attempts: how each call of a window ended, in one statement per kind of ending.

No job has to be held for it: the worker that made a call, and only that one, may always close it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from outrider.domain.call_results import TARGET_DOWN, TARGET_THROTTLED, Progress
from outrider.domain.ids import (
    Fence,
    JobId,
    OutboxId,
    Scope,
)
from outrider.domain.own_limits import OWN_LIMIT
from outrider.domain.states import SUCCESSES, ItemStatus
from outrider.domain.submission import Verdict
from outrider.domain.texts import storable
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask, ask_alone

LATE_ACTOR = "result closer"

LATE_NAMED = 10
"""How many late-accepted items an alert names."""


class ClosedAttempt(NamedTuple):
    """The end of one call: which attempt it was, and how the contract judged the answer."""

    id: OutboxId
    attempt: int
    fence: Fence
    closed_at: datetime
    verdict: Verdict
    job_id: JobId | None = None
    call_by: datetime | None = None
    """The end of the lease under which it was opened: later, another worker may have judged it."""
    shares_reports: bool = False
    """Other workspaces write through the same credential of its target."""


def close(closed: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    """Write how a group of calls ended: at most one statement per kind of ending."""
    # All writers use the same row order, so that they cannot deadlock.
    ordered = sorted(closed, key=itemgetter(0))
    accepted: dict[ItemStatus, list[ClosedAttempt]] = {}
    proven: dict[ItemStatus, list[ClosedAttempt]] = {}
    failed, retried, doubted, given_back = [], [], [], []
    for attempt in ordered:
        verdict = attempt.verdict
        if verdict.given_back:
            given_back.append(attempt)
        elif verdict.status in SUCCESSES:
            group = accepted if verdict.reason is None else proven
            group.setdefault(verdict.status, []).append(attempt)
        elif verdict.status is ItemStatus.FAILED:
            failed.append(attempt)
        elif verdict.in_doubt:
            doubted.append(attempt)
        else:
            retried.append(attempt)
    noted = [attempt.id for attempt in ordered if attempt.shares_reports and _may_arrive(attempt)]
    alone = len(accepted) == 1 and not (
        proven or failed or retried or doubted or given_back or noted
    )
    for status, attempts in accepted.items():
        yield from _close_accepted(status, attempts, now, ask_alone if alone else ask)
    for status, attempts in proven.items():
        yield from _close_proven(status, attempts, now)
    if failed:
        yield from _close_failed(failed, now)
    if retried:
        yield from _close_retried(retried, now)
    if doubted:
        yield from _close_doubted(doubted, now)
    if given_back:
        yield from _give_back(given_back, now)
    if noted:
        yield from ask("note_addressees", {"id": noted}, now=now)


def _may_arrive(attempt: ClosedAttempt) -> bool:
    verdict = attempt.verdict
    return verdict.status in SUCCESSES or verdict.in_doubt or verdict.maybe_received


def note_late(late: Sequence[ClosedAttempt], ids: IdSource, now: datetime) -> Transaction[None]:
    """Record acceptances of items that have been given another outcome meanwhile, and raise an
    alert. `late` are the candidates."""
    ids_of, attempts, fences, closed_at, *_ = zip(*late, strict=True)
    window = {
        "id": ids_of,
        "attempt": attempts,
        "fence": fences,
        "closed_at": closed_at,
        "message_id": [storable(each.verdict.provider_message_id) for each in late],
    }
    noted = yield from ask("note_late_acceptances", window, now=now)
    if not noted:
        return
    places = yield from ask("places_of_items", {"id": [row[0] for row in noted]})
    yield from record(
        [
            AuditEntry(
                Scope(tenant, workspace), "item.accepted_late", LATE_ACTOR, campaign_id, run_id,
                job_id, item, {"reason": reason},
            )
            for item, tenant, workspace, run_id, job_id, campaign_id, reason in places
        ],
        ids,
        now,
    )  # fmt: skip
    # One alert for each run, and for each item that has none.
    by_subject: dict[str, list[Any]] = {}
    for row in places:
        by_subject.setdefault(row[3] or row[0], []).append(row)
    for subject, rows in by_subject.items():
        message = (
            f"the provider accepted {len(rows)} items that already had another outcome, after their"
            " worker was considered lost; they may have been sent twice"
        )
        detail = {"outboxIds": [row[0] for row in rows[:LATE_NAMED]], "runId": rows[0][3]}
        scope = Scope(rows[0][1], rows[0][2])
        alert = Alert(scope, AlertCode.LATE_ACCEPTANCE, subject, message, detail)
        yield from raise_alert(alert, ids, now)


def _identity(group: Sequence[ClosedAttempt]) -> dict[str, Sequence[object]]:
    ids, attempts, fences, closed_at, *_ = zip(*group, strict=True)
    return {"id": ids, "attempt": attempts, "fence": fences, "closed_at": closed_at}


def _close_accepted(
    status: ItemStatus,
    group: Sequence[ClosedAttempt],
    now: datetime,
    ask: Callable[..., Transaction[Rows]],
) -> Transaction[None]:
    yield from ask(
        "close_accepted",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "message_id": [storable(attempt.verdict.provider_message_id) for attempt in group],
        },
        status=status.value,
        now=now,
    )


def _close_proven(
    status: ItemStatus, group: Sequence[ClosedAttempt], now: datetime
) -> Transaction[None]:
    yield from ask(
        "close_proven",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
        },
        status=status.value,
        now=now,
    )


def _close_failed(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "close_failed",
        {
            **_identity(group),
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
            "progress": [attempt.verdict.progress for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
        },
        now=now,
    )


def _close_retried(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    window = {
        **_identity(group),
        "progress": [attempt.verdict.progress for attempt in group],
        "outcome": [_outcome(attempt.verdict) for attempt in group],
        "reason": [storable(attempt.verdict.reason) for attempt in group],
        "error": [storable(attempt.verdict.error) for attempt in group],
        "next_attempt_at": [attempt.verdict.next_attempt_at for attempt in group],
        "maybe_received": [attempt.verdict.maybe_received for attempt in group],
    }
    yield from ask("archive_retried", window)
    yield from ask("close_retried", window, now=now)


def _close_doubted(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "close_doubted",
        {
            **_identity(group),
            "progress": [attempt.verdict.progress for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
            "intent_status": [attempt.verdict.intent_status for attempt in group],
            "exhausted_reason": [attempt.verdict.exhausted_reason for attempt in group],
        },
        now=now,
    )


def _give_back(group: Sequence[ClosedAttempt], now: datetime) -> Transaction[None]:
    yield from ask(
        "give_back",
        {
            **_identity(group),
            "next_attempt_at": [attempt.verdict.next_attempt_at for attempt in group],
            "reason": [storable(attempt.verdict.reason) for attempt in group],
            "error": [storable(attempt.verdict.error) for attempt in group],
            "waits_for": [_waits_for(attempt.verdict) for attempt in group],
            "calls": [int(attempt.verdict.counts_as_call) for attempt in group],
        },
        now=now,
    )


def _waits_for(verdict: Verdict) -> str | None:
    if verdict.reason is None:
        return None
    return verdict.reason if verdict.reason in (TARGET_THROTTLED, OWN_LIMIT) else TARGET_DOWN


def _outcome(verdict: Verdict) -> str:
    return "rejected" if verdict.progress is Progress.ANSWERED else "error"
