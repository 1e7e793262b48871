"""Artifacts of runs: what was written where, with its size and hash."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId, Scope, is_uuid
from outrider.kernel.transactions import campaigns
from outrider.ports.artifacts import StoredArtifact
from outrider.ports.store import Rows, Transaction, ask


class ArtifactRecord(NamedTuple):
    id: str
    run_id: RunId
    name: str
    media_type: str
    reference: str
    sha256: str
    size_bytes: int
    created_at: datetime


def save(
    scope: Scope,
    campaign_id: CampaignId,
    run_id: RunId,
    artifact_id: str,
    name: str,
    media_type: str,
    stored: StoredArtifact,
    now: datetime,
) -> Transaction[None]:
    yield from ask(
        "save_artifact",
        **scope._asdict(),
        id=artifact_id,
        campaign_id=campaign_id,
        run_id=run_id,
        name=name,
        media_type=media_type,
        reference=stored.reference,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        now=now,
    )


def page(campaign_id: CampaignId, after: str, most: int) -> Transaction[list[ArtifactRecord]]:
    rows = yield from ask("artifacts_of_campaign", campaign_id=campaign_id, after=after, most=most)
    return [ArtifactRecord(*row) for row in rows]


def artifact(scope: Scope, artifact_id: str) -> Transaction[ArtifactRecord]:
    found: Rows = []
    if is_uuid(artifact_id):
        found = yield from ask("artifact_by_id", **scope._asdict(), artifact_id=artifact_id)
    if not found:
        raise NotFound(f"there is no artifact {artifact_id}")
    return ArtifactRecord(*found[0])


def page_of(
    scope: Scope, campaign_id: CampaignId, after: str, most: int
) -> Transaction[list[ArtifactRecord]]:
    """Of a campaign of this workspace."""
    yield from campaigns.campaign(scope, campaign_id)
    return (yield from page(campaign_id, after, most))
