"""Conformance: a job is a lease. One holder at a time, and an older fence is worth nothing."""

import asyncio

from outrider.domain.ids import WorkerId
from outrider.kernel.transactions import jobs, lost_jobs
from outrider.kernel.transactions.jobs import Hold
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import MOST, ONE, OTHER, Workshop, at


class JobConformance:
    async def test_jobs_are_claimed_oldest_first_and_no_more_than_asked(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(50, batch_size=1)
        positions = []
        while claimed := await shop.claim(most=7):
            assert len(claimed) <= 7
            positions += [job.first_position for job in claimed]
        assert positions == list(range(50))

    async def test_two_claimers_never_get_the_same_job(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(20, batch_size=1)
        workers = [WorkerId(f"worker-{number}") for number in range(8)]
        grabbed = await asyncio.gather(*(shop.claim(worker, most=3) for worker in workers))
        claimed = [job.id for jobs_of_one in grabbed for job in jobs_of_one]
        assert len(claimed) == len(set(claimed))
        assert all(len(jobs_of_one) <= 3 for jobs_of_one in grabbed)
        # A caller that met only locked rows may have got fewer; nothing is lost by that.
        rest = await shop.claim(most=MOST)
        assert len(claimed) + len(rest) == 20
        assert not {job.id for job in rest} & set(claimed)

    async def test_a_claimed_job_is_not_due_for_anybody_else(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        assert len(await shop.claim(ONE)) == 1
        assert await shop.claim(OTHER) == []

    async def test_the_first_claim_sets_the_run_running_and_says_so_once(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2, batch_size=1)
        await shop.claim()
        assert await shop.run_status(run_id) == "running"
        await shop.claim()
        assert (await shop.events(run_id)).count("run.started") == 1

    async def test_each_claim_has_a_higher_fence(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        fences = []
        for _ in range(3):
            (job,) = await shop.claim()
            fences.append(job.fence)
            assert await store.write(jobs.release(job, at(0), at(0)))
        assert fences == [1, 2, 3]

    async def test_giving_a_job_back_uses_up_no_attempt(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        (job,) = await shop.claim()
        await store.write(jobs.release(job, at(5), at(1)))
        assert await shop.claim(now=at(4)) == []
        (again,) = await shop.claim(now=at(5))
        assert again.attempts == 0
        assert again.was_held_before

    async def test_an_older_fence_can_do_nothing_with_the_job(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        (old,) = await shop.claim(ONE)
        assert await shop.rescue(at(31)) == 1
        (new,) = await shop.claim(OTHER, now=at(31))
        now, lease = at(32), at(62)
        assert await store.write(jobs.heartbeat([old], lease, now)) == set()
        assert await store.write(jobs.hold(old, lease, now)) is Hold.LOST
        assert not await store.write(jobs.release(old, now, now))
        assert not await store.write(lost_jobs.fail(old, "late", now, ONE, shop.ids, now))
        assert await store.write(jobs.heartbeat([new], lease, now)) == {new.id}
        assert await store.write(jobs.hold(new, lease, now)) is Hold.OURS

    async def test_a_rescued_job_has_no_holder_until_it_is_claimed(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        (job,) = await shop.claim()
        await shop.rescue(at(31))
        assert await store.write(jobs.heartbeat([job], at(90), at(32))) == set()
        assert await store.write(jobs.hold(job, at(90), at(32))) is Hold.LOST

    async def test_a_heartbeat_extends_the_leases_of_all_jobs_that_are_ours(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(3, batch_size=1)
        held = await shop.claim(most=3)
        kept = await store.write(jobs.heartbeat(held, at(60), at(20)))
        assert kept == {job.id for job in held}
        assert await shop.rescue(at(59.999)) == 0
        assert await shop.rescue(at(60)) == 3

    async def test_an_expired_lease_brings_the_job_back_with_one_attempt_more(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        (job,) = await shop.claim()
        assert await shop.rescue(at(29.999)) == 0
        assert await shop.rescue(at(30)) == 1
        (again,) = await shop.claim(OTHER, now=at(30))
        assert (again.id, again.attempts, again.fence) == (job.id, 1, 2)
        rescued = [detail for event, detail in await shop.audit(run_id) if event == "job.rescued"]
        assert rescued == [{"why": f"lease expired: {ONE}"}]

    async def test_a_lock_without_a_heartbeat_for_five_minutes_is_stale_whatever_its_lease(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        (job,) = await shop.claim(lease_seconds=86_400)
        assert await shop.rescue(at(299)) == 0
        assert await shop.rescue(at(300)) == 1
        (again,) = await shop.claim(OTHER, now=at(300))
        assert (again.id, again.attempts) == (job.id, 1)

    async def test_jobs_of_a_dead_worker_need_not_wait_for_their_leases(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3, batch_size=1)
        dead = await shop.claim(ONE, most=2)
        await shop.claim(OTHER)
        assert sorted(await store.read(lost_jobs.lock_holders())) == sorted([ONE, OTHER])
        assert await store.write(lost_jobs.rescue_from([ONE], OTHER, shop.ids, at(1))) == 2
        assert await store.read(lost_jobs.lock_holders()) == [OTHER]
        back = await shop.claim(OTHER, most=MOST, now=at(1))
        assert [job.id for job in back] == [job.id for job in dead]
        assert {job.attempts for job in back} == {1}
        assert (await shop.events(run_id)).count("job.rescued") == 2

    async def test_a_failed_job_is_due_again_at_its_time(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        (job,) = await shop.claim()
        assert await store.write(lost_jobs.fail(job, "KeyError: 'x'", at(10), ONE, shop.ids, at(0)))
        assert await shop.jobs_by_status(run_id) == {"failed": 1}
        assert await store.write(jobs.requeue(at(9))) == 0
        assert await shop.claim(now=at(9)) == []
        assert await store.write(jobs.requeue(at(10))) == 1
        (again,) = await shop.claim(now=at(10))
        assert (again.id, again.attempts) == (job.id, 1)
        failures = [detail for event, detail in await shop.audit(run_id) if event == "job.failed"]
        assert failures == [{"error": "KeyError: 'x'", "attempts": 1}]

    async def test_a_job_is_exhausted_when_its_attempts_are_used_up(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1, max_attempts=2)
        exhausted = []
        for number in range(3):
            (job,) = await shop.claim(now=at(number))
            exhausted.append(job.is_exhausted)
            await store.write(lost_jobs.fail(job, "no", at(number), ONE, shop.ids, at(number)))
            await store.write(jobs.requeue(at(number)))
        assert exhausted == [False, False, True]
