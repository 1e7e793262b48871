"""The reserve stage: the only place where a `Reservation` is created, from committed rows.

Drafts go in; what comes out may be given to a gateway, because the ledger already records it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from outrider.domain.errors import StoreRefused
from outrider.domain.ids import Fence, IdempotencyKey, JobId, OutboxId
from outrider.domain.mailbox import MailHead
from outrider.domain.message_content import Enclosure
from outrider.domain.retry import Patience
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.submission import Contract
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.warm_up_keeper import WarmUpKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import reserving
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext
from outrider.kernel.transactions.reserving import (
    Capped,
    CappedWindow,
    Draft,
    Reopened,
    Warming,
    WarmingWindow,
)
from outrider.kernel.transactions.screening import Deferral, HeldBack
from outrider.ports.gateway import Reservation

Drafts = Mapping[OutboxId, tuple[Draft, Contract]]


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """Which attempt of the item it is, and what calling and closing it require.

    `call_by` is the end of the lease that opening it took: until then no other worker can have had
    reason to doubt the attempt, let alone to repeat it. Heartbeats of its job extend it.
    """

    job_id: JobId
    number: int
    contract: Contract
    fence: Fence
    submitted_at: datetime
    maybe_received: bool
    call_by: datetime
    patience: Patience | None = None
    uncounted_calls: int = 0
    repeats: int = 0
    """How many calls of this attempt were abandoned before this one."""
    attempts_before: int = 0
    """How many attempts its contract does not count, because its step was restarted since."""
    deadline: datetime | None = field(init=False)
    """Computed once for a whole window of first attempts, and needed twice in every call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "deadline", self.contract.deadline(self.submitted_at))


def _not_called_yet(attempt: "OpenAttempt") -> bool:
    raise AssertionError(f"no caller was assigned to {attempt.outbox_id}")


class OpenAttempt(Reservation):
    """A committed, open attempt of ours. Only `Reserver` creates one, which a test enforces."""

    __slots__ = ("_draft", "_outbox_id", "has_begun", "identity", "may_begin")

    def __init__(self, outbox_id: OutboxId, draft: Draft, identity: AttemptIdentity) -> None:
        self._outbox_id = outbox_id
        self._draft = draft
        self.identity = identity
        self.has_begun = False
        self.may_begin: Callable[[OpenAttempt], bool] = _not_called_yet
        """Set by the gateway caller; until then the attempt may not be called."""

    def begin(self) -> bool:
        if not self.may_begin(self):
            return False
        self.has_begun = True
        return True

    @property
    def outbox_id(self) -> OutboxId:
        return self._outbox_id

    @property
    def reference(self) -> IdempotencyKey:
        return self._draft.key

    @property
    def address(self) -> str:
        return self._draft.address or ""

    @property
    def subject(self) -> str | None:
        return self._draft.subject

    @property
    def body(self) -> str:
        return self._draft.body

    @property
    def payload(self) -> Mapping[str, Any] | None:
        return self._draft.payload

    @property
    def payload_text(self) -> str | None:
        return self._draft.payload_text

    @property
    def is_html(self) -> bool:
        return self._draft.html

    @property
    def enclosures(self) -> Sequence[Enclosure]:
        return self._draft.enclosures

    @property
    def head(self) -> MailHead:
        return self._draft.head

    @property
    def unsubscribe_url(self) -> str | None:
        return self._draft.unsubscribe_url


class Reserver:
    def __init__(
        self,
        foundation: Foundation,
        permits: CallPermits | None = None,
        warm_ups: WarmUpKeeper | None = None,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._lease = timedelta(seconds=foundation.limits.lease_seconds)
        self._permits = permits
        self._warm_ups = warm_ups or WarmUpKeeper({})

    async def reserve(
        self,
        context: JobContext,
        drafts: Sequence[Draft],
        capped: Capped | None = None,
        warming: Warming | None = None,
    ) -> list[OpenAttempt] | Hold:
        """Reserve and open new items. A `Hold` says why nothing was written."""
        now, job, asked_at = self._clock.now(), context.job, self._clock.monotonic()
        is_fresh = capped is None and warming is None and bool(drafts)
        if is_fresh and not job.was_held_before and job.lease_expires_at - now > self._lease / 2:
            try:
                fresh = await self._store.write(reserving.reserve_fresh(context, drafts, now))
            except StoreRefused:
                # Another item holds one of the keys. `reserve` finds out which.
                fresh = None
            if fresh is not None:
                self._confirm(job, job.lease_expires_at, asked_at)
                return _first_attempts(context, drafts, fresh, now, job.lease_expires_at)
        lease_end = now + self._lease
        opened = await self._store.write(
            reserving.reserve(context, drafts, lease_end, now, capped, warming)
        )
        if isinstance(opened, Hold):
            return opened
        self._confirm(job, lease_end, asked_at)
        return _first_attempts(context, drafts, opened, now, lease_end)

    def _confirm(self, job: Claim, lease_end: datetime, asked_at: float) -> None:
        """Opening an attempt confirms that the job is ours and active."""
        if self._permits is not None:
            self._permits.confirm(job.id, lease_end, asked_at)

    async def open_due(
        self, lane: ClaimedLane, route: Route, drafts: Drafts, capped: CappedWindow | None = None
    ) -> list[OpenAttempt] | Hold:
        """Open due items that are not open yet; a single statement while most of the lane's lease
        is left, and neither a frequency cap nor a warm-up plan has to be looked at."""
        now = self._clock.now()
        is_counted = capped is not None or self._warm_ups.is_warming(route.submission_target)
        if is_counted or lane.lease_expires_at - now < self._lease / 2:
            return await self.reopen(lane, route, drafts, abandoned=False, capped=capped)
        rows = await self._store.write(
            reserving.open_due(lane, list(drafts), route.contract_id, route.word, now)
        )
        opened = _attempts(lane, rows, drafts, lane.lease_expires_at)
        found = {row.id for row in rows}
        left = {each: drafts[each] for each in drafts if each not in found}
        if not left:
            return opened
        others = await self.reopen(lane, route, left, abandoned=False)
        if isinstance(others, Hold):
            # What is open already is called; the next step finds out about the rest.
            return opened or others
        return opened + others

    async def reopen(
        self,
        job: Claim,
        route: Route,
        drafts: Drafts,
        *,
        abandoned: bool,
        capped: CappedWindow | None = None,
    ) -> list[OpenAttempt] | Hold:
        """Open the next attempt of items that already have a row, with the same reference as
        before. Abandoned: a former holder left some of them open, and those repeat the same
        attempt."""
        now, asked_at = self._clock.now(), self._clock.monotonic()
        lease_end = now + self._lease
        reopened = await self._store.write(
            reserving.reopen(
                job,
                list(drafts),
                route.contract_id,
                route.word,
                lease_end,
                now,
                abandoned=abandoned,
                capped=capped,
                warming=await self._warming(route, drafts, now),
            )
        )
        if isinstance(reopened, Hold):
            return reopened
        self._confirm(job, lease_end, asked_at)
        return _attempts(job, reopened, drafts, lease_end)

    async def _warming(self, route: Route, drafts: Drafts, now: datetime) -> WarmingWindow | None:
        target = route.submission_target
        addresses = {each: draft.address for each, (draft, _) in drafts.items()}
        plans_of = await self._warm_ups.plans(target, set(addresses.values()))
        if plans_of is None:
            return None
        plans = {each: plans_of(address) for each, address in addresses.items()}
        next_day = next(each for found in plans.values() for each in found).plan.next_day(now)

        def held_back(beyond: Sequence[OutboxId]) -> HeldBack:
            deferred = []
            for place, each in enumerate(beyond):
                # Items deferred together go in the order in which they would have gone.
                until = next_day + timedelta(microseconds=place)
                deadline = drafts[each][1].deadline(until)
                deferred.append(Deferral(each, until, WaitsFor.WARM_UP.value, deadline))
            return HeldBack(deferred, [], [])

        return WarmingWindow(plans, held_back)


def _first_attempts(
    context: JobContext,
    drafts: Sequence[Draft],
    opened: Collection[OutboxId],
    now: datetime,
    call_by: datetime,
) -> list[OpenAttempt]:
    first = AttemptIdentity(
        context.job.id,
        1,
        context.contract,
        context.job.fence,
        now,
        maybe_received=False,
        call_by=call_by,
    )
    return [OpenAttempt(draft.id, draft, first) for draft in drafts if draft.id in opened]


def _attempts(
    job: Claim, rows: Sequence[Reopened], drafts: Drafts, call_by: datetime
) -> list[OpenAttempt]:
    attempts = []
    for row in rows:
        draft, contract = drafts[row.id]
        identity = AttemptIdentity(
            job.id,
            row.attempt,
            contract,
            job.fence,
            row.submitted_at,
            maybe_received=bool(row.maybe_received),
            call_by=call_by,
            patience=draft.patience,
            uncounted_calls=row.uncounted_calls,
            repeats=row.repeats,
            attempts_before=row.attempts_before,
        )
        attempts.append(OpenAttempt(row.id, draft, identity))
    return attempts
