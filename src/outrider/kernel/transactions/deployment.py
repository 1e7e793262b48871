"""Deploying a run of a phase: writes the run and its jobs as queued, and starts the phase.

A launch's job is a range of positions: a million recipients at a batch size of 500 are two thousand
rows per message. A retry covers, job by job, what an earlier run left over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from outrider.domain.campaigns import (
    JOB_TYPES,
    NO_RETRIES,
    Asset,
    CampaignDefinition,
    StepRetries,
    run_channel,
)
from outrider.domain.errors import PreconditionFailed
from outrider.domain.ids import CampaignId, JobId, RunId, Scope
from outrider.domain.run_events import RunEventType
from outrider.domain.run_requests import plan_version
from outrider.domain.states import TERMINAL_RUNS, RunStatus
from outrider.domain.variants import Choice
from outrider.kernel.transactions import (
    audience_counts,
    campaigns,
    rollouts,
    run_log,
    run_records,
    run_requests,
    variant_plans,
)
from outrider.kernel.transactions.audience_counts import CountedAudience
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.job_plans import (
    JobPlan,
    first_released,
    items_of_steps,
    plan_launch,
    shares_of,
)
from outrider.kernel.transactions.phases import transition_phase
from outrider.kernel.transactions.run_log import EventDraft
from outrider.kernel.transactions.run_requests import HeldFor, RunRequest, Workspace
from outrider.ports.clock import IdSource
from outrider.ports.phases import PhaseJobPlan
from outrider.ports.store import Transaction, ask

NO_CHANNEL = "none"


@dataclass(frozen=True, slots=True)
class ContractSnapshot:
    """A contract as it is now, identified by the hash of its content."""

    sha256: str
    document: str
    acceptance_seconds: float | None = None
    mode: str = "batch"

    def deadline(self, submitted_at: datetime) -> datetime | None:
        if self.acceptance_seconds is None:
            return None
        return submitted_at + timedelta(seconds=self.acceptance_seconds)


@dataclass(frozen=True, slots=True)
class RunStart:
    """Which run of which phase starts, and by which trigger; `retry_of` names the run it continues.

    `held`: it is written, and waits. `not_before`: it is admitted, but its jobs are due later.
    """

    scope: Scope
    campaign_id: CampaignId
    phase: str
    run_id: RunId
    trigger: str
    actor: str
    retry_of: RunId | None = None
    held: HeldFor | None = None
    not_before: datetime | None = None
    request_id: str | None = None
    definition: str | None = None
    """The campaign's definition, if it was already read: it never changes."""
    workspace: Workspace | None = None
    """Likewise, the names of its workspace."""
    counted: CountedAudience | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """What to launch: everything the transaction needs that is not in the database."""

    run_start: RunStart
    assets: Sequence[Asset]
    contracts: Mapping[str, ContractSnapshot]
    fallbacks: Mapping[str, str]
    definition: CampaignDefinition
    max_attempts: int


def deploy(deployment: Deployment, ids: IdSource, now: datetime) -> Transaction[int]:
    """Returns how many items the launch intends. Only ever writes `queued`."""
    run_start = deployment.run_start
    if run_start.retry_of is None:
        plans = yield from _plan_whole_audience(deployment)
    else:
        plans = yield from _plan_remainder(deployment, run_start.retry_of)
    run_start = _never_held_for_nothing(run_start, len(plans))
    contract_ids = yield from snapshot_contracts(deployment.contracts, now)
    intended = sum(plan.item_count for plan in plans)
    channel = run_channel(tuple(asset.message for asset in deployment.assets))
    if plans:
        channel = run_channel(tuple(plan.asset.message for plan in plans))
    scheduled_for = deployment.definition.scheduled_for or now
    version, retries = yield from _insert_run(run_start, channel, intended, scheduled_for, now)
    yield from _insert_jobs(deployment, plans, contract_ids, retries, ids, now)
    if deployment.definition.rollout:
        steps = deployment.definition.rollout
        first = first_released(plans) or 1
        items = items_of_steps(plans)
        yield from rollouts.plan(run_start.run_id, version, steps, items, first, now)
    yield from variant_plans.planned(
        run_start.run_id, version, deployment.definition, deployment.assets, plans, now
    )
    yield from _approve(run_start, version, now)
    yield from _begun(run_start, intended, len(plans), ids, now)
    return intended


def _never_held_for_nothing(run_start: RunStart, jobs: int) -> RunStart:
    """A run without jobs ends at once; there is nothing to approve, or to wait for."""
    return run_start if jobs else replace(run_start, held=None)


def _plan_whole_audience(deployment: Deployment) -> Transaction[list[JobPlan]]:
    run_start, definition = deployment.run_start, deployment.definition
    campaign_id, run_id = run_start.campaign_id, run_start.run_id
    counted = yield from audience_counts.counted_now(
        campaign_id, run_id, definition, run_start.counted
    )
    plans = plan_launch(deployment.assets, counted)
    if not plans:
        raise PreconditionFailed(run_start.trigger, "predecessor_output_missing", None)
    yield from ask("forget_left_out", campaign_id=campaign_id, run_id=run_id)
    return plans


def _plan_remainder(deployment: Deployment, previous: RunId) -> Transaction[list[JobPlan]]:
    """Jobs over what the earlier run left, without what is in doubt now; and over what was in doubt
    at an earlier retry, and has since been found to have failed.

    A retry without any jobs is possible after a stopped run that left nothing over or in doubt: its
    phase could not complete otherwise.
    """
    run_start = deployment.run_start
    campaign_id, run_id = run_start.campaign_id, run_start.run_id
    runs = {"previous_run_id": previous, "run_id": run_id}
    yield from ask("exclude_unsettled", campaign_id=campaign_id, **runs)
    yield from ask("take_left_out", campaign_id=campaign_id, run_id=run_id)
    left = yield from ask("count_remainder", **runs)
    if not left and not (
        run_start.trigger == "retry"
        and (yield from _has_ended(previous))
        and not (yield from run_records.left_in_doubt(campaign_id))
    ):
        raise PreconditionFailed(run_start.trigger, "nothing_to_send", run_start.phase)
    assets = {asset.id: asset for asset in deployment.assets}
    return [
        JobPlan(
            assets[asset_id], first, last, count, JobId(job_id), rollout_step=step,
            choice=None if choice[0] is None else Choice(*choice), awaits_winner=bool(awaits),
        )
        for job_id, asset_id, first, last, count, step, *choice, awaits in left
    ]  # fmt: skip


def _has_ended(run_id: RunId) -> Transaction[bool]:
    return RunStatus((yield from run_records.run_anywhere(run_id)).status) in TERMINAL_RUNS


def _definition_of(run_start: RunStart) -> Transaction[str]:
    if run_start.definition is not None:
        return run_start.definition
    return (yield from campaigns.campaign(run_start.scope, run_start.campaign_id)).definition


def _local_launch(plan: CampaignDefinition) -> str | None:
    launch = plan.local_launch
    return None if launch is None else msgspec.json.encode(launch.as_document()).decode()


def _insert_run(
    run_start: RunStart, channel: str, intended: int, scheduled_for: datetime, now: datetime
) -> Transaction[tuple[str, StepRetries]]:
    """Returns the version of the run's plan, and how that plan retries its steps."""
    definition = yield from _definition_of(run_start)
    version, plan = plan_version(definition), campaigns.read_definition(definition)
    yield from ask(
        "insert_run",
        **run_start.scope._asdict(),
        id=run_start.run_id,
        campaign_id=run_start.campaign_id,
        phase=run_start.phase,
        channel=channel,
        intended=intended,
        scheduled_for=scheduled_for,
        retry_of=run_start.retry_of,
        plan_version=version,
        approved_at=None if run_start.held else now,
        local_launch=_local_launch(plan),
        now=now,
    )
    request = RunRequest(
        run_start.scope,
        run_start.campaign_id,
        run_start.phase,
        version,
        run_start.request_id or run_start.run_id,
    )
    place = run_start.workspace or (yield from run_requests.workspace(run_start.scope))
    yield from run_requests.insert(request, place, run_start.run_id, run_start.held, now)
    return version, plan.retry_policy.get(run_start.phase, NO_RETRIES)


def _approve(run_start: RunStart, version: str, now: datetime) -> Transaction[None]:
    """The planner approves the run, unless it has to wait for approval or capacity."""
    if run_start.held is None:
        payload = {"approvedBy": "planner", "requestedBy": run_start.actor}
        draft = EventDraft(RunEventType.RUN_APPROVED, payload=payload)
        yield from run_log.append(run_start.run_id, version, [draft], now)


def deploy_phase(
    run_start: RunStart,
    plans: Sequence[PhaseJobPlan],
    max_attempts: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[int]:
    """A run of a phase that a handler processes; returns how many items it intends."""
    intended = sum(plan.items for plan in plans)
    run_start = _never_held_for_nothing(run_start, len(plans))
    version, retries = yield from _insert_run(run_start, NO_CHANNEL, intended, now, now)
    nothing: list[None] = [None] * len(plans)
    yield from ask(
        "insert_jobs",
        {
            "id": sorted(ids.batch(len(plans))),
            "job_type": [run_start.phase] * len(plans),
            "submission_target": [run_start.phase] * len(plans),
            "asset_id": nothing,
            "contract_id": nothing,
            "fallback_contract_id": nothing,
            "first_position": nothing,
            "last_position": nothing,
            "item_count": [plan.items for plan in plans],
            "retry_job_id": nothing,
            "detail": [msgspec.json.encode(plan.detail).decode() for plan in plans],
            "mode": ["batch"] * len(plans),
            **shares_of([None] * len(plans)),
        },
        **run_start.scope._asdict(),
        run_id=run_start.run_id,
        max_attempts=max_attempts,
        logical_attempts_max=retries.max_attempts,
        retry_delay_seconds=retries.delay_seconds,
        run_at=run_start.not_before or now,
        held=run_start.held is not None,
        now=now,
    )
    yield from _approve(run_start, version, now)
    yield from _begun(run_start, intended, len(plans), ids, now)
    return intended


def _begun(
    run_start: RunStart, intended: int, jobs: int, ids: IdSource, now: datetime
) -> Transaction[None]:
    yield from transition_phase(
        run_start.campaign_id,
        run_start.phase,
        run_start.trigger,
        now,
        run_id=run_start.run_id,
        payload={
            "runId": run_start.run_id,
            "intended": intended,
            "trigger": run_start.trigger,
            "retryOf": run_start.retry_of,
        },
    )
    entry = AuditEntry(
        run_start.scope, "run.deployed", run_start.actor, run_start.campaign_id, run_start.run_id,
        detail={"phase": run_start.phase, "intended": intended, "jobs": jobs},
    )  # fmt: skip
    yield from record([entry], ids, now)


def snapshot_contracts(
    contracts: Mapping[str, ContractSnapshot], now: datetime
) -> Transaction[dict[str, int]]:
    """Store each target's contract once; returns the snapshot's id by target."""
    sha256 = [snapshot.sha256 for snapshot in contracts.values()]
    by_sha256 = yield from _contract_ids(sha256)
    if len(by_sha256) < len(set(sha256)):
        documents = [snapshot.document for snapshot in contracts.values()]
        yield from ask(
            "insert_contracts",
            {"sha256": sha256, "submission_target": list(contracts), "document": documents},
            now=now,
        )
        by_sha256 = yield from _contract_ids(sha256)
    return {target: by_sha256[snapshot.sha256] for target, snapshot in contracts.items()}


def _contract_ids(sha256: Sequence[str]) -> Transaction[dict[str, int]]:
    rows = yield from ask("contracts_by_sha256", {"sha256": sha256})
    return {found: contract_id for contract_id, found in rows}


def _insert_jobs(
    deployment: Deployment,
    plans: Sequence[JobPlan],
    contract_ids: Mapping[str, int],
    retries: StepRetries,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    job_ids = [JobId(new) for new in ids.batch(len(plans))]
    yield from ask(
        "insert_jobs",
        {
            # Sorted, because workers take jobs in the order of their ids.
            "id": sorted(job_ids),
            "job_type": [JOB_TYPES[plan.asset.message.channel] for plan in plans],
            "submission_target": [plan.asset.message.submission_target for plan in plans],
            "asset_id": [plan.asset.id for plan in plans],
            "contract_id": [contract_ids[plan.asset.message.submission_target] for plan in plans],
            "fallback_contract_id": [
                contract_ids.get(deployment.fallbacks.get(plan.asset.message.submission_target, ""))
                for plan in plans
            ],
            "first_position": [plan.first_position for plan in plans],
            "last_position": [plan.last_position for plan in plans],
            "item_count": [plan.item_count for plan in plans],
            "retry_job_id": [plan.retry_job_id for plan in plans],
            "detail": [None] * len(plans),
            "mode": [
                deployment.contracts[plan.asset.message.submission_target].mode for plan in plans
            ],
            **shares_of(plans),
        },
        **deployment.run_start.scope._asdict(),
        run_id=deployment.run_start.run_id,
        max_attempts=deployment.max_attempts,
        logical_attempts_max=retries.max_attempts,
        retry_delay_seconds=retries.delay_seconds,
        run_at=max(
            deployment.definition.scheduled_for or now, deployment.run_start.not_before or now, now
        ),
        held=deployment.run_start.held is not None,
        now=now,
    )


def launch(
    run_start: RunStart,
    snapshots: Callable[[set[str]], Mapping[str, ContractSnapshot]],
    fallback_of: Callable[[str], str | None],
    max_attempts: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[int]:
    """Deploy a launch as its campaign is defined; returns how many items it intends."""
    campaign_id = run_start.campaign_id
    assets = yield from campaigns.assets_of(campaign_id)
    definition = campaigns.read_definition((yield from _definition_of(run_start)))
    targets = {asset.message.submission_target for asset in assets}
    plan = Deployment(
        run_start=run_start,
        assets=assets,
        contracts=snapshots(targets),
        fallbacks={target: fallback for target in targets if (fallback := fallback_of(target))},
        definition=definition,
        max_attempts=max_attempts,
    )
    return (yield from deploy(plan, ids, now))
