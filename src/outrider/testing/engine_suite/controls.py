"""Conformance: the database decides about a control, and an engine that was not notified finds
out."""

from outrider.domain.admission import OverloadPolicy
from outrider.domain.ids import RunId
from outrider.domain.phases import Action
from outrider.domain.signals import Signal
from outrider.settings import AdmissionTable
from outrider.testing.engine_suite.bench import MAIL, SLOW_MS, EngineBench
from outrider.testing.launches import observe


class ControlConformance:
    async def test_a_paused_run_opens_no_attempt_until_it_is_resumed(
        self, bench: EngineBench
    ) -> None:
        campaign_id, run_id = await bench.launched_slowly(200)
        async with bench.at_work():
            await bench.paused_after(20, campaign_id, run_id)
            held, asked = await observe(bench.outrider, run_id), bench.sandbox.requests
            assert held[1].waiting > 0
            await bench.another_run()
            assert await observe(bench.outrider, run_id) == held
            assert bench.sandbox.requests == asked + 5
            await bench.control(campaign_id, Action.RESUME)
            assert (await bench.ended(run_id)).sent == 200
        assert bench.sandbox.requests == 200 + 5
        types = [each for each in await bench.types(run_id) if each.startswith("Run")]
        assert types == ["RunApproved", "RunStarted", "RunPaused", "RunResumed", "RunCompleted"]

    async def test_a_run_paused_before_it_started_waits_for_its_resume(
        self, bench: EngineBench
    ) -> None:
        campaign_id, run_id = await bench.launched_and_paused(20)
        async with bench.at_work():
            await bench.another_run()
            assert bench.sandbox.requests == 5
            await bench.control(campaign_id, Action.RESUME)
            assert (await bench.ended(run_id)).sent == 20

    async def test_a_resume_that_the_engine_was_not_notified_of_is_found(
        self, bench: EngineBench
    ) -> None:
        campaign_id, run_id = await bench.launched_slowly(100)
        async with bench.at_work():
            await bench.paused_after(10, campaign_id, run_id)
            await bench.another_run()
            await bench.unreachable().control(campaign_id, Action.RESUME)
            assert (await bench.ended(run_id)).sent == 100
        assert bench.sandbox.requests == 100 + 5

    async def test_a_stop_skips_items_never_attempted_as_cancelled(
        self, bench: EngineBench
    ) -> None:
        campaign_id, run_id = await bench.launched_slowly(300)
        async with bench.at_work():
            await bench.until_requests(20)
            await bench.control(campaign_id, Action.STOP)
            accounting = await bench.ended(run_id)
        assert accounting.sent == bench.sandbox.requests
        assert accounting.skipped == 300 - accounting.sent > 0
        reasons = await bench.reasons(run_id)
        assert reasons == {("skipped", "cancelled"): accounting.skipped}
        types = await bench.types(run_id)
        assert types[-1] == "RunCancelled"
        assert "StepSkipped" in types

    async def test_a_stop_of_a_paused_run_ends_it(self, bench: EngineBench) -> None:
        campaign_id, run_id = await bench.launched_and_paused(20)
        async with bench.at_work():
            await bench.another_run()
            await bench.control(campaign_id, Action.STOP)
            assert (await bench.ended(run_id)).skipped == 20

    async def test_a_stop_ends_a_run_that_only_waits_for_verdicts(self, bench: EngineBench) -> None:
        """B2: what is in doubt stays so, and no engine waits for it."""
        bench.sandbox.faults.drop_rate = 1.0
        campaign_id = await bench.campaign(6, batch_size=2, submission_target=MAIL)
        run_id = await bench.started(campaign_id)
        async with bench.at_work():
            await bench.until_jobs(run_id, lambda job: job.status == "queued" and not job.run_at)
            await bench.control(campaign_id, Action.STOP)
            accounting = await bench.ended(run_id)
        assert (accounting.in_doubt, accounting.waiting) == (6, 0)
        assert (await bench.types(run_id))[-1] == "RunCancelled"
        assert {job.status for job in await bench.jobs(run_id)} == {"failed"}

    async def test_no_control_fails_because_the_engine_cannot_be_notified(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.latency_ms = SLOW_MS
        front = bench.unreachable()
        campaign_id, stopped = await front.campaign(100), await front.campaign(50)
        run_id, stopped_id = await front.started(campaign_id), await front.started(stopped)
        async with bench.at_work():
            await bench.until_requests(10)
            await front.control(stopped, Action.STOP)
            await front.control(campaign_id, Action.PAUSE)
            await front.signal(run_id, Signal.RESUME)
            assert (await bench.ended(run_id)).sent == 100
            ended = await bench.ended(stopped_id)
        assert ended.sent + ended.skipped == 50
        assert bench.sandbox.requests == 100 + ended.sent

    async def test_a_run_that_requires_approval_waits_for_it(self, bench: EngineBench) -> None:
        campaigns = [await bench.campaign(20, require_approval=True) for _ in range(2)]
        notified, unnotified = [await bench.started(campaign_id) for campaign_id in campaigns]
        async with bench.at_work():
            await bench.another_run()
            assert bench.sandbox.requests == 5
            await bench.signal(notified, Signal.APPROVE)
            await bench.unreachable().signal(unnotified, Signal.APPROVE)
            for run_id in (notified, unnotified):
                assert (await bench.ended(run_id)).sent == 20
                assert (await bench.types(run_id))[:2] == ["SignalAccepted", "RunApproved"]

    async def test_a_run_delayed_by_admission_starts_when_its_delay_is_over(
        self, bench: EngineBench
    ) -> None:
        table = AdmissionTable(policy=OverloadPolicy.DELAY, waiting_items=5, delay_seconds=1)
        front = bench.with_settings(admission=table)
        first, delayed = await front.launched(10), await front.launched(10)
        (job,) = await front.jobs(delayed)
        async with bench.at_work():
            assert (await bench.ended(first)).sent == 10
            assert (await bench.ended(delayed)).sent == 10
        run, _ = await observe(bench.outrider, delayed)
        assert run.started_at is not None
        assert job.run_at is not None
        assert run.started_at >= job.run_at

    async def test_a_run_waiting_for_capacity_starts_when_there_is_some(
        self, bench: EngineBench
    ) -> None:
        front = bench.with_settings(admission=AdmissionTable(concurrent_runs=1))
        runs: list[RunId] = [await front.launched(10) for _ in range(3)]
        assert [await front.types(run_id) for run_id in runs] == [["RunApproved"], [], []]
        async with front.at_work():
            for run_id in runs:
                assert (await bench.ended(run_id)).sent == 10
