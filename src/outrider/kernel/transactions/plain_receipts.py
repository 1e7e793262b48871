"""Plain receipts: most of what providers report, matched in one statement for a window of them.

A plain receipt names a message by our own reference and changes nothing but the message's delivery:
the message has ended, nobody is opted out and no listener is waiting. All others are left to
`receipt_matching`.
"""

import json
from collections.abc import Collection
from datetime import datetime
from itertools import product
from typing import Final, NamedTuple

from outrider.domain.ids import RunId, Scope
from outrider.domain.receipts import DeliveryState, ReceiptEvent, rank, state_of
from outrider.domain.states import SUCCESSES
from outrider.kernel.transactions import deliveries
from outrider.kernel.transactions.deliveries import MovedDeliveries
from outrider.ports.store import Transaction, Window, ask

_RANKED: Final = [
    (event, permanent, state, rank(event, permanent=permanent))
    for event, permanent in product(ReceiptEvent, (False, True))
    if (state := state_of(event)) is not None
]
_RANKS: Final[Window] = {
    "event": [event.value for event, _, _, _ in _RANKED],
    "permanent": [permanent for _, permanent, _, _ in _RANKED],
    "state": [state.value for _, _, state, _ in _RANKED],
    "rank": [rank for _, _, _, rank in _RANKED],
}
"""What each kind of receipt says of its message, and how strongly."""
_SUCCESSES: Final = json.dumps(sorted(status.value for status in SUCCESSES))


class PlainOutcome(NamedTuple):
    matched: int
    others: int
    """How many were due as well, and are not plain."""
    worse_runs: frozenset[tuple[Scope, RunId]]


def match(most: int, shared: Collection[str], now: datetime) -> Transaction[PlainOutcome]:
    """Of so many that are due, the oldest first and none that is urgent, match those that are
    plain. `shared` are targets of which a report may be anybody's."""
    rows = yield from ask(
        "match_plain_receipts",
        _RANKS,
        most=most,
        shared=json.dumps(sorted(shared)),
        successes=_SUCCESSES,
        now=now,
    )
    moved = [
        MovedDeliveries(
            Scope(tenant_id, workspace_id), target, run_id, DeliveryState(state), previous_run_id,
            DeliveryState(previous_state) if previous_state else None, items,
        )
        for _, _, tenant_id, workspace_id, target, run_id, state, previous_run_id,
            previous_state, items in rows if items
    ]  # fmt: skip
    if moved:
        yield from deliveries.sum_up(moved, now)
    met, matched = rows[0][:2]
    return PlainOutcome(matched, met - matched, deliveries.worse_runs(moved))
