"""Deploying a launch: one run and its jobs, written queued; a job is a range of positions.

A million recipients at a batch size of 500 are two thousand rows a message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from outrider.domain.campaigns import JOB_TYPES, LAUNCH, Asset, run_channel
from outrider.domain.errors import Conflict, InvalidInput, InvalidTransition
from outrider.domain.ids import CampaignId, JobId, RunId, Scope
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.phases import transition_phase
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask


@dataclass(frozen=True, slots=True)
class ContractSnapshot:
    """A contract as it stands now, by the hash of its content."""

    sha256: str
    document: str


@dataclass(frozen=True, slots=True)
class JobPlan:
    asset: Asset
    first_position: int
    last_position: int
    item_count: int


@dataclass(frozen=True, slots=True)
class Deployment:
    """What to deploy: everything the transaction needs that is not in the database."""

    scope: Scope
    campaign_id: CampaignId
    run_id: RunId
    assets: Sequence[Asset]
    contracts: Mapping[str, ContractSnapshot]
    fallbacks: Mapping[str, str]
    batch_size: int
    scheduled_for: datetime | None
    max_attempts: int
    actor: str


def plan_jobs(assets: Sequence[Asset], batch_size: int, batches: Rows) -> list[JobPlan]:
    """Jobs in batch order, so that all messages of a campaign advance together."""
    counts: dict[int, dict[str | None, int]] = {}
    for batch, message_id, count in batches:
        counts.setdefault(batch, {})[message_id] = count
    plans = []
    for batch, by_message in sorted(counts.items()):
        for asset in assets:
            items = by_message.get(None, 0) + by_message.get(asset.message.id, 0)
            if items:
                first = batch * batch_size
                plans.append(JobPlan(asset, first, first + batch_size - 1, items))
    return plans


def deploy(deployment: Deployment, ids: IdSource, now: datetime) -> Transaction[int]:
    """Returns how many items the run intends. Only ever writes `queued`."""
    scope, run_id = deployment.scope, deployment.run_id
    owner = scope._asdict()
    batches = yield from ask(
        "count_batches", campaign_id=deployment.campaign_id, batch_size=deployment.batch_size
    )
    plans = plan_jobs(deployment.assets, deployment.batch_size, batches)
    intended = sum(plan.item_count for plan in plans)
    if not intended:
        raise InvalidInput(
            f"campaign {deployment.campaign_id} has nobody to send to",
            hint="create it again with recipients",
        )
    contract_ids = yield from snapshot_contracts(deployment.contracts, now)
    yield from ask(
        "insert_run",
        **owner,
        id=run_id,
        campaign_id=deployment.campaign_id,
        phase=LAUNCH,
        channel=run_channel(tuple(asset.message for asset in deployment.assets)),
        intended=intended,
        scheduled_for=deployment.scheduled_for or now,
        retry_of=None,
        now=now,
    )
    yield from _insert_jobs(deployment, plans, contract_ids, ids, now)
    try:
        yield from transition_phase(
            deployment.campaign_id, LAUNCH, "start", now, run_id=run_id,
            payload={"runId": run_id, "intended": intended},
        )  # fmt: skip
    except InvalidTransition as refused:
        raise Conflict(
            f"the launch of campaign {deployment.campaign_id} is '{refused.state}' already",
            hint=f"`outrider campaign status {deployment.campaign_id}` shows its run;"
            " `outrider work` goes on with it",
        ) from refused
    entry = AuditEntry(
        scope, "run.deployed", deployment.actor, deployment.campaign_id, run_id,
        detail={"intended": intended, "jobs": len(plans)},
    )  # fmt: skip
    yield from record([entry], ids, now)
    return intended


def snapshot_contracts(
    contracts: Mapping[str, ContractSnapshot], now: datetime
) -> Transaction[dict[str, int]]:
    """Store each target's contract once; returns the snapshot's id by target."""
    sha256 = [snapshot.sha256 for snapshot in contracts.values()]
    documents = [snapshot.document for snapshot in contracts.values()]
    yield from ask(
        "insert_contracts",
        {"sha256": sha256, "submission_target": list(contracts), "document": documents},
        now=now,
    )
    rows = yield from ask("contracts_by_sha256", {"sha256": sha256})
    by_sha256 = {found: contract_id for contract_id, found in rows}
    return {target: by_sha256[snapshot.sha256] for target, snapshot in contracts.items()}


def _insert_jobs(
    deployment: Deployment,
    plans: Sequence[JobPlan],
    contract_ids: Mapping[str, int],
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
        },
        **deployment.scope._asdict(),
        run_id=deployment.run_id,
        max_attempts=deployment.max_attempts,
        run_at=max(deployment.scheduled_for or now, now),
        now=now,
    )
