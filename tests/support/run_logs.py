"""Shorthands for tests of run logs: a run's events, and its rows rebuilt from them alone."""

from typing import NamedTuple

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.keys import KeyId, KeyScope, Principal
from outrider.domain.projection import RunSnapshot, phase_state, project_run, row_status
from outrider.domain.run_events import RunEvent
from outrider.domain.signals import AskedSignal, Signal
from outrider.kernel.transactions import campaigns, paging, run_jobs, run_log, run_records
from outrider.kernel.transactions.campaigns import PhaseRecord
from outrider.kernel.transactions.run_jobs import JobLine
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.signal_scripts import SignalAnswer
from outrider.ports.store import Transaction

MOST = 100_000
ADMIN = Principal(DEFAULT_SCOPE, KeyId(""), "ada", frozenset({KeyScope.ADMIN}))
OPERATOR = Principal(DEFAULT_SCOPE, KeyId(""), "olga", frozenset({KeyScope.OPERATE}))
READER = Principal(DEFAULT_SCOPE, KeyId(""), "rosa", frozenset({KeyScope.READ}))


async def events_of(outrider: Outrider, run_id: RunId) -> list[RunEvent]:
    return await outrider.store.read(run_log.events_after(run_id, 0, MOST))


async def types_of(outrider: Outrider, run_id: RunId) -> list[str]:
    return [event.type for event in await events_of(outrider, run_id)]


async def projected(outrider: Outrider, run_id: RunId) -> RunSnapshot:
    return project_run(run_id, await events_of(outrider, run_id))


async def signal(
    outrider: Outrider,
    run_id: RunId,
    sent: Signal,
    *,
    by: Principal = ADMIN,
    step_id: str | None = None,
    signal_id: str | None = None,
) -> SignalAnswer:
    asked = AskedSignal(sent, signal_id or outrider.ids.new(), step_id)
    return await outrider.run_signaller.signal(by, run_id, asked)


class Seen(NamedTuple):
    """A campaign at one moment: a worker may be at work meanwhile."""

    runs: list[tuple[RunRecord, list[RunEvent], list[JobLine]]]
    phases: list[PhaseRecord]


async def check_against_log(outrider: Outrider, campaign_id: CampaignId) -> list[RunSnapshot]:
    """Every row that the logs of a campaign's runs imply is as they imply it."""
    seen = await outrider.store.read(_seen(campaign_id))
    assert seen.runs
    latest: dict[str, RunSnapshot] = {}
    rebuilt = []
    for run, events, jobs in seen.runs:
        snapshot = project_run(run.id, events)
        assert row_status(snapshot) == run.status, run
        assert snapshot.started_at == run.started_at, run
        assert snapshot.completed_at == run.finished_at, run
        _check_jobs(jobs, snapshot)
        rebuilt.append(snapshot)
        latest[run.phase] = snapshot
    for phase in seen.phases:
        if phase.phase in latest:
            assert phase_state(latest[phase.phase]) == phase.state, phase
        else:
            assert phase.state == "not_started"
    return rebuilt


def _seen(campaign_id: CampaignId) -> Transaction[Seen]:
    runs = []
    for run in (yield from run_records.runs_of(campaign_id)):
        events = yield from run_log.events_after(run.id, 0, MOST)
        jobs = yield from run_jobs.jobs_page(run.id, paging.FIRST, MOST)
        runs.append((run, events, jobs))
    return Seen(runs, (yield from campaigns.phases_of(campaign_id)))


def _check_jobs(jobs: list[JobLine], snapshot: RunSnapshot) -> None:
    for job in jobs:
        step = snapshot.steps.get(job.id)
        if job.outcome is None:
            # A step that begins anew is as it was left, until somebody takes its next attempt up.
            waits = job.status == "queued" and step is not None and step.outcome != "completed"
            assert waits or step is None or step.status in ("RUNNING", "PENDING"), (job, step)
            continue
        assert step is not None, job
        assert step.outcome == job.outcome, (job, step)
        assert step.counts is not None
        counted = step.counts.sent, step.counts.failed, step.counts.skipped
        assert counted == (job.sent, job.failed, job.skipped)
        assert step.completed_at == job.updated_at, (job, step)
    assert set(snapshot.steps) <= {job.id for job in jobs}
