"""Checking doubts: which are due, what is known about them, and when to check again."""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.evidence import DoubtFacts, Finding, NextStep, Settles
from outrider.domain.ids import IdempotencyKey, OutboxId, Scope, TenantId, WorkspaceId
from outrider.domain.retry import CALL_REPEATS_MAX, REPEATS_IN_ALL_MAX
from outrider.domain.submission import Contract
from outrider.domain.texts import storable
from outrider.kernel.transactions.doubts import DoubtHold
from outrider.ports.gateway import RECORDS
from outrider.ports.store import Transaction, Window, ask, ask_alone

WORN_OUT = "worker_lost_repeatedly"
"""Its call was abandoned as often as one attempt may be: now only the settler repeats it, seldom,
and not for ever."""
SUPPRESSED = "suppressed"
"""Its recipient has opted out since: a repeat might be the first message to arrive."""


class ClaimedDoubt(NamedTuple):
    """A doubt that one settler checks, until its lease ends."""

    id: OutboxId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    run_id: str | None
    job_id: str | None
    campaign_id: str | None
    origin: str
    channel: str
    recipient_id: str
    address: str | None
    asset_id: str | None
    payload: str | None
    topic: str | None
    transactional: bool
    called_contract_id: int
    """Of the target that was called last, which may be a fallback."""
    contract_id: int
    reference: IdempotencyKey
    attempts: int
    attempts_before: int
    repeats: int
    uncounted_calls: int
    progress: str | None
    reason: str | None
    opened_at: datetime | None
    doubted_at: datetime
    submitted_at: datetime
    created_at: datetime
    is_exhausted: bool
    is_cancelled: bool
    has_ended: bool
    """Its job has ended: no more calls are made for it."""
    fence: int
    checks: int
    checked_at: datetime | None
    settles: str | None
    since: datetime

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)

    @property
    def held(self) -> DoubtHold:
        return DoubtHold(self.doubted_at, self.fence)

    @property
    def was_abandoned(self) -> bool:
        """Its worker was lost before it could say how the call ended."""
        return self.opened_at is not None and self.progress is None

    def facts(self, *, is_same_request: bool) -> DoubtFacts:
        lets_repeat = self.opened_at is not None or not self.is_exhausted
        may_repeat = lets_repeat and not (self.is_cancelled or self.has_ended)
        wear = self.repeats - CALL_REPEATS_MAX if self.reason == WORN_OUT else None
        return DoubtFacts(
            self.created_at,
            self.doubted_at,
            self.checked_at,
            # Each repeat ends a doubt, and starts another if it gets no answer either.
            max(self.checks, self.repeats),
            may_repeat and not self.is_spent and self.reason != SUPPRESSED,
            is_same_request,
            wear,
        )

    @property
    def is_spent(self) -> bool:
        """It has cost more workers than chance explains."""
        return self.reason == WORN_OUT and self.repeats >= REPEATS_IN_ALL_MAX


class Looked(NamedTuple):
    """What a look at a doubt came to, if it was not settled by it."""

    doubt: ClaimedDoubt
    """With the checks that were made by now."""
    step: NextStep
    finding: Finding | None = None
    detail: str | None = None


def is_any_due(now: datetime) -> Transaction[bool]:
    rows = yield from ask_alone("is_doubt_due", now=now)
    return bool(rows)


def claim(most: int, lease_expires_at: datetime, now: datetime) -> Transaction[list[ClaimedDoubt]]:
    """The oldest due ones, for this resolver alone until the lease ends."""
    rows = yield from ask("claim_doubts", most=most, lease_expires_at=lease_expires_at, now=now)
    if not rows:
        return []
    return (yield from doubts_of([row[0] for row in rows]))


def doubts_of(outbox_ids: Sequence[OutboxId]) -> Transaction[list[ClaimedDoubt]]:
    """Those of the items that are in doubt, whoever holds them."""
    if not outbox_ids:
        return []
    rows = yield from ask("claimed_doubts", {"id": outbox_ids})
    return [ClaimedDoubt(*row) for row in rows]


def keep(held: Sequence[ClaimedDoubt], lease_expires_at: datetime) -> Transaction[None]:
    """Extend the lease of those that this resolver still holds."""
    if held:
        window: Window = {
            "id": [each.id for each in held],
            "fence": [each.fence for each in held],
        }
        yield from ask("keep_doubts", window, lease_expires_at=lease_expires_at)


def put_back(looked: Sequence[Looked]) -> Transaction[None]:
    """Say how each settles next. Of those that another resolver holds by now, nothing is said."""
    if not looked:
        return
    doubts = [each.doubt for each in looked]
    window: Window = {
        "id": [each.id for each in doubts],
        "doubted_at": [each.doubted_at for each in doubts],
        "fence": [each.fence for each in doubts],
        "settles": [each.step.settles.value for each in looked],
        "since": [_since(each) for each in looked],
        "next_check_at": [each.step.next_check_at for each in looked],
        "checks": [each.checks for each in doubts],
        "checked_at": [each.checked_at for each in doubts],
        "finding": [each.finding for each in looked],
        "detail": [storable(each.detail) for each in looked],
    }
    yield from ask("put_back_doubts", window)


def _since(looked: Looked) -> datetime:
    """Since when it waits for this evidence, and not for another."""
    known = looked.doubt.settles
    if known is not None and Settles(known) is looked.step.settles:
        return looked.doubt.since
    return looked.step.since


def look_now(outbox_ids: Sequence[OutboxId], now: datetime) -> Transaction[None]:
    yield from ask("look_now", {"id": outbox_ids}, now=now)


def attributes_of(outbox_ids: Sequence[OutboxId]) -> Transaction[dict[OutboxId, str]]:
    """The recipients' attributes, which a campaign's message was rendered with."""
    rows = yield from ask("members_of_doubts", {"id": outbox_ids})
    return {OutboxId(row[0]): row[1] for row in rows}


def known_messages(message_ids: Sequence[str], called: Contract) -> Transaction[set[str]]:
    """Those that the ledger knows to be some item's, called at the same provider."""
    if not message_ids:
        return set()
    rows = yield from ask(
        "known_messages",
        {"id": message_ids},
        submission_target=called.submission_target,
        gateway_url=called.gateway_url,
    )
    return {row[0] for row in rows}


class RivalState(StrEnum):
    DOUBTED = "doubted"
    CALLED = "called"
    """Its call is under way, for all that is known."""
    SETTLED = "settled"
    """It was sent, by evidence that does not say which message it is."""


class Rival(NamedTuple):
    """An item whose message may be taken for another's."""

    id: OutboxId
    address: str
    state: RivalState


def rivals(
    addresses: Collection[str], channel: str, submission_target: str, scope: Scope, *,
    is_shared: bool, since: datetime,
) -> Transaction[list[Rival]]:  # fmt: skip
    """Items to these addresses that are in doubt or being called, or were in doubt since; without
    addresses, those of the target."""
    rows = yield from ask(
        "rivals", {"address": sorted(addresses)}, channel=channel,
        submission_target=submission_target, workspace_id=scope.workspace_id, is_shared=is_shared,
        is_unaddressed="" in addresses, since=since,
    )  # fmt: skip
    return [Rival(row[0], row[1], RivalState(row[2])) for row in rows]


class Recipe(NamedTuple):
    """How a target's requests are made: the same recipe makes the same bytes of the same item."""

    submission_target: str
    gateway_url: str
    workspace: str
    recipe: str

    @property
    def is_of_records(self) -> bool:
        """Not how requests are made, but whose records are asked about them."""
        return self.recipe.startswith(RECORDS)


class UsedRecipe(NamedTuple):
    recipe: Recipe
    first_used_at: datetime
    last_used_at: datetime


def note_recipes(recipes: Sequence[Recipe], now: datetime) -> Transaction[None]:
    if recipes:
        columns = zip(*recipes, strict=True)
        window: Window = dict(zip(Recipe._fields, map(list, columns), strict=True))
        yield from ask("note_recipe", window, now=now)


def recipes_in_use() -> Transaction[list[UsedRecipe]]:
    rows = yield from ask_alone("recipes_in_use")
    return [UsedRecipe(Recipe(*row[:4]), *row[4:]) for row in rows]
