"""How many members each batch of a campaign's audience has: what a launch divides into jobs."""

from collections.abc import Sequence
from typing import NamedTuple

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.rollouts import DrawnShare, shares
from outrider.kernel.transactions import campaigns, rollouts
from outrider.ports.store import Rows, Transaction, ask


class CountedAudience(NamedTuple):
    """How many members each batch of positions has. They are counted before a launch's transaction,
    because all others wait for that on SQLite; it counts again if recipients came since.

    In a rollout they are counted for each of its shares; such a row ends with the share's index.
    """

    batch_size: int
    batches: Rows
    shares: Sequence[DrawnShare] = ()

    @property
    def members(self) -> int:
        return sum(row[2] for row in self.batches)


def count_audience(
    scope: Scope, campaign_id: CampaignId, run_id: RunId
) -> Transaction[CountedAudience]:
    """For this run: who is in which share of a rollout depends on it."""
    stored = yield from campaigns.campaign(scope, campaign_id)
    return (yield from _count(campaign_id, run_id, campaigns.read_definition(stored.definition)))


def counted_now(
    campaign_id: CampaignId,
    run_id: RunId,
    definition: CampaignDefinition,
    counted: CountedAudience | None,
) -> Transaction[CountedAudience]:
    """No member of a campaign is ever removed: as long as there are as many, they are the same."""
    if (
        counted is not None
        and counted.batch_size == definition.batch_size
        and counted.members == (yield from _size(campaign_id))
    ):
        return counted
    return (yield from _count(campaign_id, run_id, definition))


def _count(
    campaign_id: CampaignId, run_id: RunId, definition: CampaignDefinition
) -> Transaction[CountedAudience]:
    batch_size = definition.batch_size
    if not definition.rollout:
        rows = yield from ask("count_batches", campaign_id=campaign_id, batch_size=batch_size)
        return CountedAudience(batch_size, rows)
    divided = shares(definition.rollout, (yield from _size(campaign_id)))
    found = yield from rollouts.drawn_shares(campaign_id, run_id, divided)
    rows = yield from rollouts.count_batches(campaign_id, run_id, batch_size, found)
    return CountedAudience(batch_size, rows, found)


def _size(campaign_id: CampaignId) -> Transaction[int]:
    size: int = (yield from ask("audience_size", campaign_id=campaign_id))[0][0]
    return size
