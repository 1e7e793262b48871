"""The context of a phase handler: its campaign's audience, launches and artifacts.

Each call is one bounded transaction; a handler has access to nothing else.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

from outrider.domain.artifacts import ArtifactRef
from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.outbox import total
from outrider.domain.phases import STOPPED
from outrider.domain.recipients import AddressKind, Recipient
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.certifier import Certifier
from outrider.kernel.transactions import (
    artifacts,
    audience,
    campaigns,
    ledger_items,
    run_jobs,
    run_records,
)
from outrider.kernel.transactions.launch_outcomes import earlier_runs, launch_chain, taken_up
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.limits.campaigns import BATCH_SIZE_MAX
from outrider.ports.artifacts import ArtifactStore
from outrider.ports.phases import AudienceChunk, AudienceMember, ResultLine

EVERY_KIND = "*"


class PhaseContexts:
    """Opens the context of a run."""

    def __init__(
        self,
        foundation: Foundation,
        artifact_store: ArtifactStore,
        artifact_days: Mapping[str, int],
        certifier: Certifier,
    ) -> None:
        self._foundation = foundation
        self._artifact_store = artifact_store
        self._artifact_days = artifact_days
        self._certifier = certifier

    async def context(
        self, scope: Scope, campaign_id: CampaignId, run_id: RunId
    ) -> "StoredPhaseContext":
        record = await self._foundation.store.read(campaigns.campaign(scope, campaign_id))
        return StoredPhaseContext(
            self._foundation,
            scope,
            campaign_id,
            run_id,
            campaigns.read_definition(record.definition),
            self._artifact_store,
            self._artifact_days,
            self._certifier,
        )


class StoredPhaseContext:
    def __init__(
        self,
        foundation: Foundation,
        scope: Scope,
        campaign_id: CampaignId,
        run_id: RunId,
        definition: CampaignDefinition,
        artifact_store: ArtifactStore,
        artifact_days: Mapping[str, int],
        certifier: Certifier,
    ) -> None:
        self._scope = scope
        self._campaign_id = campaign_id
        self._run_id = run_id
        self._definition = definition
        self._store = foundation.store
        self._artifact_store = artifact_store
        self._artifact_days = artifact_days
        self._certifier = certifier
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self.kept: list[dict[str, object]] = []
        """References to the artifacts stored through this context."""

    @property
    def campaign_id(self) -> CampaignId:
        return self._campaign_id

    @property
    def run_id(self) -> RunId:
        return self._run_id

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def definition(self) -> CampaignDefinition:
        return self._definition

    async def positions(self) -> int:
        return await self._store.read(audience.next_position(self._campaign_id))

    async def members(self, first: int, last: int) -> Sequence[AudienceMember]:
        if last - first >= BATCH_SIZE_MAX:
            raise InvalidInput(f"at most {BATCH_SIZE_MAX:,} members can be read at once")
        return await self._store.read(audience.members(self._campaign_id, first, last))

    async def mark_invalid(self, kind: AddressKind, positions: Sequence[int]) -> None:
        await self._store.write(audience.mark_invalid(self._campaign_id, kind, positions))

    async def uploads(self) -> Sequence[AudienceChunk]:
        return await self._store.read(audience.uploads(self._campaign_id))

    async def repeated_uploads(self) -> Sequence[int]:
        return await self._store.read(audience.repeated(self._campaign_id))

    async def upload(self, chunk: int) -> Sequence[object]:
        return await self._store.read(audience.upload(self._campaign_id, chunk))

    async def add_members(self, first: int, recipients: Sequence[Recipient | None]) -> int:
        return await self._store.write(audience.add_members(self._campaign_id, first, recipients))

    async def launch_summary(self) -> Mapping[str, object] | None:
        last = await self._store.read(run_records.last_launch(self._campaign_id))
        if last is None:
            return None
        certificate = await self._certifier.certify(self._scope, last.id)
        earlier = (await self._store.read(earlier_runs({last.id: self._campaign_id}))).get(last.id)
        reasons = await self._store.read(run_jobs.reason_counts(last.id))
        counted = certificate.accounting
        outcome = total([earlier.settled, counted]) if earlier else counted
        return {
            "run": {
                "runId": last.id,
                "status": STOPPED if last.stopped_at else last.status,
                "startedAt": rfc3339(last.started_at) if last.started_at else None,
                "finishedAt": rfc3339(last.finished_at) if last.finished_at else None,
                "retryOf": last.retry_of,
            },
            "runs": 1 + (earlier.runs if earlier else 0),
            "accounting": outcome.as_document(),
            "certificate": certificate.as_document(),
            "reasons": [reason._asdict() for reason in reasons],
        }

    async def launch_lines(self) -> AsyncIterator[Sequence[ResultLine]]:
        last = await self._store.read(run_records.last_launch(self._campaign_id))
        if last is None:
            return
        for run_id in await self._store.read(launch_chain(last.id)):
            after = LedgerPosition()
            while True:
                page = await self._store.read(
                    ledger_items.items_of_run(
                        self._scope, run_id, most=self._limits.page_items, after=after
                    )
                )
                gone = set()
                if run_id != last.id:
                    gone = await self._store.read(taken_up(self._campaign_id, page))
                if shown := [_result_line(item) for item in page if item.id not in gone]:
                    yield shown
                if len(page) < self._limits.page_items:
                    break
                after = LedgerPosition(page[-1].job_id or "", page[-1].id)

    async def keep(self, name: str, media_type: str, content: AsyncIterator[bytes]) -> None:
        stored = await self._artifact_store.put(self._run_id, name, content)
        await self._store.write(
            artifacts.save(
                self._scope,
                self._campaign_id,
                self._run_id,
                self._ids.new(),
                name,
                media_type,
                stored,
                self._clock.now(),
            )
        )
        days = self._artifact_days.get(name, self._artifact_days.get(EVERY_KIND))
        expires_at = None if days is None else self._clock.now() + timedelta(days=days)
        kept = ArtifactRef(stored.reference, name, stored.sha256, stored.size_bytes, expires_at)
        self.kept.append(kept.as_document())


def _result_line(item: ledger_items.Item) -> ResultLine:
    return ResultLine(
        item.id,
        item.recipient_id,
        item.address,
        item.channel,
        item.submission_target,
        item.status,
        item.reason,
        item.attempts,
        item.provider_message_id,
        rfc3339(item.updated_at),
        item.delivery.state.value,
        item.delivery.reason,
        item.variant,
    )
