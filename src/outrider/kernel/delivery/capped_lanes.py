"""Single messages under a frequency cap: which may exceed it, and what becomes of the others.

The cap itself is counted in the transaction that opens the window (`transactions/frequency.py`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from outrider.domain.frequency import reached
from outrider.domain.ids import OutboxId
from outrider.domain.purposes import Purpose
from outrider.domain.screen_policies import ScreenPolicies, WaitsFor, WhenReached
from outrider.domain.states import Channel
from outrider.kernel.transactions.frequency import CappedItem
from outrider.kernel.transactions.reserving import CappedWindow
from outrider.kernel.transactions.screening import Deferral, Ending, HeldBack
from outrider.kernel.transactions.submissions import DueItem


def capped_window(policies: ScreenPolicies, rows: Sequence[DueItem]) -> CappedWindow | None:
    """None if no cap applies. All messages of a lane have one channel: their target's."""
    cap = policies.cap(Channel(rows[0].channel)) if rows else None
    if cap is None:
        return None

    def held_back(beyond: Mapping[OutboxId, datetime]) -> HeldBack:
        held = HeldBack([], [], [])
        for place, row in enumerate(rows):
            until = beyond.get(row.id)
            if until is None:
                continue
            if cap.when_reached is WhenReached.SKIP:
                held.skipped.append(Ending(row.id, WaitsFor.FREQUENCY_CAP.value, reached(cap)))
                continue
            # Items deferred together go in the order in which they would have gone.
            until += timedelta(microseconds=place)
            deadline = row.deadline_from(until)
            held.deferred.append(Deferral(row.id, until, WaitsFor.FREQUENCY_CAP.value, deadline))
        return held

    items = [
        CappedItem(row.id, row.channel, row.address, _may_exceed(policies, row)) for row in rows
    ]
    return CappedWindow(cap, items, held_back)


def _may_exceed(policies: ScreenPolicies, row: DueItem) -> bool:
    """Urgent and exempt messages; and silent ones, because asking again sends nothing new."""
    is_silent = row.is_open or row.maybe_received
    return row.urgent or is_silent or policies.exempts(Purpose(row.topic, row.transactional))
