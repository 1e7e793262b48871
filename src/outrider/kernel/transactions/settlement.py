"""Settling a job, and with the last job its run and its phase: all of it in one transaction.

Rows are locked in one order: job, run, phase.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

import msgspec
import structlog

from outrider.domain.ids import CampaignId, RunId, Scope, WorkerId
from outrider.domain.jobs import (
    CANCELLED,
    Completed,
    Parked,
    Settlement,
    Tally,
    Unfinished,
    job_outcome,
    settle,
)
from outrider.domain.phases import AUDIENCE_IMPORT
from outrider.domain.run_events import RunEventType
from outrider.domain.runs import PHASE_TRIGGER, RUN_TRIGGER, run_status
from outrider.domain.states import (
    JOB_MACHINE,
    RUN_MACHINE,
    TERMINAL_RUNS,
    JobOutcome,
    JobStatus,
    PhaseState,
    RunStatus,
)
from outrider.domain.times import rfc3339
from outrider.kernel.transactions import (
    accountings,
    audience,
    root_causes,
    run_log,
    run_records,
    step_retries,
)
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.claims import ClaimedJob, ClaimedPhaseJob, start_run
from outrider.kernel.transactions.ledger import doubt_abandoned
from outrider.kernel.transactions.lost_jobs import resolve_rest_alert
from outrider.kernel.transactions.phases import lock_phase, transition_phase
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Another worker has the job now; nothing was written."""


def settle_job(
    job: ClaimedJob, worker_id: WorkerId, ids: IdSource, now: datetime, *, given_up: bool = False
) -> Transaction[Settlement | LeaseLost]:
    """Given up: the job makes no more calls, because it cannot make progress."""
    locked = yield from ask("lock_job", job_id=job.id)
    status, fence, item_count, *_, cancelled = locked[0]
    if status != JobStatus.LOCKED or fence != job.fence:
        return LeaseLost()
    tally = yield from _tally(job, item_count)
    settlement = settle(tally, stopped=bool(cancelled))
    match settlement:
        case Unfinished():
            if not job.is_exhausted:
                return settlement
            # It was its last attempt: trying again would not reduce what is left.
            settlement = Completed(job_outcome(tally))
            yield from _finish(
                job, settlement.outcome, tally, None, (), worker_id, ids, now, given_up=True
            )
        case Parked(until):
            yield from ask("release_job", job_id=job.id, fence=job.fence, run_at=until, now=now)
            yield from record([_entry(job, worker_id, "job.parked", _numbers(tally))], ids, now)
        case Completed(outcome):
            yield from _finish(
                job, outcome, tally, None, (), worker_id, ids, now, given_up=given_up
            )
        case other:
            assert_never(other)
    return settlement


def give_up_job(
    job: ClaimedJob, error: str, worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[bool]:
    """End a job that used up its attempts and cannot even be closed properly; False: it is no
    longer ours. Members that were not called are not marked as failed: they keep no outcome."""
    locked = yield from ask("lock_job", job_id=job.id)
    status, fence, item_count, *_ = locked[0]
    if status != JobStatus.LOCKED or fence != job.fence:
        return False
    yield from doubt_abandoned(job, now, broken_off=True)
    tally = yield from _tally(job, item_count)
    result = msgspec.json.encode({"error": error}).decode()
    yield from _finish(
        job, job_outcome(tally), tally, result, (), worker_id, ids, now, given_up=True
    )
    return True


def _tally(job: ClaimedJob, item_count: int) -> Transaction[Tally]:
    counted = yield from ask("tally_job", run_id=job.run_id, job_id=job.id)
    return Tally(item_count, *counted[0])


def settle_phase_job(
    job: ClaimedPhaseJob,
    tally: Tally,
    result: Mapping[str, object],
    artifacts: Sequence[Mapping[str, object]],
    worker_id: WorkerId,
    ids: IdSource,
    now: datetime,
) -> Transaction[Settlement | LeaseLost]:
    """A handler's job has ended; its numbers are as the handler reported them."""
    locked = yield from ask("lock_job", job_id=job.id)
    status, fence, *_ = locked[0]
    if status != JobStatus.LOCKED or fence != job.fence:
        return LeaseLost()
    outcome = job_outcome(tally)
    document = msgspec.json.encode(result).decode()
    yield from _finish(job, outcome, tally, document, artifacts, worker_id, ids, now)
    return Completed(outcome)


def _finish(
    job: ClaimedJob | ClaimedPhaseJob,
    outcome: JobOutcome,
    tally: Tally,
    result: str | None,
    artifacts: Sequence[Mapping[str, object]],
    worker_id: WorkerId,
    ids: IdSource,
    now: datetime,
    *,
    given_up: bool = False,
) -> Transaction[None]:
    ended = _ended(job, outcome, tally, given_up=given_up)
    yield from ask(
        "finish_job",
        job_id=job.id,
        status=ended.value,
        outcome=outcome.value,
        sent=tally.succeeded,
        failed=tally.failed,
        skipped=tally.skipped,
        unended=tally.unended,
        result=result,
        now=now,
    )
    again_at = None
    if ended is JobStatus.DEAD:
        again_at = yield from step_retries.planned_at(job, now)
        if again_at is None:
            yield from _alert(job, tally, ids, now)
    detail = {"outcome": outcome.value, **_numbers(tally)}
    yield from record([_entry(job, worker_id, f"job.{ended.value}", detail)], ids, now)
    error = None
    if outcome is JobOutcome.FAILED:
        detail_document = {} if result is None else msgspec.json.decode(result)
        error = yield from root_causes.step_error(job.run_id, job.id, ended, tally, detail_document)
    event = _step_event(job, ended, outcome, tally, artifacts, error, again_at)
    appended = yield from run_log.append(job.run_id, job.plan_version, [event], now)
    if again_at is not None:
        yield from step_retries.begin_planned(job, again_at, now)
        return
    # Appending locked the run, so a job that is unfinished now will be finished by another worker.
    if appended and (yield from _has_unfinished_jobs(job.run_id)):
        return
    yield from finish_run_if_done(job.scope, job.run_id, worker_id, ids, now)


def _step_event(
    job: ClaimedJob | ClaimedPhaseJob,
    ended: JobStatus,
    outcome: JobOutcome,
    tally: Tally,
    artifacts: Sequence[Mapping[str, object]],
    error: Mapping[str, object] | None,
    again_at: datetime | None,
) -> EventDraft:
    """The log event of a job that has ended: done, failed, or never started because of a stop.

    It carries everything that the job's row says about its end.
    """
    payload: dict[str, object] = {
        "status": ended.value,
        "outcome": outcome.value,
        "sent": tally.succeeded,
        "failed": tally.failed,
        "skipped": tally.skipped,
    }
    if tally.unended:
        payload["inDoubt"] = tally.in_doubt
        payload["waiting"] = tally.unended - tally.in_doubt
    if again_at is not None:
        payload["retryAt"] = rfc3339(again_at)
        payload["nextLogicalAttemptId"] = str(job.logical_attempt + 1)
    if tally.cancelled and not tally.succeeded and ended is not JobStatus.DEAD:
        kind, payload["reason"] = RunEventType.STEP_SKIPPED, CANCELLED
    elif outcome is JobOutcome.FAILED:
        kind, payload["error"] = RunEventType.STEP_FAILED, error
    else:
        kind = RunEventType.STEP_COMPLETED
        if artifacts:
            payload["artifacts"] = list(artifacts)
    return EventDraft(kind, job.id, job.logical_attempt, job.attempts + 1, payload)


def _ended(
    job: ClaimedJob | ClaimedPhaseJob, outcome: JobOutcome, tally: Tally, *, given_up: bool
) -> JobStatus:
    """A job's status agrees with its outcome: failed if nothing succeeded, else completed.

    A job that was given up is dead; a stopped one only if it could not be closed in full. However
    often its workers died, a job that reached its end is not dead.
    """
    failed = JOB_MACHINE.after(JobStatus.LOCKED, "fail")
    if isinstance(job, ClaimedPhaseJob):
        given_up = job.is_exhausted and outcome is JobOutcome.FAILED
    if given_up and not (job.cancelled and tally.unended == tally.in_doubt):
        return JOB_MACHINE.after(failed, "bury")
    if outcome is JobOutcome.FAILED:
        return failed
    return JOB_MACHINE.after(JobStatus.LOCKED, "complete")


def _alert(
    job: ClaimedJob | ClaimedPhaseJob, tally: Tally, ids: IdSource, now: datetime
) -> Transaction[None]:
    """One alert covers all dead jobs of a run; the next run of its phase resolves it."""
    message = f"a job was given up after {job.attempts} attempts"
    if left := tally.unended:
        message += f"; {left} of its {tally.intended} items have no outcome"
    detail = {"jobId": job.id, "campaignId": job.campaign_id, **_numbers(tally)}
    yield from raise_alert(
        Alert(job.scope, AlertCode.JOB_DEAD, job.run_id, message, detail), ids, now
    )
    yield from resolve_rest_alert(job.run_id, now)


def finish_run_if_done(
    scope: Scope, run_id: RunId, actor: str, ids: IdSource, now: datetime
) -> Transaction[bool]:
    """If no job of the run is left, the run ends, and its phase with it.

    A run does not end while its phase is paused, because a paused phase cannot complete; resuming
    checks again. A stopped phase has failed already, and may have continued with another run; then
    this one ends without changing it.
    """
    status, campaign_id, phase, stopped_at, version, _ = yield from run_records.lock(run_id)
    if RunStatus(status) in TERMINAL_RUNS or (yield from _has_unfinished_jobs(run_id)):
        # It has jobs left, or was ended manually in the database while it had.
        return False
    state, current_run = yield from lock_phase(campaign_id, phase)
    is_current = current_run == run_id
    if is_current and state == PhaseState.PAUSED:
        return False
    outcomes = yield from ask("run_outcomes", run_id=run_id)
    ended = run_status([JobOutcome(row[0]) for row in outcomes])
    if status == RunStatus.QUEUED:
        # None of it was ever claimed: a phase without work, or stopped before any.
        status = RUN_MACHINE.after(RunStatus.QUEUED, "start")
        if stopped_at is None:
            # No engine has seen it, and none will.
            yield from start_run(run_id, version, actor, f"none/{run_id}", now)
    assert RUN_MACHINE.after(RunStatus(status), RUN_TRIGGER[ended]) is ended
    accounting = (yield from accountings.run_accounting(run_id)).as_document()
    error = None
    if ended is RunStatus.FAILED and stopped_at is None:
        error = yield from root_causes.run_error(run_id, accounting)
    event = _run_event(ended, accounting, error, stopped=stopped_at is not None)
    seq = (yield from run_log.append(run_id, version, [event], now))[-1].run_seq
    yield from ask("finish_run", run_id=run_id, status=ended.value, status_seq=seq, now=now)
    if phase == AUDIENCE_IMPORT:
        yield from audience.complete(CampaignId(campaign_id))
    # A phase that is no longer in progress was ended manually in the database, which is recorded.
    if is_current and stopped_at is None and state == PhaseState.IN_PROGRESS:
        yield from transition_phase(
            CampaignId(campaign_id),
            phase,
            PHASE_TRIGGER[ended],
            now,
            reason=None if error is None else str(error["message"]),
            payload={
                "runId": run_id,
                "status": ended.value,
                "accounting": accounting,
            },
        )
    entry = AuditEntry(
        scope, "run.finished", actor, campaign_id, run_id, detail={"status": ended.value}
    )
    yield from record([entry], ids, now)
    log.info(
        "run_ended", campaign_id=campaign_id, phase=phase, run_id=run_id, status=ended.value,
        stopped=stopped_at is not None, **accounting,
    )  # fmt: skip
    return True


def _has_unfinished_jobs(run_id: RunId) -> Transaction[bool]:
    rows = yield from ask("run_has_unfinished_jobs", run_id=run_id)
    return bool(rows[0][0])


def _run_event(
    ended: RunStatus,
    accounting: dict[str, int],
    error: Mapping[str, object] | None,
    *,
    stopped: bool,
) -> EventDraft:
    payload: dict[str, object] = {"status": ended.value, "accounting": accounting}
    if stopped:
        return EventDraft(RunEventType.RUN_CANCELLED, payload=payload)
    if ended is RunStatus.FAILED:
        assert error is not None
        payload |= {"rootCause": error["message"], "error": error}
        return EventDraft(RunEventType.RUN_FAILED, payload=payload)
    return EventDraft(RunEventType.RUN_COMPLETED, payload=payload)


def _entry(
    job: ClaimedJob | ClaimedPhaseJob, worker_id: WorkerId, event: str, detail: dict[str, object]
) -> AuditEntry:
    return AuditEntry(
        job.scope, event, worker_id, job.campaign_id, job.run_id, job.id, detail=detail
    )


def _numbers(tally: Tally) -> dict[str, object]:
    return {
        "sent": tally.succeeded,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "inDoubt": tally.in_doubt,
        "retrying": tally.retrying,
    }
