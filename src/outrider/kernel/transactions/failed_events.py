"""Domain events that could not be routed: one open alert per trigger, until none of them is
left."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from outrider.domain.ids import Scope
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
    raise_alert,
    resolve_in_workspace,
)
from outrider.kernel.transactions.domain_events import count_failed
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction

CODE = AlertCode.EVENTS_FAILED


def update_alerts(
    scope: Scope,
    failed: Mapping[str, tuple[str, str]],
    recovered: Iterable[str],
    most: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """`failed` has the latest event and the reason for each trigger; `recovered` are triggers with
    an event that succeeded after failing before. At most `most` are counted."""
    for trigger, (event_id, why) in sorted(failed.items()):
        count = yield from count_failed(scope, trigger, most)
        many = f"{count:,} events" if count != 1 else "1 event"
        message = (
            f"{many} of {trigger} could not be processed; the latest is {event_id}: {why}."
            " See `outrider event list --status failed`; `outrider event reroute` tries again."
        )
        detail: dict[str, object] = {"failed": count, "eventId": event_id, "why": why}
        yield from raise_alert(Alert(scope, CODE, trigger, message, detail), ids, now)
    for trigger in sorted(set(recovered) - failed.keys()):
        if not (yield from count_failed(scope, trigger, 1)):
            yield from resolve_in_workspace(CODE, trigger, scope, now)
