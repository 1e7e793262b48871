"""How many members each batch of a campaign's audience has: what a launch divides into jobs."""

from typing import NamedTuple

from outrider.domain.ids import CampaignId, Scope
from outrider.kernel.transactions import campaigns
from outrider.ports.store import Rows, Transaction, ask


class CountedAudience(NamedTuple):
    """How many members each batch of positions has. They are counted before a launch's transaction,
    because all others wait for that on SQLite; it counts again if recipients came since."""

    batch_size: int
    batches: Rows

    @property
    def members(self) -> int:
        return sum(count for _, _, count in self.batches)


def count_audience(scope: Scope, campaign_id: CampaignId) -> Transaction[CountedAudience]:
    stored = yield from campaigns.campaign(scope, campaign_id)
    batch_size = campaigns.read_definition(stored.definition).batch_size
    return CountedAudience(batch_size, (yield from _count_batches(campaign_id, batch_size)))


def batches(
    campaign_id: CampaignId, batch_size: int, counted: CountedAudience | None
) -> Transaction[Rows]:
    """No member of a campaign is ever removed: as long as there are as many, they are the same."""
    if counted is not None and counted.batch_size == batch_size:
        members = (yield from ask("audience_size", campaign_id=campaign_id))[0][0]
        if members == counted.members:
            return counted.batches
    return (yield from _count_batches(campaign_id, batch_size))


def _count_batches(campaign_id: CampaignId, batch_size: int) -> Transaction[Rows]:
    return (yield from ask("count_batches", campaign_id=campaign_id, batch_size=batch_size))
