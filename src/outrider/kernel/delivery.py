"""Delivery: one job through the named stages, window by window.

claim → load → screen → render → reserve → open → call → close → settle

The dispatcher claims; everything after is here. A window is as many items as may be in flight at
once, so a crash leaves few in doubt. Each stage is one statement a window, or none.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import structlog

from outrider.domain.campaigns import Asset
from outrider.domain.contracts import contract_from_document
from outrider.domain.errors import OutriderError
from outrider.domain.ids import OutboxId, WorkerId
from outrider.domain.jobs import Settlement
from outrider.domain.recipients import address_kind
from outrider.domain.retry import RetrySchedule
from outrider.domain.states import ItemStatus
from outrider.domain.submission import (
    AttemptError,
    AttemptFacts,
    CallResult,
    Contract,
    Progress,
    judge,
)
from outrider.kernel.drafter import Drafter
from outrider.kernel.reservations import OpenAttempt, Reserver
from outrider.kernel.result_closer import ResultCloser
from outrider.kernel.transactions import campaigns, inspection, ledger
from outrider.kernel.transactions.jobs import ClaimedJob
from outrider.kernel.transactions.ledger import ClosedAttempt, Draft, JobContext, LedgerRow, Member
from outrider.kernel.transactions.settlement import LeaseLost, settle_job
from outrider.ports.clock import Clock, IdSource
from outrider.ports.gateway import Gateway, GatewayDirectory
from outrider.ports.stages import Stage, StageObserver, observed
from outrider.ports.store import Store

log = structlog.get_logger()

Element = TypeVar("Element")
Key = TypeVar("Key")
Value = TypeVar("Value")

JOB_DEAD = "job_dead"
LEASE_ENDED = "lease_ended"
CACHED_MAX = 1_000
"""Assets and contracts a worker remembers; one a job's message, so far more than are in use."""


@dataclass(frozen=True, slots=True)
class Work:
    """A job's members by what is left to do for them."""

    fresh: list[Member]
    again: list[tuple[LedgerRow, Member]]


class Delivery:
    def __init__(
        self,
        store: Store,
        gateways: GatewayDirectory,
        drafter: Drafter,
        closer: ResultCloser,
        reserver: Reserver,
        clock: Clock,
        ids: IdSource,
        worker_id: WorkerId,
        retry: RetrySchedule,
        observer: StageObserver,
    ) -> None:
        self._store = store
        self._gateways = gateways
        self._drafter = drafter
        self._closer = closer
        self._reserver = reserver
        self._clock = clock
        self._ids = ids
        self._worker_id = worker_id
        self._retry = retry
        self._observer = observer
        # Both are immutable in the database, so what was read once stays true.
        self._assets: dict[str, Asset] = {}
        self._contracts: dict[int, Contract] = {}

    async def process(self, job: ClaimedJob) -> Settlement | LeaseLost:
        """Do all that is due of this job, then settle it."""
        context = JobContext(job, await self._asset(job), await self._contract(job))
        if job.is_exhausted:
            # Without its gateway, which may be the very thing that the job failed over.
            still_ours = await self._bury(context)
        else:
            still_ours = await self._deliver(context)
        if not still_ours:
            return LeaseLost()
        with observed(self._observer, Stage.SETTLE):
            return await self._store.write(
                settle_job(job, self._worker_id, self._ids, self._clock.now())
            )

    async def _deliver(self, context: JobContext) -> bool:
        contract = context.contract
        gateway = self._gateways.gateway(
            contract.submission_target, contract.gateway_type, contract.gateway_url
        )
        work = await self._load(context, dedupes=gateway.type.dedupes_by_reference)
        for again in _windows(work.again, gateway.window_items):
            drafts = await self._drafter.draft(context, [member for _, member in again])
            opened = await self._open_again(context, again, drafts)
            if opened is None:
                return False
            await self._call(context, gateway, opened)
        for fresh in _windows(work.fresh, gateway.window_items):
            drafts = await self._drafter.draft(context, fresh)
            opened = await self._reserve(context, drafts)
            if opened is None:
                return False
            await self._call(context, gateway, opened)
        return True

    async def _bury(self, context: JobContext) -> bool:
        """A job that killed too many workers: record its items as failed, touching nothing else."""
        work = await self._load(context, dedupes=False)
        drafts = self._drafter.give_up(context, work.fresh, JOB_DEAD)
        if drafts and await self._reserve(context, drafts) is None:
            return False
        await self._store.write(ledger.bury(context.job, self._clock.now()))
        return True

    # load

    async def _load(self, context: JobContext, *, dedupes: bool) -> Work:
        """Who is in the job's range, less what an earlier claim of it already dealt with."""
        with observed(self._observer, Stage.LOAD):
            return await self._left_to_do(context, dedupes=dedupes)

    async def _left_to_do(self, context: JobContext, *, dedupes: bool) -> Work:
        job = context.job
        kind = address_kind(context.asset.message.channel)
        members = await self._store.read(ledger.members(context, kind))
        if not job.was_held_before:
            return Work(members, [])
        rows = await self._store.read(ledger.job_rows(job))
        now = self._clock.now()
        if any(row.is_open for row in rows) and not dedupes:
            doubted = await self._store.write(ledger.doubt_abandoned(job, now))
            log.warning("items_in_doubt", job_id=job.id, items=doubted, why="worker_lost")
        known = {row.recipient_id: row for row in rows}
        fresh = [member for member in members if member.recipient_id not in known]
        again = []
        for member in members:
            row = known.get(member.recipient_id)
            if row is None or row.status != ItemStatus.QUEUED or row.is_doubted:
                continue
            if row.is_open:
                due = dedupes
            else:
                due = row.next_attempt_at is None or row.next_attempt_at <= now
            if due:
                again.append((row, member))
        return Work(fresh, again)

    # reserve and open

    async def _reserve(
        self, context: JobContext, drafts: Sequence[Draft]
    ) -> list[OpenAttempt] | None:
        """One statement reserves and opens the window; what it returns may be called."""
        self._observer.before(Stage.RESERVE)
        opened = await self._reserver.reserve(context, drafts)
        self._observer.after(Stage.OPEN)
        return opened

    async def _open_again(
        self,
        context: JobContext,
        again: Sequence[tuple[LedgerRow, Member]],
        drafts: Sequence[Draft],
    ) -> list[OpenAttempt] | None:
        unrendered = [draft for draft in drafts if draft.status is not ItemStatus.QUEUED]
        if unrendered:
            # The same asset and attributes rendered before; now they do not: try the job later.
            raise OutriderError(f"{len(unrendered)} items no longer render: {unrendered[0].error}")
        by_row: dict[OutboxId, Draft] = {
            row.id: draft for (row, _), draft in zip(again, drafts, strict=True)
        }
        self._observer.before(Stage.OPEN)
        opened = await self._reserver.reopen(context, by_row)
        self._observer.after(Stage.OPEN)
        return opened

    # call and close

    async def _call(
        self, context: JobContext, gateway: Gateway, attempts: Sequence[OpenAttempt]
    ) -> None:
        """Call the provider for each open attempt, and wait until every answer is durable."""
        queue = iter(attempts)

        async def caller() -> None:
            for attempt in queue:
                self._observer.before(Stage.CALL)
                result = await self._call_once(gateway, attempt)
                self._observer.after(Stage.CALL)
                self._close(context.contract, gateway, attempt, result)

        callers = min(gateway.concurrency, len(attempts))
        if callers == 1:
            await caller()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(callers):
                    group.create_task(caller())
        if attempts:
            await self._closer.barrier()

    async def _call_once(self, gateway: Gateway, attempt: OpenAttempt) -> CallResult:
        late = self._clock.now() >= attempt.identity.call_by
        if late and not gateway.type.dedupes_by_reference:
            # This process was frozen so long that the item may have been doubted meanwhile and, on
            # evidence that it never arrived, called again. It must not arrive now.
            return AttemptError(Progress.NOT_SENT, LEASE_ENDED)
        try:
            return await gateway.call(attempt)
        except Exception as bug:
            # A gateway must not raise. Nobody knows how far it got, and that is what is recorded.
            log.exception("gateway_crashed", gateway=gateway.type.name, outbox_id=attempt.outbox_id)
            return AttemptError(Progress.SENT_NO_ANSWER, "gateway_crashed", type(bug).__name__)

    def _close(
        self, contract: Contract, gateway: Gateway, attempt: OpenAttempt, result: CallResult
    ) -> None:
        closed_at = self._clock.now()
        who = attempt.identity
        facts = AttemptFacts(who.number, who.submitted_at, closed_at, who.maybe_received)
        verdict = judge(contract, gateway.type, facts, result, self._delay_seconds)
        self._closer.put(
            ClosedAttempt(attempt.outbox_id, who.number, who.fence, closed_at, verdict)
        )

    def _delay_seconds(self, attempts: int, retry_after_seconds: float | None) -> float:
        return self._retry.delay_seconds(
            attempts, retry_after_seconds=retry_after_seconds, jitter=self._ids.jitter()
        )

    # what all of a job's items share

    async def _asset(self, job: ClaimedJob) -> Asset:
        if job.asset_id not in self._assets:
            _make_room(self._assets)
            self._assets[job.asset_id] = await self._store.read(campaigns.asset(job.asset_id))
        return self._assets[job.asset_id]

    async def _contract(self, job: ClaimedJob) -> Contract:
        if job.contract_id not in self._contracts:
            _make_room(self._contracts)
            text = await self._store.read(inspection.contract_document(job.contract_id))
            self._contracts[job.contract_id] = contract_from_document(msgspec.json.decode(text))
        return self._contracts[job.contract_id]


def _windows(elements: Sequence[Element], size: int) -> Iterator[Sequence[Element]]:
    for start in range(0, len(elements), size):
        yield elements[start : start + size]


def _make_room(cache: dict[Key, Value]) -> None:
    if len(cache) >= CACHED_MAX:
        cache.clear()
