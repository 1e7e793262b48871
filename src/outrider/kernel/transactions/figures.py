"""What a metrics scrape counts: bypasses, doubts, and unfinished jobs, over all tenants."""

from outrider.kernel.transactions.phase_repairs import count_bypasses
from outrider.ports.store import Transaction, ask


def figures() -> Transaction[tuple[int, int, dict[str, int]]]:
    bypasses = yield from count_bypasses()
    in_doubt = yield from ask("count_doubted")
    jobs = yield from ask("count_open_jobs")
    return bypasses, in_doubt[0][0], {row[0]: row[1] for row in jobs}
