"""What the suite's tests share: shorthands for campaigns, drafts and verdicts, at explicit times.

A `Workshop` only runs the kernel's own transactions over the store under test.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from outrider.domain.call_results import Progress
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, Message
from outrider.domain.contracts import contract_sha256, contract_text
from outrider.domain.ids import (
    DEFAULT_SCOPE,
    CampaignId,
    OutboxId,
    RecipientId,
    RunId,
    Scope,
    TenantId,
    WorkerId,
    WorkspaceId,
    idempotency_key,
)
from outrider.domain.jobs import Settlement
from outrider.domain.outbox import Accounting
from outrider.domain.recipients import Recipient
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import Contract, ExhaustedReason, MaxAttempts, Verdict
from outrider.domain.times import rfc3339
from outrider.engines.local import local_reference
from outrider.kernel.transactions import (
    accountings,
    audience,
    audit_trail,
    campaigns,
    closing,
    deployment,
    ledger_items,
    lost_jobs,
    paging,
    reserving,
    run_jobs,
    run_records,
    settlement,
)
from outrider.kernel.transactions.claims import ClaimedJob, Claimer
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.deployment import ContractSnapshot, Deployment, RunStart
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.reserving import Draft, Reopened, RepeatWord
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.ports.store import Store
from outrider.system import SystemIds
from outrider.testing.claims import claim_any
from outrider.testing.launches import message, people

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE_SECONDS = 30
STALE_SECONDS = 300
MOST = 1_000
ONE, OTHER = WorkerId("worker-one"), WorkerId("worker-other")
ELSEWHERE = Scope(
    TenantId("00000000-0000-7000-8000-00000000000a"),
    WorkspaceId("00000000-0000-7000-8000-00000000000b"),
)
CONTRACT = Contract(
    "sms.realtime", "sms", "http://gateway.test", "realtime", MaxAttempts(5), frozenset()
)
SMS = message(Channel.SMS, CONTRACT.submission_target)
WORD = RepeatWord(CONTRACT.submission_target, "for_good")
"""The targets on which the suite repeats calls."""

ACCEPTED = Verdict(
    ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED, provider_message_id="m-1"
)
LATE = Verdict(
    ItemStatus.SENT, IntentStatus.EXHAUSTED, Progress.ANSWERED,
    exhausted_reason=ExhaustedReason.DEADLINE_EXCEEDED,
)  # fmt: skip
REJECTED = Verdict(
    ItemStatus.FAILED, IntentStatus.REJECTED, Progress.ANSWERED, "invalid_recipient", "no such one"
)
DOUBTED = Verdict(
    ItemStatus.QUEUED, IntentStatus.PENDING, Progress.SENT_NO_ANSWER, "timeout", in_doubt=True
)

WITHHELD = Verdict(ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, given_back=True)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def again(seconds: float, *, maybe_received: bool = False) -> Verdict:
    """Not this time: the next attempt is due then."""
    return Verdict(
        ItemStatus.QUEUED, IntentStatus.PENDING, Progress.ANSWERED, "provider_failure", "busy",
        next_attempt_at=at(seconds), maybe_received=maybe_received,
    )  # fmt: skip


class Workshop:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.ids = SystemIds()

    async def campaign(
        self,
        recipients: Iterable[Recipient] | int,
        *,
        messages: Sequence[Message] = (SMS,),
        batch_size: int = 100,
    ) -> CampaignId:
        given = people(recipients) if isinstance(recipients, int) else recipients
        campaign_id = CampaignId(self.ids.new())
        definition = CampaignDefinition("suite", (LAUNCH,), tuple(messages), batch_size)
        write_audience = audience.insert(campaign_id, list(given), lambda _: None, is_new=True)
        await self.store.write(
            campaigns.create_campaign(
                DEFAULT_SCOPE, campaign_id, definition, write_audience, self.ids, NOON, "suite"
            )
        )  # fmt: skip
        return campaign_id

    async def deploy(
        self,
        campaign_id: CampaignId,
        *,
        batch_size: int = 100,
        scheduled_for: datetime | None = None,
        max_attempts: int = 5,
    ) -> RunId:
        assets = await self.store.read(campaigns.assets_of(campaign_id))
        snapshot = ContractSnapshot(contract_sha256(CONTRACT), contract_text(CONTRACT))
        run_id = RunId(self.ids.new())
        beginning = RunStart(DEFAULT_SCOPE, campaign_id, LAUNCH, run_id, "start", "suite")
        plan = Deployment(
            beginning, assets, {asset.message.submission_target: snapshot for asset in assets}, {},
            CampaignDefinition("suite", (LAUNCH,), (), batch_size, scheduled_for), max_attempts,
        )  # fmt: skip
        await self.store.write(deployment.deploy(plan, self.ids, NOON))
        return run_id

    async def launch(
        self,
        recipients: Iterable[Recipient] | int,
        *,
        messages: Sequence[Message] = (SMS,),
        batch_size: int = 100,
        max_attempts: int = 5,
    ) -> RunId:
        campaign_id = await self.campaign(recipients, messages=messages, batch_size=batch_size)
        return await self.deploy(campaign_id, batch_size=batch_size, max_attempts=max_attempts)

    async def claim(
        self,
        worker: WorkerId = ONE,
        *,
        most: int = 1,
        now: datetime = NOON,
        lease_seconds: float = LEASE_SECONDS,
    ) -> list[ClaimedJob]:
        lease = now + timedelta(seconds=lease_seconds)
        claimer = Claimer(worker, lease, local_reference, self.ids)
        claimed = await claim_any(self.store, claimer, most, now)
        # The suite's campaigns make jobs; lanes are tested separately.
        return [claim for claim in claimed if isinstance(claim, ClaimedJob)]

    async def claim_one(self, worker: WorkerId = ONE, *, now: datetime = NOON) -> JobContext:
        (job,) = await self.claim(worker, now=now)
        return await self.context(job)

    async def context(self, job: ClaimedJob) -> JobContext:
        return JobContext(job, await self.store.read(campaigns.asset(job.asset_id)), CONTRACT)

    async def rescue(self, now: datetime) -> int:
        stale_before = now - timedelta(seconds=STALE_SECONDS)
        return await self.store.write(lost_jobs.rescue_expired(stale_before, OTHER, self.ids, now))

    async def take_over(self, *, now: datetime) -> JobContext:
        """The only locked job's lease expires, and the other worker takes it."""
        assert await self.rescue(now) == 1
        return await self.claim_one(OTHER, now=now)

    def draft(
        self,
        context: JobContext,
        number: int,
        *,
        status: ItemStatus = ItemStatus.QUEUED,
        reason: str | None = None,
        error: str | None = None,
    ) -> Draft:
        """The draft of `people()[number]`, with the key that its contract's formula gives."""
        recipient_id = RecipientId(f"lead-{number}")
        key = idempotency_key(
            context.job.run_id, recipient_id, context.asset.id, rfc3339(context.job.scheduled_for)
        )
        return Draft(
            OutboxId(self.ids.new()), recipient_id, f"+4477{number:08d}", None, "Hi", key, status,
            reason, error,
        )  # fmt: skip

    async def reserve(
        self, context: JobContext, drafts: Sequence[Draft], *, now: datetime = NOON
    ) -> set[OutboxId] | Hold:
        lease = now + timedelta(seconds=LEASE_SECONDS)
        return await self.store.write(reserving.reserve(context, drafts, lease, now))

    async def open(
        self, context: JobContext, *numbers: int, now: datetime = NOON
    ) -> list[OutboxId]:
        """Reserve these members; the ids of their rows, in that order."""
        drafts = [self.draft(context, number) for number in numbers]
        opened = await self.reserve(context, drafts, now=now)
        assert opened == {draft.id for draft in drafts}
        return [draft.id for draft in drafts]

    async def reopen(
        self, context: JobContext, *outbox_ids: OutboxId, now: datetime
    ) -> list[Reopened] | Hold:
        lease = now + timedelta(seconds=LEASE_SECONDS)
        return await self.store.write(
            reserving.reopen(context.job, outbox_ids, None, WORD, lease, now)
        )

    async def close(
        self,
        context: JobContext,
        *ends: tuple[OutboxId, Verdict],
        attempt: int = 1,
        now: datetime = NOON,
    ) -> None:
        fence = context.job.fence
        await self.store.write(
            closing.close(
                [ClosedAttempt(item, attempt, fence, now, verdict) for item, verdict in ends], now
            )
        )

    async def settle(
        self, context: JobContext, *, worker: WorkerId = ONE, now: datetime = NOON
    ) -> Settlement | LeaseLost:
        return await self.store.write(settlement.settle_job(context.job, worker, self.ids, now))

    async def item(self, outbox_id: OutboxId) -> Item:
        return await self.store.read(ledger_items.item(DEFAULT_SCOPE, outbox_id))

    async def items(self, run_id: RunId) -> dict[str, Item]:
        """The run's ledger rows by recipient."""
        rows = await self.store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))
        return {row.recipient_id: row for row in rows}

    async def outcomes(self, outbox_id: OutboxId) -> list[str | None]:
        """How each attempt of the item ended; None if its answer is not known."""
        rows = await self.store.read(ledger_items.attempts_of(outbox_id))
        calls = [(row.number, row.repeat) for row in rows]
        assert calls == sorted(set(calls))
        # Numbers without a gap: of attempts, and of each attempt's repeats.
        numbers = sorted({number for number, _ in calls})
        assert numbers == list(range(1, len(numbers) + 1))
        for each in numbers:
            repeats = [repeat for number, repeat in calls if number == each]
            assert repeats == list(range(len(repeats)))
        return [row.outcome for row in rows]

    async def run_status(self, run_id: RunId) -> str:
        return (await self.store.read(run_records.run(DEFAULT_SCOPE, run_id))).status

    async def accounting(self, run_id: RunId) -> Accounting:
        """The run's accounting, which must add up at any time."""
        _, counted = await self.store.read(accountings.run_with_accounting(DEFAULT_SCOPE, run_id))
        assert counted.holds, counted
        return counted

    async def jobs_by_status(self, run_id: RunId) -> dict[str, int]:
        rows = await self.store.read(run_jobs.job_counts(run_id))
        return {row.status: row.jobs for row in rows}

    async def audit(self, run_id: RunId) -> list[tuple[str, dict[str, object]]]:
        """Events of the audit log, in order, with their details."""
        rows = await self.store.read(
            audit_trail.audit_of_run(DEFAULT_SCOPE, run_id, paging.FIRST, MOST)
        )
        return [(entry.event, msgspec.json.decode(entry.detail)) for entry in rows]

    async def events(self, run_id: RunId) -> list[str]:
        return [event for event, _ in await self.audit(run_id)]
