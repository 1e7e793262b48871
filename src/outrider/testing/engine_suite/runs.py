"""Conformance: a run is driven to its end, whatever parks, fails or is notified twice on the
way."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.domain.campaigns import LAUNCH, StepRetries
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, JobId, RunId
from outrider.domain.phases import Action
from outrider.domain.rollouts import RolloutStep
from outrider.domain.signals import Signal
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.work import job_releaser
from outrider.ports.engine import Stalled, Work, WorkKind
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.testing.engine_suite.bench import IN_AN_HOUR, MAIL, EngineBench
from outrider.testing.launches import ACTOR

IMPORTS_AND_REPORTS = ("audience_import", LAUNCH, "report")
SHAKY = "shaky"


def work_of(run_id: RunId) -> Work:
    return Work(WorkKind.RUN, DEFAULT_TENANT, run_id)


class Shaky:
    """Its job succeeds the second time."""

    name = SHAKY

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()

    async def plan(self, _context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(1)]

    async def process(self, _context: PhaseContext, job: PhaseJob) -> PhaseResult:
        self.tries[job.id] += 1
        if self.tries[job.id] == 1:
            raise RuntimeError("shaky")
        return PhaseResult(1)


class RunConformance:
    async def test_a_run_is_completed_and_everyone_is_sent_to_once(
        self, bench: EngineBench
    ) -> None:
        run_id = await bench.launched(45)
        async with bench.at_work():
            accounting = await bench.ended(run_id)
        assert accounting.sent == 45
        assert set(bench.sandbox.deliveries.values()) == {1}
        types = await bench.types(run_id)
        assert types[:2] == ["RunApproved", "RunStarted"]
        assert types[-1] == "RunCompleted"
        assert Counter(types[2:-1]) == {"StepStarted": 5, "StepCompleted": 5}
        reference = bench.outrider.engine.reference(DEFAULT_TENANT, run_id)
        assert (await bench.events(run_id))[1].payload["engineRunRef"] == reference

    async def test_a_run_that_is_started_again_is_still_one_execution(
        self, bench: EngineBench
    ) -> None:
        engine = bench.outrider.engine
        run_id = await bench.launched(45)
        again = [engine.start(work_of(run_id)) for _ in range(5)]
        stalled = Stalled(work_of(run_id), JobId("nobody's"), bench.outrider.clock.now())
        async with bench.at_work():
            await asyncio.gather(*again, engine.recover([stalled] * 5))
            await bench.ended(run_id)
            events = await bench.events(run_id)
            await engine.start(work_of(run_id))
            await engine.recover([stalled])
            await bench.another_run()
        assert await bench.events(run_id) == events
        assert Counter(event.type for event in events)["StepStarted"] == 5
        assert bench.sandbox.requests == 45 + 5
        assert set(bench.sandbox.deliveries.values()) == {1}

    async def test_a_worker_that_stops_leaves_the_rest_to_the_next(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.latency_ms = 30
        run_id = await bench.launched(200)
        async with bench.at_work():
            await bench.until_requests(20)
        assert bench.sandbox.requests < 200
        async with bench.at_work():
            assert (await bench.ended(run_id)).sent == 200
        assert bench.sandbox.requests == 200

    async def test_a_message_postponed_by_the_provider_is_retried_when_due(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.throttle_rate = 1.0
        run_id = await bench.launched(20)
        async with bench.at_work():
            await bench.until_requests(1)
            bench.sandbox.faults.throttle_rate = 0.0
            assert (await bench.ended(run_id)).sent == 20
        assert {job.attempts for job in await bench.jobs(run_id)} == {0}
        assert set(bench.sandbox.deliveries.values()) == {1}

    async def test_a_retried_step_is_hastened_and_is_a_new_logical_attempt(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.fail_rate = 1.0
        run_id = await bench.launched(5)
        soon = bench.outrider.clock.now()
        async with bench.at_work(IN_AN_HOUR):
            await bench.until_jobs(
                run_id, lambda job: job.status == "queued" and job.run_at is not None
                and (job.run_at - soon).total_seconds() > 60
            )  # fmt: skip
            bench.sandbox.faults.fail_rate = 0.0
            (job,) = await bench.jobs(run_id)
            await bench.signal(run_id, Signal.RETRY_STEP, job.id)
            assert (await bench.ended(run_id)).sent == 5
        reported = [
            (event.type, event.logical_attempt)
            for event in await bench.events(run_id)
            if event.step_id == job.id and event.emitter == "activity"
        ]
        assert reported == [("StepStarted", 1), ("StepStarted", 2), ("StepCompleted", 2)]
        assert bench.sandbox.requests == 10

    async def test_a_handler_that_fails_uses_up_engine_attempts_and_no_logical_ones(
        self, bench: EngineBench
    ) -> None:
        bench.outrider.handlers[SHAKY] = shaky = Shaky()
        impatient = bench.with_limits(job_max_attempts=1)
        impatient.outrider.handlers[SHAKY] = shaky
        runs = []
        for each in (bench, impatient):
            campaign_id = await each.campaign(5, order=(SHAKY, LAUNCH))
            runs.append(await each.started(campaign_id, SHAKY))
        async with bench.at_work():
            ended = [await bench.ended(run_id) for run_id in runs]
        assert [(each.sent, each.failed) for each in ended] == [(1, 0), (0, 1)]
        assert sorted(shaky.tries.values()) == [1, 2]
        steps = [
            [
                (event.type, event.logical_attempt, event.engine_attempt)
                for event in await bench.events(run_id)
                if event.step_id is not None
            ]
            for run_id in runs
        ]
        assert steps == [
            [("StepStarted", 1, 1), ("StepCompleted", 1, 2)],
            [("StepStarted", 1, 1), ("StepFailed", 1, 2)],
        ]

    async def test_a_retry_policy_restarts_a_dead_step(self, bench: EngineBench) -> None:
        impatient = bench.with_limits(job_max_attempts=1)
        for each in (bench, impatient):
            each.outrider.handlers[SHAKY] = Shaky()
        campaign_id = await impatient.campaign(
            5, order=(SHAKY, LAUNCH), retry_policy={SHAKY: StepRetries(max_attempts=2)}
        )
        run_id = await impatient.started(campaign_id, SHAKY)
        async with bench.at_work():
            assert (await bench.ended(run_id)).sent == 1
        reported = [
            (event.type, event.logical_attempt)
            for event in await bench.events(run_id)
            if event.step_id is not None
        ]
        assert reported == [
            ("StepStarted", 1), ("StepFailed", 1), ("StepStarted", 2), ("StepCompleted", 2),
        ]  # fmt: skip

    async def test_a_step_that_failed_waits_for_nothing_once_it_is_retried_or_its_run_is_stopped(
        self, bench: EngineBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(job_releaser, "JOB", IN_AN_HOUR)
        bench.outrider.handlers[SHAKY] = Shaky()
        campaigns = [await bench.campaign(5, order=(SHAKY, LAUNCH)) for _ in range(2)]
        retried, stopped = [await bench.started(each, SHAKY) for each in campaigns]
        async with bench.at_work():
            for run_id in (retried, stopped):
                await bench.until_jobs(run_id, lambda job: job.status == "failed")
            (job,) = await bench.jobs(retried)
            await bench.signal(retried, Signal.RETRY_STEP, job.id)
            await bench.control(campaigns[1], Action.STOP, SHAKY)
            assert (await bench.ended(retried)).sent == 1
            assert (await bench.ended(stopped)).skipped == 1
        assert (await bench.types(retried))[-2:] == ["StepCompleted", "RunCompleted"]
        assert (await bench.types(stopped))[-1] == "RunCancelled"

    async def test_every_phase_of_a_campaign_is_run(
        self, bench: EngineBench, tmp_path: Path
    ) -> None:
        campaign_id = await bench.campaign(0, order=IMPORTS_AND_REPORTS)
        people = tmp_path / "people.csv"
        lines = [f"p-{number},+4477{number:08d},Ada" for number in range(25)]
        people.write_text("\n".join(["id,phone,firstName", *lines]))
        await bench.outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, people, ACTOR)
        runs = {}
        async with bench.at_work():
            for phase in IMPORTS_AND_REPORTS:
                runs[phase] = await bench.started(campaign_id, phase)
                await bench.ended(runs[phase])
        for phase, run_id in runs.items():
            assert (await bench.types(run_id))[-1] == "RunCompleted", phase
        assert bench.sandbox.requests == 25

    async def test_a_job_that_waits_for_a_verdict_continues_after_it(
        self, bench: EngineBench
    ) -> None:
        bench.sandbox.faults.drop_rate = 1.0
        run_id = await bench.started(await bench.campaign(3, submission_target=MAIL))
        resolver = bench.outrider.doubt_resolver
        async with bench.at_work():
            await bench.until_jobs(run_id, lambda job: job.status == "queued" and not job.run_at)
            bench.sandbox.faults.drop_rate = 0.0
            await bench.another_run()
            sent, failed, again = [doubt async for doubt in resolver.doubts(DEFAULT_SCOPE, run_id)]
            for doubt, verdict in (
                (sent, DoubtVerdict.SENT),
                (failed, DoubtVerdict.FAILED),
                (again, DoubtVerdict.RESUBMIT),
            ):
                await resolver.resolve(DEFAULT_SCOPE, doubt.id, verdict, "their log", ACTOR)
            accounting = await bench.ended(run_id)
        assert (accounting.sent, accounting.failed) == (2, 1)
        assert bench.sandbox.deliveries[again.reference] == 2, "as the verdict said"

    async def test_a_rollout_goes_from_step_to_step(self, bench: EngineBench) -> None:
        """By its plan, and when somebody advances it."""
        steps = (RolloutStep(20), RolloutStep(60, 60), RolloutStep(100))
        run_id = await bench.started(await bench.campaign(45, rollout=steps))
        async with bench.at_work():
            await bench.until_requests(27)
            await bench.signal(run_id, Signal.ADVANCE)
            assert (await bench.ended(run_id)).sent == 45
        assert set(bench.sandbox.deliveries.values()) == {1}
        types = [each for each in await bench.types(run_id) if each.startswith("Rollout")]
        assert types[0] == "RolloutPlanned"
        assert types.count("RolloutStepReleased") == 2
