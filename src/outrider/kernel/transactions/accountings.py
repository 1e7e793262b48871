"""The accounting of runs: what was intended, and what happened to it."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.kernel.transactions.run_records import RunRecord, run, run_anywhere
from outrider.ports.store import Transaction, ask


class Settlings(NamedTuple):
    sent: int = 0
    failed: int = 0
    skipped: int = 0


def accounting(record: RunRecord) -> Transaction[Accounting]:
    """Jobs carry their counts once all their items have ended; for the others, rows are counted."""
    finished = yield from ask("count_finished_jobs", run_id=record.id)
    unfinished = yield from ask("count_unfinished_jobs", run_id=record.id)
    rows = yield from ask("count_unfinished_rows", run_id=record.id)
    _, sent, failed, skipped = (int(number) for number in finished[0])
    reserved, queued, in_doubt, live_sent, live_failed, live_skipped = rows[0]
    unreserved = int(unfinished[0][0]) - reserved
    return Accounting(
        intended=record.intended,
        waiting=unreserved + queued,
        in_doubt=in_doubt,
        sent=sent + live_sent,
        failed=failed + live_failed,
        skipped=skipped + live_skipped,
    )


def accountings(intended: Mapping[RunId, int]) -> Transaction[dict[RunId, Accounting]]:
    """Of several runs at once, given what each intends."""
    if not intended:
        return {}
    window = {"id": list(intended)}
    jobs = {row[0]: row[1:] for row in (yield from ask("sum_jobs_of_runs", window))}
    rows = {row[0]: row[1:] for row in (yield from ask("count_unfinished_rows_of_runs", window))}
    counted = {}
    for run_id, whole in intended.items():
        unsettled, sent, failed, skipped = jobs.get(run_id, (0, 0, 0, 0))
        reserved, queued, in_doubt, *live = rows.get(run_id, (0, 0, 0, 0, 0, 0))
        counted[run_id] = Accounting(
            intended=whole,
            waiting=unsettled - reserved + queued,
            in_doubt=in_doubt,
            sent=sent + live[0],
            failed=failed + live[1],
            skipped=skipped + live[2],
        )
    return counted


def run_accounting(run_id: RunId) -> Transaction[Accounting]:
    return (yield from accounting((yield from run_anywhere(run_id))))


def run_with_accounting(scope: Scope, run_id: RunId) -> Transaction[tuple[RunRecord, Accounting]]:
    record = yield from run(scope, run_id)
    return record, (yield from accounting(record))


def throughput(
    run_id: RunId, begin: datetime, bucket_seconds: float, buckets: int
) -> Transaction[dict[int, Settlings]]:
    """Results of settled jobs by time bucket since the start."""
    rows = yield from ask(
        "run_throughput",
        run_id=run_id,
        begin=begin,
        bucket_seconds=bucket_seconds,
        last_bucket=buckets - 1,
    )
    return {row[0]: Settlings(*row[1:]) for row in rows}


def unsettled_items(run_id: RunId) -> Transaction[int]:
    """How many items are in jobs that have not settled."""
    rows = yield from ask("count_unfinished_jobs", run_id=run_id)
    return int(rows[0][0])
