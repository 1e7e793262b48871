"""Signals in a run's log: the decision on each, numbered in the order in which they came.

The number is the run's own logical attempt: what follows from a signal carries it too.
"""

from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEventType
from outrider.domain.signals import AskedSignal
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.store import Transaction, ask


def next_signal(run_id: RunId) -> Transaction[int]:
    """Locks the run's row until the commit."""
    rows = yield from ask("next_signal", run_id=run_id)
    number: int = rows[0][0]
    return number


def decision(
    asked: AskedSignal, number: int, actor: str, *, denied: str | None = None, **more: object
) -> EventDraft:
    """SignalAccepted, or, with a reason, SignalRejected. It changes no status."""
    kind = RunEventType.SIGNAL_REJECTED if denied else RunEventType.SIGNAL_ACCEPTED
    payload: dict[str, object] = {
        "signal": asked.signal.value,
        "signalId": asked.signal_id,
        "by": actor,
        **more,
    }
    if denied:
        payload["reason"] = denied
    return EventDraft(
        kind,
        asked.step_id,
        logical_attempt=number,
        payload=payload,
        signal_id=asked.signal_id,
    )
