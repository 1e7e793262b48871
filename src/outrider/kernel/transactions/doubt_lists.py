"""Lists of items in doubt: which there are, what each waits for, and how many of which kind."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from outrider.domain.evidence import Settles
from outrider.domain.ids import CampaignId, IdempotencyKey, OutboxId, RunId, Scope
from outrider.kernel.transactions.campaigns import campaign
from outrider.kernel.transactions.run_records import run
from outrider.ports.store import Transaction, ask


@dataclass(frozen=True, slots=True)
class DoubtFilter:
    """Which of a workspace's doubts; those of one run or campaign, called at one target, with one
    reason, that wait for one kind of evidence."""

    run_id: str | None = None
    campaign_id: str | None = None
    submission_target: str | None = None
    reason: str | None = None
    settles: Settles | None = None

    def as_window(self) -> dict[str, str | None]:
        return {
            "run_id": self.run_id,
            "campaign_id": self.campaign_id,
            "submission_target": self.submission_target,
            "reason": self.reason,
            "settles": self.settles.value if self.settles else None,
        }


ALL_DOUBTS = DoubtFilter()


class ListedDoubt(NamedTuple):
    id: OutboxId
    run_id: str | None
    campaign_id: str | None
    recipient_id: str
    address: str | None
    channel: str
    provider: str
    submission_target: str
    """The target it was called at: its own, or its fallback's."""
    reference: IdempotencyKey
    attempts: int
    repeats: int
    progress: str | None
    reason: str | None
    error: str | None
    opened_at: datetime | None
    doubted_at: datetime
    submitted_at: datetime
    provider_message_id: str | None
    is_exhausted: bool
    settles: str | None
    """None until the resolver has looked at it."""
    since: datetime | None
    next_check_at: datetime | None
    finding: str | None
    """What the last look at it found out, in words."""


def page(scope: Scope, of: DoubtFilter, after: str, most: int) -> Transaction[list[ListedDoubt]]:
    """NotFound if the run or campaign does not exist, or belongs to another workspace."""
    yield from _require_found(scope, of)
    rows = yield from ask(
        "doubts_listed", **scope._asdict(), **of.as_window(), after=after, most=most
    )
    return [ListedDoubt(*row) for row in rows]


@dataclass(slots=True)
class DoubtCounts:
    """How many doubts there are: of each kind of evidence, target, reason and campaign."""

    settles: Counter[Settles] = field(default_factory=Counter)
    unchecked: int = 0
    """The settler has not checked them yet."""
    submission_targets: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    campaigns: Counter[CampaignId] = field(default_factory=Counter)
    people_since: datetime | None = None
    """Since when the first of them waits for a person."""

    @property
    def total(self) -> int:
        return self.settles.total() + self.unchecked

    @property
    def left_to_people(self) -> int:
        return self.settles[Settles.PERSON]

    @property
    def settling_by_themselves(self) -> int:
        return self.total - self.left_to_people


def counts(scope: Scope, of: DoubtFilter, most: int) -> Transaction[DoubtCounts]:
    """Counts at most `most` of them."""
    yield from _require_found(scope, of)
    rows = yield from ask("doubts_counted", **scope._asdict(), **of.as_window(), most=most)
    found = DoubtCounts()
    for settles, target, reason, campaign_id, number, since in rows:
        if settles is None:
            found.unchecked += number
        else:
            found.settles[Settles(settles)] += number
        if settles == Settles.PERSON:
            found.people_since = min(since, found.people_since or since)
        found.submission_targets[target] += number
        if reason is not None:
            found.reasons[reason] += number
        if campaign_id is not None:
            found.campaigns[campaign_id] += number
    return found


def named_counts(
    scope: Scope, of: DoubtFilter, most: int
) -> Transaction[tuple[DoubtCounts, dict[CampaignId, str]]]:
    """The counts, and the names of their campaigns."""
    found = yield from counts(scope, of, most)
    if not found.campaigns:
        return found, {}
    rows = yield from ask("campaign_names", {"id": sorted(found.campaigns)}, **scope._asdict())
    return found, {row[0]: row[1] for row in rows}


def _require_found(scope: Scope, of: DoubtFilter) -> Transaction[None]:
    if of.run_id is not None:
        yield from run(scope, RunId(of.run_id))
    if of.campaign_id is not None:
        yield from campaign(scope, CampaignId(of.campaign_id))
