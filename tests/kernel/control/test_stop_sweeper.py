"""The stop sweeper: what comes back after its job has ended gets an ending too."""

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Progress
from outrider.domain.outbox import Accounting
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.transactions import lost_jobs, settlement
from outrider.testing.store_suite.workshop import ACCEPTED, ONE, OTHER, Workshop

GIVEN_BACK = Verdict(ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, given_back=True)


async def test_an_item_given_back_to_an_abandoned_job_gets_an_outcome(
    noop_outrider: Outrider,
) -> None:
    """Only what a stop had ended was swept: in a job that was given up it waited for ever."""
    shop, now = Workshop(noop_outrider.store), noop_outrider.clock.now()
    run_id = await shop.launch(2)
    asleep = await shop.claim_one(ONE, now=now)
    never_begun, called = await shop.open(asleep, 0, 1, now=now)
    await noop_outrider.store.write(lost_jobs.rescue_from([ONE], OTHER, shop.ids, now))
    later = noop_outrider.clock.now()
    holder = await shop.claim_one(OTHER, now=later)
    assert await noop_outrider.store.write(
        settlement.give_up_job(holder.job, "broken", OTHER, shop.ids, later)
    )
    assert await shop.accounting(run_id) == Accounting(intended=2, in_doubt=2)
    await shop.close(asleep, (called, ACCEPTED), (never_begun, GIVEN_BACK), now=later)
    assert await shop.accounting(run_id) == Accounting(intended=2, waiting=1, sent=1)
    sweeper = StopSweeper(noop_outrider.foundation)
    assert await sweeper.sweep_once() == 1
    assert await shop.accounting(run_id) == Accounting(intended=2, sent=1, skipped=1)
    assert (await shop.item(never_begun)).reason == "job_dead"
    assert await sweeper.sweep_once() == 0
