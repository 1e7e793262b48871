"""Run requests in the database: each is one run, however often it is made."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.run_requests import plan_id, request_key
from outrider.ports.store import Transaction, ask


class RequestStatus(StrEnum):
    """Waiting for approval or capacity; started; or never to be started."""

    WAITING = "waiting"
    STARTED = "started"
    SKIPPED = "skipped"


class HeldFor(StrEnum):
    """Why a run is not started at once."""

    APPROVAL = "approval"
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class RunRequest:
    scope: Scope
    campaign_id: CampaignId
    phase: str
    plan_version: str
    request_id: str


class Workspace(NamedTuple):
    project: str
    environment: str


def workspace(scope: Scope) -> Transaction[Workspace]:
    rows = yield from ask("workspace_by_id", **scope._asdict())
    return Workspace(*rows[0])


def insert(
    request: RunRequest, place: Workspace, run_id: RunId, held: HeldFor | None, now: datetime
) -> Transaction[None]:
    plan = plan_id(request.campaign_id, request.phase)
    key = request_key(
        request.scope.tenant_id, *place, plan, request.plan_version, request.request_id
    )
    yield from ask(
        "insert_run_request",
        **request.scope._asdict(),
        **place._asdict(),
        run_id=run_id,
        plan_id=plan,
        plan_version=request.plan_version,
        run_request_id=request.request_id,
        key=key,
        status=RequestStatus.WAITING if held else RequestStatus.STARTED,
        needs_approval=held is HeldFor.APPROVAL,
        reason=held.value if held else None,
        now=now,
    )


def run_of(request: RunRequest) -> Transaction[RunId | None]:
    """The run that this request already created, if it was made before."""
    place = yield from workspace(request.scope)
    plan = plan_id(request.campaign_id, request.phase)
    key = request_key(
        request.scope.tenant_id, *place, plan, request.plan_version, request.request_id
    )
    rows = yield from ask("run_of_request", key=key)
    return RunId(rows[0][0]) if rows else None
