"""Conformance: settling a job, and with the last one its run and its phase, in one transaction."""

import asyncio

import pytest

from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.jobs import Completed, Parked, Unfinished
from outrider.domain.states import ItemStatus, JobOutcome
from outrider.domain.submission import Verdict
from outrider.kernel.transactions import campaigns, jobs, lost_jobs, run_records, settlement
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    DOUBTED,
    ONE,
    REJECTED,
    Workshop,
    again,
    at,
)


class SettlementConformance:
    async def test_the_last_job_ends_the_run_and_its_phase_together(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2, batch_size=1)
        first, last = [await shop.claim_one() for _ in range(2)]
        for number, context in enumerate((first, last)):
            assert await shop.run_status(run_id) == "running"
            (item_id,) = await shop.open(context, number)
            await shop.close(context, (item_id, ACCEPTED))
            settled = await shop.settle(context, now=at(number + 1))
            assert settled == Completed(JobOutcome.COMPLETED)
        run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
        assert (run.status, run.finished_at) == ("completed", at(2))
        assert await _phase(store, run_id) == ("completed", 2)
        assert await shop.jobs_by_status(run_id) == {"completed": 2}
        events = await shop.events(run_id)
        assert sorted(events) == sorted(
            ["run.deployed", "run.started", "job.completed", "job.completed", "run.finished"]
        )

    @pytest.mark.parametrize(
        ("verdicts", "run_status", "phase_state"),
        [
            ([ACCEPTED, ACCEPTED], "completed", "completed"),
            ([ACCEPTED, REJECTED], "partial", "completed"),
            ([REJECTED, REJECTED], "failed", "failed"),
        ],
    )
    async def test_a_runs_status_is_computed_from_its_jobs_outcomes(
        self, store: Store, verdicts: list[Verdict], run_status: str, phase_state: str
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2, batch_size=1)
        for number, verdict in enumerate(verdicts):
            context = await shop.claim_one()
            (item_id,) = await shop.open(context, number)
            await shop.close(context, (item_id, verdict))
            await shop.settle(context)
        assert await shop.run_status(run_id) == run_status
        assert await _phase(store, run_id) == (phase_state, 2)

    async def test_a_job_of_successes_and_failures_is_partial(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        sent, failed = await shop.open(context, 0, 1)
        skipped = shop.draft(context, 2, status=ItemStatus.SKIPPED, reason="no_address")
        await shop.reserve(context, [skipped])
        await shop.close(context, (sent, ACCEPTED), (failed, REJECTED))
        assert await shop.settle(context) == Completed(JobOutcome.PARTIAL)
        assert (await shop.accounting(run_id)).as_document() == {
            "intended": 3, "waiting": 0, "inDoubt": 0, "sent": 1, "failed": 1, "skipped": 1,
        }  # fmt: skip

    async def test_last_jobs_that_settle_at_the_same_time_end_the_run_once(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(6, batch_size=1)
        contexts = [await shop.claim_one() for _ in range(6)]
        for number, context in enumerate(contexts):
            (item_id,) = await shop.open(context, number)
            await shop.close(context, (item_id, ACCEPTED))
        await asyncio.gather(*(shop.settle(context) for context in contexts))
        assert await shop.run_status(run_id) == "completed"
        assert await _phase(store, run_id) == ("completed", 2)
        assert (await shop.events(run_id)).count("run.finished") == 1

    async def test_a_job_with_retries_to_come_is_parked_until_the_earliest(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        sooner, later, sent = await shop.open(context, 0, 1, 2)
        await shop.close(context, (sooner, again(20)), (later, again(40)), (sent, ACCEPTED))
        assert await shop.settle(context, now=at(1)) == Parked(at(20))
        assert await shop.claim(now=at(19.999)) == []
        (job,) = await shop.claim(now=at(20))
        # Waiting for a provider is not the job's fault and uses up none of its attempts.
        assert job.attempts == 0
        assert await shop.run_status(run_id) == "running"
        assert "job.parked" in await shop.events(run_id)

    async def test_a_job_with_only_doubts_left_is_parked_without_a_due_time(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, DOUBTED))
        assert await shop.settle(context) == Parked(None)
        assert await store.write(jobs.requeue(at(10**6))) == 0
        assert await shop.claim(now=at(10**6)) == []
        assert await shop.run_status(run_id) == "running"
        assert (await shop.accounting(run_id)).in_doubt == 1

    async def test_a_job_with_calls_out_or_items_unreserved_is_not_settled(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        assert await shop.settle(context) == Unfinished(unreserved=2, open=1)
        await shop.close(context, (item_id, ACCEPTED))
        assert await shop.settle(context) == Unfinished(unreserved=2, open=0)
        assert await shop.jobs_by_status(run_id) == {"locked": 1}
        assert await store.write(jobs.hold(context.job, at(30), at(1))) is Hold.OURS

    async def test_a_worker_that_lost_the_job_settles_nothing(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        zombie = await shop.claim_one()
        (item_id,) = await shop.open(zombie, 0)
        await shop.close(zombie, (item_id, ACCEPTED))
        context = await shop.take_over(now=at(31))
        assert await shop.settle(zombie, now=at(32)) == LeaseLost()
        assert await shop.run_status(run_id) == "running"
        assert await shop.settle(context, now=at(33)) == Completed(JobOutcome.COMPLETED)
        # The new holder found the item sent, and had nothing left to do.
        assert await shop.run_status(run_id) == "completed"

    async def test_a_settled_job_is_not_settled_again(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, ACCEPTED))
        await shop.settle(context)
        events = await shop.events(run_id)
        assert await shop.settle(context, now=at(1)) == LeaseLost()
        assert await shop.events(run_id) == events

    async def test_a_job_that_is_given_up_ends_dead(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1, max_attempts=1)
        first = await shop.claim_one()
        await store.write(lost_jobs.fail(first.job, "no", at(1), ONE, shop.ids, at(0)))
        await store.write(jobs.requeue(at(1)))
        context = await shop.claim_one(now=at(1))
        assert context.job.is_exhausted
        dead = shop.draft(context, 0, status=ItemStatus.SKIPPED, reason="job_dead")
        await shop.reserve(context, [dead], now=at(1))
        script = settlement.settle_job(context.job, ONE, shop.ids, at(2), given_up=True)
        assert await store.write(script) == Completed(JobOutcome.FAILED)
        assert await shop.jobs_by_status(run_id) == {"dead": 1}
        assert await shop.run_status(run_id) == "failed"
        assert "job.dead" in await shop.events(run_id)


async def _phase(store: Store, run_id: RunId) -> tuple[str, int]:
    """The launch's state, and the campaign's last sequence."""
    run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
    phases = await store.read(campaigns.phases_of(run.campaign_id))
    (state,) = [phase.state for phase in phases if phase.phase == LAUNCH]
    record = await store.read(campaigns.campaign(DEFAULT_SCOPE, run.campaign_id))
    return state, record.last_sequence
