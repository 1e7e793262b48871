"""Signals in a run's log: the decision on each, numbered in order of arrival.

The number is the signal's identity in its run, and its immediate effects carry it too. A signal
does not count as an attempt, whatever step it is about.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEventType, signal_step
from outrider.domain.signals import AskedSignal
from outrider.kernel.transactions import run_log, run_records
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.store import Transaction, ask

COUNTED = "refusedBesides"
"""How many refused signals without their own event this event stands for."""


class SignalDecision(NamedTuple):
    """The log's record of a signal."""

    run_seq: int
    kind: str
    payload: str
    about: str | None


def decided(run_id: RunId, signal_id: str) -> Transaction[SignalDecision | None]:
    """None: no signal with this id has arrived yet."""
    rows = yield from ask("signal_of_run", run_id=run_id, signal_id=signal_id)
    return SignalDecision(*rows[0]) if rows else None


def next_signal(run_id: RunId) -> Transaction[int]:
    """Locks the run's row until the commit."""
    rows = yield from ask("next_signal", run_id=run_id)
    number: int = rows[0][0]
    return number


def decision(
    asked: AskedSignal,
    number: int,
    actor: str,
    *,
    denied: str | None = None,
    **more: object,
) -> EventDraft:
    """SignalAccepted, or, with a reason, SignalRejected. It changes no status."""
    kind = RunEventType.SIGNAL_REJECTED if denied else RunEventType.SIGNAL_ACCEPTED
    payload: dict[str, object] = {
        "signal": asked.signal.value,
        "signalId": asked.signal_id,
        "by": actor,
        **more,
    }
    if asked.step_id is not None:
        payload["stepId"] = asked.step_id
    if asked.message_id is not None:
        payload |= {"messageId": asked.message_id, "variant": asked.variant}
    if denied:
        payload["reason"] = denied
    return EventDraft(
        kind,
        signal_step(number),
        payload=payload,
        signal_id=asked.signal_id,
    )


def room_for_refusal(
    run_id: RunId, most: int, period: timedelta, now: datetime
) -> Transaction[int | None]:
    """How many earlier refusals were only counted, if this one is to be recorded; None: it was
    counted too. The caller holds the lock on the run's row."""
    since, recorded, counted = (yield from ask("refusals_of_run", run_id=run_id))[0]
    if since is None or since <= now - period:
        since, recorded = now, 0
    if recorded < most:
        yield from ask(
            "note_refusals", run_id=run_id, since=since, recorded=recorded + 1, unrecorded=0
        )
        return int(counted)
    yield from ask(
        "note_refusals", run_id=run_id, since=since, recorded=recorded, unrecorded=counted + 1
    )
    return None


def unrecorded(since: datetime, most: int) -> Transaction[list[RunId]]:
    rows = yield from ask("unrecorded_refusals", since=since, most=most)
    return [RunId(row[0]) for row in rows]


def record_counted(run_id: RunId, since: datetime, now: datetime) -> Transaction[bool]:
    """One event for all that were only counted, unless they have been recorded meanwhile."""
    run = yield from run_records.lock(run_id)
    began, _, counted = (yield from ask("refusals_of_run", run_id=run_id))[0]
    if not counted or began > since:
        return False
    yield from ask("note_refusals", run_id=run_id, since=None, recorded=0, unrecorded=0)
    number = yield from next_signal(run_id)
    payload: dict[str, object] = {
        COUNTED: counted,
        "reason": "more signals were refused than are recorded individually",
    }
    draft = EventDraft(RunEventType.SIGNAL_REJECTED, signal_step(number), payload=payload)
    yield from append_decision(run_id, run.plan_version, draft, now)
    return True


def append_decision(
    run_id: RunId, plan_version: str, draft: EventDraft, now: datetime
) -> Transaction[None]:
    yield from run_log.append(run_id, plan_version, [draft], now)


class RefusedSignal(NamedTuple):
    """A signal that is not carried out. With its id, it gets this decision whenever it is sent
    again; otherwise the id stays available to an authorised caller."""

    asked: AskedSignal
    actor: str
    reason: str
    code: str
    under_id: bool


def refuse(
    run_id: RunId, refused: RefusedSignal, most: int, period: timedelta, now: datetime
) -> Transaction[None]:
    """Recorded, or only counted if the limit of this period is reached."""
    run = yield from run_records.lock(run_id)
    before = yield from decided(run_id, refused.asked.signal_id)
    if before is not None and refused.under_id:
        return
    room = yield from room_for_refusal(run_id, most, period, now)
    if room is None:
        return
    number = yield from next_signal(run_id)
    more: dict[str, object] = {"code": refused.code}
    if room:
        more[COUNTED] = room
    draft = decision(refused.asked, number, refused.actor, denied=refused.reason, **more)
    if not refused.under_id:
        draft = replace(draft, signal_id=None)
    yield from append_decision(run_id, run.plan_version, draft, now)
