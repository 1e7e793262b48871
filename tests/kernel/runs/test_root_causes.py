"""Why a run failed, and what it has still to do: told by its log and its snapshot."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.run_events import RunEvent
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.transactions import ledger_items
from outrider.kernel.transactions.ledger_items import Item
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.ports.stages import Stage, Unobserved
from outrider.testing.launches import launch, message, people, target
from tests.support.api_server import campaign, running_server
from tests.support.controls import begun, created
from tests.support.run_logs import events_of
from tests.support.whole_runs import IMPATIENT, opened, work_until_terminal

NOOP = target("sms.all", "noop", "noop:")


@pytest.fixture
async def outrider(database: str, tmp_path: Path) -> AsyncIterator[Outrider]:
    limits = replace(IMPATIENT, job_max_attempts=1)
    async with opened(database, tmp_path, NOOP, limits=limits) as outrider:
        yield outrider


async def endings(outrider: Outrider, run_id: RunId) -> tuple[RunEvent, RunEvent]:
    told = await events_of(outrider, run_id)
    step = next(event for event in told if event.type == "StepFailed")
    assert told[-1].type == "RunFailed"
    return step, told[-1]


async def test_a_failed_run_names_the_providers_reason_and_its_category(
    database: str, tmp_path: Path
) -> None:
    """RM: the error of a step had no category, and nobody said what the provider had."""
    async with Sandbox(Faults(fail_rate=1.0)) as sandbox:
        gateway = target("sms.all", "sms", sandbox.http_url, policy="one_shot")
        async with opened(database, tmp_path, gateway) as outrider:
            run_id = await launch(outrider, [message(Channel.SMS, "sms.all")], people(3))
            await work_until_terminal(outrider, run_id)
            (reason,) = {item.reason for item in (await items(outrider, run_id))}
            step, run = await endings(outrider, run_id)
            assert step.payload["error"] == {
                "category": "PROVIDER", "code": "ITEMS_FAILED", "reason": reason,
                "message": f"none of its 3 items succeeded, most of them because of {reason}",
                "retryable": False,
            }  # fmt: skip
            assert run.payload["rootCause"] == f"3 of 3 messages failed, most of them with {reason}"
            error = run.payload["error"]
            assert isinstance(error, dict)
            assert (error["category"], error["reason"]) == ("PROVIDER", reason)


async def items(outrider: Outrider, run_id: RunId) -> list[Item]:
    script = ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=100)
    return list(await outrider.store.read(script))


class Stumbling(Unobserved):
    def before(self, stage: Stage) -> None:
        if stage is Stage.RENDER:
            raise OutriderError("ada@example.test cannot be rendered")


async def test_a_run_whose_jobs_died_says_so_without_naming_recipients(outrider: Outrider) -> None:
    """RM: "every step failed" was all that anybody was told."""
    run_id = await begun(outrider, await created(outrider, 5))
    await work_until_terminal(outrider, run_id, observer=Stumbling())
    step, run = await endings(outrider, run_id)
    assert step.payload["error"] == {
        "category": "INFRASTRUCTURE", "code": "JOB_DEAD", "retryable": True,
        "message": "it has no attempts left; the last one ended with OutriderError",
    }  # fmt: skip
    assert run.payload["rootCause"] == (
        "1 job given up; the last attempt of one ended with OutriderError"
    )
    assert "ada" not in str(step.payload) + str(run.payload)


class Refusing:
    name = "refusing"

    async def plan(self, _context: PhaseContext) -> list[PhaseJobPlan]:
        return [PhaseJobPlan(2, {})]

    async def process(self, _context: PhaseContext, _job: PhaseJob) -> PhaseResult:
        return PhaseResult(0, failed=2, detail={"reason": "no_consent"})


async def test_a_handlers_own_reason_is_reported(outrider: Outrider) -> None:
    outrider.handlers["refusing"] = Refusing()
    campaign_id = await created(outrider, 5, order=("refusing", LAUNCH))
    run_id = await begun(outrider, campaign_id, "refusing")
    await work_until_terminal(outrider, run_id)
    step, run = await endings(outrider, run_id)
    error = step.payload["error"]
    assert isinstance(error, dict)
    assert (error["category"], error["reason"]) == ("HANDLER", "no_consent")
    assert run.payload["rootCause"] == "1 job failed without a single successful item"


async def test_a_snapshot_has_every_step_of_the_plan_before_it_starts(
    database: str, tmp_path: Path
) -> None:
    """RM: until a worker took it, a step did not exist."""
    async with running_server(tmp_path, database=database, workers=0) as server:
        made = await server.request("POST", "/campaigns", campaign(5, batchSize=2))
        door = f"/campaigns/{made.json['campaignId']}/phases/launch"
        run_id = (await server.request("POST", f"{door}/start")).json["runId"]
        jobs = (await server.get(f"/runs/{run_id}/jobs"))["items"]
        snapshot = await server.get(f"/runs/{run_id}/snapshot")
        assert [step["stepId"] for step in snapshot["steps"]] == [job["jobId"] for job in jobs]
        assert {(step["status"], step["logicalAttemptId"]) for step in snapshot["steps"]} == {
            ("PENDING", "1")
        }
        assert len(snapshot["steps"]) == 3
        assert snapshot["failedSteps"] == 0


async def test_an_artifact_says_how_long_it_is_kept_by_its_kind(
    database: str, tmp_path: Path
) -> None:
    """RM: `expiresAt` was never set."""
    days = {"results.csv": 30, "*": 365}
    async with opened(database, tmp_path, NOOP, artifact_days=days) as outrider:
        campaign_id = await created(outrider, 3, order=(LAUNCH, "report"))
        for phase in (LAUNCH, "report"):
            run_id = await begun(outrider, campaign_id, phase)
            await work_until_terminal(outrider, run_id)
        ended = (await events_of(outrider, run_id))[-2]
        assert ended.type == "StepCompleted"
        kept = ended.payload["artifacts"]
        assert isinstance(kept, list)
        left = {
            each["kind"]: datetime.fromisoformat(each["expiresAt"]) - ended.occurred_at
            for each in kept
        }
        assert round(left.pop("results.csv") / timedelta(days=1)) == 30
        assert left
        assert {round(each / timedelta(days=1)) for each in left.values()} == {365}
        assert all(each["uri"].startswith("file:///") for each in kept)
