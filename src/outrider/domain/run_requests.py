"""Run requests: which run of which plan was requested, and the unique key of that request.

A plan is a phase of a campaign; its version is the hash of the campaign's definition. A request
made twice is one run.
"""

import hashlib

from outrider.domain.ids import CampaignId, IdempotencyKey, TenantId, idempotency_key

PLAN_VERSION_CHARACTERS = 16


def plan_id(campaign_id: CampaignId, phase: str) -> str:
    return f"{campaign_id}:{phase}"


def plan_version(definition: str) -> str:
    """Definitions that differ in any way are different versions."""
    return hashlib.sha256(definition.encode()).hexdigest()[:PLAN_VERSION_CHARACTERS]


def request_key(
    tenant_id: TenantId,
    project: str,
    environment: str,
    plan: str,
    version: str,
    run_request_id: str,
) -> IdempotencyKey:
    return idempotency_key(tenant_id, project, environment, plan, version, run_request_id)
