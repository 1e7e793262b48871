"""Edges of control: what a retry leaves out, lost answers, late recipients, other tenants."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.keys import KeyScope
from outrider.domain.phases import PROGRESS_EVENT, Action
from outrider.domain.states import TERMINAL_RUNS, PhaseState
from outrider.gateways.sandbox import Faults
from outrider.kernel.transactions import paging, run_jobs
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.phase_controls import RerunScope
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.limits.api import ApiLimits
from outrider.limits.kernel import Limits
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.ports.store import Result, Transaction
from outrider.testing.clock import FakeClock
from outrider.testing.launches import ACTOR, observe, registry, target
from tests.support.api_inside import serving, until
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import (
    PATIENCE_SECONDS,
    begun,
    control,
    created,
    events_of,
    until_ended,
    until_run,
    until_state,
)
from tests.support.whole_runs import opened, working


@pytest.fixture
async def sandbox() -> AsyncIterator[HoldingSandbox]:
    async with HoldingSandbox(Faults(seed=7)) as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(
    database: str, tmp_path: Path, sandbox: HoldingSandbox
) -> AsyncIterator[Outrider]:
    sms = target("sms.all", "sms", sandbox.http_url, maxAttempts=1)
    mail = target("smtp.all", "smtp", sandbox.smtp_url, maxAttempts=1)
    async with opened(database, tmp_path, sms, mail) as outrider:
        yield outrider


class Looked:
    """Like `dns_validation`: plans by the members there are, and accounts for those it finds."""

    name = "dns_validation"

    async def plan(self, context: PhaseContext) -> Sequence[PhaseJobPlan]:
        return [PhaseJobPlan(len(await context.members(0, 9)))]

    async def process(self, context: PhaseContext, job: PhaseJob) -> PhaseResult:  # noqa: ARG002
        return PhaseResult(len(await context.members(0, 9)))


async def test_recipients_that_come_while_the_audience_is_validated_do_not_break_the_phase(
    outrider: Outrider, tmp_path: Path
) -> None:
    """Were they let in, the range of a job that was planned without them would grow."""
    outrider.handlers["dns_validation"] = Looked()
    campaign_id = await created(outrider, 3, order=("dns_validation", LAUNCH))
    run_id = await begun(outrider, campaign_id, "dns_validation")
    late = tmp_path / "late.csv"
    late.write_text("id,phone\nlate-1,+447700900001\n")
    try:
        await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, late, ACTOR)
    except Conflict:
        return
    async with working(outrider):
        await until_ended(outrider, run_id)
    [jobs] = await outrider.store.read(run_jobs.job_counts(run_id))
    assert (jobs.status, jobs.last_error) == ("completed", None)


async def test_a_rerun_whose_commit_was_not_confirmed_is_answered_as_done(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """Were it an error, its key would be let go, and a client's repeat would send to all again."""
    campaign_id = await created(outrider, 5)
    await begun(outrider, campaign_id)
    async with working(outrider):
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
        write = outrider.store.write
        lost: list[object] = []

        async def deaf(script: Transaction[Result]) -> Result:
            answer = await write(script)
            if getattr(script, "__name__", "") == "control" and not lost:
                lost.append(answer)
                await until_state(outrider, campaign_id, PhaseState.COMPLETED)
                raise StoreUnavailable("the connection broke after the commit")
            return answer

        outrider.store.write = deaf  # type: ignore[method-assign, assignment]
        done = await control(
            outrider, campaign_id, Action.RERUN, scope=RerunScope.ALL, confirm=True
        )
    assert done.run_id == lost[0].run_id  # type: ignore[attr-defined]
    assert sandbox.requests == 10


async def test_a_dry_run_counts_everyone_sent_to_not_just_in_the_last_run(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.change_faults({"failRate": 0.5})
    campaign_id = await created(outrider, 20)
    first = await begun(outrider, campaign_id)
    async with working(outrider):
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
        sandbox.change_faults({"failRate": 0})
        again = await control(outrider, campaign_id, Action.RERUN)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
    sent = [(await observe(outrider, RunId(str(run))))[1].sent for run in (first, again.run_id)]
    assert all(sent)
    found = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id, "all")
    assert found["alreadySent"] == sum(sent)


async def retried_past_doubts(
    outrider: Outrider, sandbox: HoldingSandbox
) -> tuple[CampaignId, RunId]:
    """A launch that was stopped with doubts, and whose retry has completed the phase."""
    campaign_id = await created(
        outrider, 40, order=(LAUNCH, "report"), target="smtp.all", batch_size=40
    )
    sandbox.change_faults({"dropRate": 1})
    sandbox.answers.clear()
    first = await begun(outrider, campaign_id)
    await until(lambda: sandbox.requests > 0)
    await control(outrider, campaign_id, Action.STOP)
    sandbox.answers.set()
    left = await until_run(outrider, first, lambda _, counted: counted.waiting == 0)
    assert left.in_doubt
    sandbox.change_faults({"dropRate": 0})
    await control(outrider, campaign_id, Action.RETRY)
    await until_state(outrider, campaign_id, PhaseState.COMPLETED)
    return campaign_id, first


async def test_a_launch_is_not_certified_while_the_run_it_went_on_from_has_doubts(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """Whoever looks at the phase, its report or its certificate must see those doubts."""
    async with working(outrider):
        campaign_id, _ = await retried_past_doubts(outrider, sandbox)
        report = await begun(outrider, campaign_id, "report")
        await until_state(outrider, campaign_id, PhaseState.COMPLETED, "report")
    [job] = await outrider.store.read(run_jobs.jobs_page(report, paging.FIRST, 10))
    assert not msgspec.json.decode(str(job.result))["certificateHolds"]


async def test_an_item_in_doubt_at_a_retry_that_never_arrived_can_be_sent_without_sending_to_all(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    async with working(outrider):
        campaign_id, first = await retried_past_doubts(outrider, sandbox)
        await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=first, received=set(), absent=DoubtVerdict.RESUBMIT,
            evidence="the provider has none of them", actor=ACTOR,
        )  # fmt: skip
        await until_run(outrider, first, lambda status, _: status in TERMINAL_RUNS)
        _, ended = await observe(outrider, first)
        assert ended.failed
        again = await control(outrider, campaign_id, Action.RERUN, scope=RerunScope.REMAINDER)
        _, accounting = await observe(outrider, RunId(str(again.run_id)))
        assert accounting.intended == ended.failed


async def test_progress_is_reported_for_every_phase_however_many_there_are(
    outrider: Outrider,
) -> None:
    clock, limits = FakeClock(outrider.clock.now()), Limits(progress_phases=2)
    reporter = ProgressReporter(
        replace(outrider.foundation, clock=clock, limits=limits), outrider.hub
    )
    campaigns = [await created(outrider, 2) for _ in range(5)]
    for campaign_id in campaigns:
        await begun(outrider, campaign_id)
    for _ in range(20):
        await reporter.report_once()
        clock.advance(limits.progress_seconds)
    told = [
        any(event.type == PROGRESS_EVENT for event in await events_of(outrider, campaign_id))
        for campaign_id in campaigns
    ]
    assert all(told), told


async def test_an_admin_of_another_tenant_cannot_change_the_shared_registry(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    scope = await outrider.key_keeper.open_workspace("another", "project", "production")
    _, key = await outrider.key_keeper.create(scope, "b", {KeyScope.ADMIN}, ACTOR)
    theirs = registry(target("sms.all", "sms", "http://attacker.example.test"))
    async with serving(outrider, ApiLimits()) as inside:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        async with inside.session.put(
            f"{inside.url}/registry", data=theirs, headers=headers
        ) as answer:
            assert answer.status == 403, await answer.text()
    assert outrider.registry_keeper.contracts()["sms.all"].gateway_url == sandbox.http_url


async def test_a_revoked_key_sees_no_more_events(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 2)
    async with serving(outrider, ApiLimits(stream_recheck_seconds=0.1)) as inside:
        made, key = await outrider.key_keeper.create(DEFAULT_SCOPE, "c", {KeyScope.READ}, ACTOR)
        url = f"{inside.url}/campaigns/{campaign_id}/events"
        headers = {"Authorization": f"Bearer {key}"}
        async with inside.session.get(url, headers=headers) as stream:
            assert stream.status == 200
            await outrider.key_keeper.revoke(DEFAULT_SCOPE, made.id, ACTOR)
            async with asyncio.timeout(PATIENCE_SECONDS):
                heard = await stream.content.read()
            await begun(outrider, campaign_id)
            assert b"phase_started" not in heard
