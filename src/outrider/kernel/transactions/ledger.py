"""A job's part of the ledger: its members and rows, and what is given up or put in doubt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from outrider.domain.campaigns import Asset
from outrider.domain.ids import (
    OutboxId,
    RecipientId,
)
from outrider.domain.recipients import AddressKind, SkipReason
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.states import Channel
from outrider.domain.submission import (
    Contract,
)
from outrider.domain.variants import choice_salt
from outrider.kernel.transactions.claims import Claim, ClaimedJob
from outrider.kernel.transactions.jobs import Hold, hold
from outrider.ports.store import Transaction, Window, ask, ask_alone


class Member(NamedTuple):
    recipient_id: RecipientId
    address: str | None
    attributes: str
    invalid: int
    duplicate: int
    accepted_late: bool = False
    """In a retry: the provider accepted, after it began, what the previous run had settled."""


class LedgerRow(NamedTuple):
    """What an earlier claim of this job left behind for one item."""

    id: OutboxId
    recipient_id: RecipientId
    status: str
    is_open: bool
    next_attempt_at: datetime | None
    is_doubted: bool
    attempts: int
    attempt_contract_id: int | None
    maybe_received: bool
    created_at: datetime
    uncounted_calls: int
    repeats: int
    contract_id: int


@dataclass(frozen=True, slots=True)
class JobContext:
    """What all items of a job share."""

    job: ClaimedJob
    asset: Asset
    contract: Contract
    attempt_contract_id: int | None = None
    """Of first attempts that go to the fallback; None: their own contract."""


def members(context: JobContext, kind: AddressKind) -> Transaction[list[Member]]:
    job = context.job
    if job.retry_job_id is not None:
        rows = yield from ask(
            "load_remainder",
            campaign_id=job.campaign_id,
            kind=int(kind),
            previous_run_id=job.retry_of,
            previous_job_id=job.retry_job_id,
            run_id=job.run_id,
        )
        return [Member(*row) for row in rows]
    positions = {
        "campaign_id": job.campaign_id,
        "kind": int(kind),
        "first_position": job.first_position,
        "last_position": job.last_position,
        "message_id": context.asset.message.id,
    }
    if job.first_draw is None:
        rows = yield from ask_alone("load_members", **positions)
    else:
        rows = yield from ask_alone(
            "load_drawn_members",
            **positions,
            salt=job.run_id,
            first_draw=job.first_draw,
            last_draw=job.last_draw,
            choice_salt=choice_salt(job.run_id, context.asset.message.id),
            first_choice=job.first_choice,
            last_choice=job.last_choice,
        )
    if context.asset.message.channel is Channel.SOCIAL:
        # A post has no recipient: one member represents the audience in the ledger.
        rows = rows[: job.item_count]
    return list(map(Member._make, rows))


def job_rows(job: ClaimedJob) -> Transaction[list[LedgerRow]]:
    rows = yield from ask("load_job_rows", run_id=job.run_id, job_id=job.id)
    return [LedgerRow(*row) for row in rows]


def doubt_abandoned(
    job: ClaimedJob, now: datetime, *, broken_off: bool = False
) -> Transaction[int]:
    """Put in doubt what a former holder left open at a gateway that does not remember references;
    and what this holder left open, if its own calls were interrupted."""
    fence = job.fence + 1 if broken_off else job.fence
    rows = yield from ask("doubt_abandoned", run_id=job.run_id, job_id=job.id, fence=fence, now=now)
    return len(rows)


def bury(
    job: ClaimedJob,
    reason: str,
    lease_expires_at: datetime,
    now: datetime,
    *,
    broken_off: bool = False,
    begun: Sequence[OutboxId] | None = None,
) -> Transaction[bool]:
    """Give up what waits; False: the job is no longer ours. Of the interrupted attempts, those not
    in `begun`, if that is known, were never called."""
    if (yield from hold(job, lease_expires_at, now)) is Hold.LOST:
        return False
    if broken_off and begun is not None:
        yield from ask(
            "take_back_unbegun", {"id": begun}, run_id=job.run_id, job_id=job.id, fence=job.fence,
            now=now,
        )  # fmt: skip
    yield from doubt_abandoned(job, now, broken_off=broken_off)
    yield from ask("bury_waiting", run_id=job.run_id, job_id=job.id, reason=reason, now=now)
    return True


def skip_accepted_late(
    job: ClaimedJob, outbox_ids: Sequence[OutboxId], lease_expires_at: datetime, now: datetime
) -> Transaction[bool]:
    """End what waits in a retry and was accepted in the previous run; in doubt if an attempt of
    this run may have arrived too. False: the job is no longer ours."""
    if (yield from hold(job, lease_expires_at, now)) is Hold.LOST:
        return False
    window: Window = {
        "id": outbox_ids,
        "reason": [SkipReason.ACCEPTED_LATE] * len(outbox_ids),
        "error": [None] * len(outbox_ids),
    }
    yield from ask("skip_items", window, now=now)
    yield from doubt(job, outbox_ids, now)
    return True


def doubt(job: Claim, outbox_ids: Sequence[OutboxId], now: datetime) -> Transaction[None]:
    """Put items in doubt that may have arrived and cannot safely be called again."""
    yield from ask(
        "doubt_items",
        {"id": outbox_ids},
        fence=job.fence,
        repeats_max=CALL_REPEATS_MAX,
        now=now,
    )
