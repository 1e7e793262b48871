"""The accounting of launches, with what receipts say of the messages that were sent.

Read on one snapshot, a receipt that counts is of a message that counts as sent, so it adds up.
"""

from collections.abc import Collection, Mapping

from outrider.domain.campaigns import LAUNCH
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.ids import RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.kernel.transactions import accountings, deliveries
from outrider.kernel.transactions.run_records import RunRecord, run
from outrider.ports.store import Transaction


def with_deliveries(known: Mapping[RunId, Accounting]) -> Transaction[dict[RunId, Accounting]]:
    """Launches only: other phases have no receipts."""
    counts = yield from deliveries.of_runs(list(known))
    return {
        run_id: accounting.with_delivery(DeliveryCounts.of(counts.get(run_id, {}), accounting.sent))
        for run_id, accounting in known.items()
    }


def accountings_of(records: Collection[RunRecord]) -> Transaction[dict[RunId, Accounting]]:
    counted: dict[RunId, Accounting] = {}
    for record in records:
        counted[record.id] = yield from accountings.accounting(record)
    launches = {each.id: counted[each.id] for each in records if each.phase == LAUNCH}
    return counted | (yield from with_deliveries(launches))


def accounting(record: RunRecord) -> Transaction[Accounting]:
    return (yield from accountings_of([record]))[record.id]


def run_with_accounting(scope: Scope, run_id: RunId) -> Transaction[tuple[RunRecord, Accounting]]:
    record = yield from run(scope, run_id)
    return record, (yield from accounting(record))
