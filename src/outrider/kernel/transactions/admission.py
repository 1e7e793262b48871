"""Admitting runs: a workspace's load, approval, and the leases of the queue.

Admission takes an exclusive lock on the campaign's controls and on the workspace's admission.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.admission import Load
from outrider.domain.ids import CampaignId, RunId, Scope, TenantId, WorkerId, WorkspaceId
from outrider.domain.run_events import RunEventType
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.run_log import EventDraft
from outrider.kernel.transactions.run_requests import RequestStatus
from outrider.ports.store import Transaction, Window, ask, ask_alone


class LeasedRequest(NamedTuple):
    """A waiting run that is ours to start until the lease runs out."""

    run_id: RunId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    campaign_id: CampaignId
    fence: int
    approved_by: str | None

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)


def load(scope: Scope) -> Transaction[Load]:
    """Counted under a lock, and valid until the commit."""
    yield from ask("serialise_admission", workspace_id=scope.workspace_id)
    rows = yield from ask("count_load", **scope._asdict())
    runs, items = rows[0]
    return Load(int(runs), int(items))


def release(
    run_id: RunId,
    plan_version: str,
    approved_by: str,
    not_before: datetime,
    drafts: Sequence[EventDraft],
    now: datetime,
) -> Transaction[int]:
    """The planner approves the run, and its jobs can be claimed. Returns the event's sequence.

    `drafts` are logged before the approval.
    """
    yield from ask("release_held_jobs", run_id=run_id, not_before=not_before, now=now)
    approval = EventDraft(RunEventType.RUN_APPROVED, payload={"approvedBy": approved_by})
    appended = yield from run_log.append(run_id, plan_version, [*drafts, approval], now)
    yield from ask("approve_run", run_id=run_id, now=now)
    yield from end_request(run_id, RequestStatus.STARTED, None, now)
    return appended[-1].run_seq


def note_approval(run_id: RunId, approved_by: str, now: datetime) -> Transaction[None]:
    """It no longer waits for approval, only for capacity."""
    yield from ask("note_approval", run_id=run_id, approved_by=approved_by, now=now)


def end_request(
    run_id: RunId, status: RequestStatus, reason: str | None, now: datetime
) -> Transaction[None]:
    yield from ask("end_run_request", run_id=run_id, status=status.value, reason=reason, now=now)


def waiting_workspaces(most: int) -> Transaction[list[Scope]]:
    """Workspaces with runs that wait only for capacity."""
    rows = yield from ask_alone("waiting_workspaces", most=most)
    return [Scope(TenantId(tenant), WorkspaceId(workspace)) for tenant, workspace in rows]


def anything_waits(scope: Scope) -> Transaction[bool]:
    return bool((yield from ask("run_waits_in_workspace", **scope._asdict())))


def lease_requests(
    scope: Scope, owner: WorkerId, expires_at: datetime, most: int, now: datetime
) -> Transaction[list[LeasedRequest]]:
    """The oldest waiting runs of a workspace that are not leased by another process."""
    rows = yield from ask(
        "lease_run_requests",
        **scope._asdict(),
        owner=owner,
        expires_at=expires_at,
        most=most,
        now=now,
    )
    return sorted((LeasedRequest(*row) for row in rows), key=lambda request: request.run_id)


def hold_request(request: LeasedRequest, owner: WorkerId) -> Transaction[bool]:
    """Inside another script: is the request still ours to start?"""
    rows = yield from ask(
        "hold_run_request", run_id=request.run_id, owner=owner, fence=request.fence
    )
    return bool(rows)


def give_back(requests: Sequence[LeasedRequest], owner: WorkerId) -> Transaction[None]:
    """There is no capacity for these yet; the next process to look may try."""
    window: Window = {
        "run_id": [request.run_id for request in requests],
        "fence": [request.fence for request in requests],
    }
    yield from ask("release_run_requests", window, owner=owner)


def waits_for_approval(run_id: RunId) -> Transaction[bool]:
    rows = yield from ask("run_request_of", run_id=run_id)
    return bool(rows) and rows[0][0] == RequestStatus.WAITING and bool(rows[0][1])
