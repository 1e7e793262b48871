"""The final outcome of every message of a launch, over all its retries.

A retry covers what the previous run left over, so a message may be in several runs, and its last
one counts. What earlier runs settled finally is added to the latest run's accounting.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from outrider.domain.ids import CampaignId, OutboxId, RunId
from outrider.domain.outbox import Accounting, total
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions import accountings, ledger_items
from outrider.kernel.transactions.delivery_accountings import with_deliveries
from outrider.kernel.transactions.reported_accountings import final_accounting
from outrider.limits.campaigns import RETRY_CHAIN_MAX_RUNS
from outrider.ports.store import Transaction, ask

TAKEN_UP_REASONS = frozenset({"cancelled", "job_dead"})
"""Skip reasons of items that a retry includes."""


class EarlierRuns(NamedTuple):
    """The runs before the latest one, and the part of them that no later run took up."""

    runs: int
    settled: Accounting


def launch_chain(run_id: RunId) -> Transaction[list[RunId]]:
    """The run, preceded by the ones whose remainder it took up, latest first."""
    rows = yield from ask("launch_chains", {"id": [run_id]}, longest=RETRY_CHAIN_MAX_RUNS)
    return [RunId(each) for _, each, *_ in rows]


def earlier_runs(latest: Mapping[RunId, CampaignId]) -> Transaction[dict[RunId, EarlierRuns]]:
    """Those of these runs that retried others; a few statements however many there are."""
    if not latest:
        return {}
    rows = yield from ask("launch_chains", {"id": list(latest)}, longest=RETRY_CHAIN_MAX_RUNS)
    chains: dict[RunId, list[tuple[RunId, int]]] = {}
    reported: dict[RunId, Accounting] = {}
    for last_id, run_id, intended, ending in rows:
        chains.setdefault(RunId(last_id), []).append((RunId(run_id), intended))
        if ending is not None and (final := final_accounting(ending)):
            reported[RunId(run_id)] = final
    retried = {last: chain for last, chain in chains.items() if len(chain) > 1}
    before = {run_id: intended for chain in retried.values() for run_id, intended in chain[1:]}
    counted = yield from accountings.accountings(
        {run_id: intended for run_id, intended in before.items() if run_id not in reported}
    )
    known = reported | counted
    left = yield from _left_failed({latest[last] for last in retried})
    known = yield from with_deliveries(known)
    return {
        last: EarlierRuns(
            len(chain) - 1,
            _settled(chain, [known[run_id] for run_id, _ in chain[1:]], left[latest[last]]),
        )
        for last, chain in retried.items()
    }


def _left_failed(campaign_ids: Iterable[CampaignId]) -> Transaction[dict[CampaignId, int]]:
    found = dict.fromkeys(campaign_ids, 0)
    if found:
        rows = yield from ask("count_left_failed", {"id": list(found)})
        found |= {CampaignId(campaign_id): count for campaign_id, count in rows}
    return found


def _settled(
    chain: Sequence[tuple[RunId, int]], before: Sequence[Accounting], left_failed: int
) -> Accounting:
    """Whatever was not sent, in doubt or excluded as failed was retried, or skipped finally."""
    intended = chain[-1][1] - chain[0][1]
    waiting = sum(each.waiting for each in before)
    in_doubt = sum(each.in_doubt for each in before)
    sent = sum(each.sent for each in before)
    skipped = intended - waiting - in_doubt - sent - left_failed
    delivery = total(before).delivery
    return Accounting(intended, waiting, in_doubt, sent, left_failed, skipped, delivery)


def taken_up(
    campaign_id: CampaignId, items: Sequence[ledger_items.Item]
) -> Transaction[set[OutboxId]]:
    """Items of an earlier run that a later run took up: their outcome is the later one."""
    candidates = [item.id for item in items if _is_remainder(item)]
    if not candidates:
        return set()
    rows = yield from ask("still_left_out", {"id": candidates}, campaign_id=campaign_id)
    return set(candidates) - {OutboxId(row[0]) for row in rows}


def _is_remainder(item: ledger_items.Item) -> bool:
    return item.status == ItemStatus.FAILED or (
        item.status == ItemStatus.SKIPPED and item.reason in TAKEN_UP_REASONS
    )
