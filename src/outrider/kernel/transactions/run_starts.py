"""Starting a run that waited: under its lease, if there is capacity for it by now."""

from datetime import datetime
from enum import StrEnum
from typing import assert_never

from outrider.domain.admission import Admitted, Delayed, NotAdmitted, Queued
from outrider.domain.ids import WorkerId
from outrider.domain.states import TERMINAL_RUNS, RunStatus
from outrider.kernel.transactions import admission, run_records
from outrider.kernel.transactions.admission import LeasedRequest
from outrider.kernel.transactions.admission_gate import AdmissionGate, later
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.run_requests import RequestStatus
from outrider.kernel.transactions.steering import one_at_a_time
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction

PLANNER = "planner"


class DequeueStatus(StrEnum):
    STARTED = "STARTED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


def start(
    request: LeasedRequest, worker_id: WorkerId, gate: AdmissionGate, now: datetime
) -> Transaction[DequeueStatus | None]:
    """None if there is no capacity."""
    yield from one_at_a_time(request.campaign_id)
    run = yield from run_records.lock(request.run_id)
    if not (yield from admission.hold_request(request, worker_id)):
        return DequeueStatus.SKIPPED
    has_begun = run.stopped_at is not None or run.approved_at is not None
    if has_begun or RunStatus(run.status) in TERMINAL_RUNS:
        skipped = RequestStatus.SKIPPED
        yield from admission.end_request(request.run_id, skipped, "not_waiting", now)
        return DequeueStatus.SKIPPED
    verdict = yield from gate.decide(request.scope)
    match verdict:
        case Admitted() | Delayed():
            not_before = later(verdict, now)
        case Queued() | NotAdmitted():
            return None
        case other:
            assert_never(other)
    approved_by = request.approved_by or PLANNER
    yield from admission.release(request.run_id, run.plan_version, approved_by, not_before, [], now)
    yield from resolve_alert(AlertCode.RUN_NOT_STARTED, request.run_id, now)
    return DequeueStatus.STARTED


def failed(request: LeasedRequest, why: str, ids: IdSource, now: datetime) -> Transaction[None]:
    alert = Alert(
        request.scope,
        AlertCode.RUN_NOT_STARTED,
        request.run_id,
        "the run is waiting and could not be started; it will be tried again",
        {"runId": request.run_id, "error": why},
    )
    yield from raise_alert(alert, ids, now)
