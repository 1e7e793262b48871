"""How many members each batch of a campaign's audience has: what a launch divides into jobs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.rollouts import DrawnShare, shares
from outrider.domain.variants import AudiencePart, choice_salt, parts
from outrider.kernel.transactions import campaigns, rollouts
from outrider.ports.store import Rows, Transaction, ask


class CountedParts(NamedTuple):
    """A message with variants: whom its jobs are for, and of how many of each batch. A row is a
    batch, the part's index, and the count."""

    parts: Sequence[AudiencePart]
    rows: Rows


class CountedAudience(NamedTuple):
    """How many members each batch of positions has. They are counted before a launch's transaction,
    because all others wait for that on SQLite; it counts again if recipients came since.

    In a rollout they are counted for each of its shares; such a row ends with the share's index.
    """

    batch_size: int
    batches: Rows
    shares: Sequence[DrawnShare] = ()
    varied: Mapping[str, CountedParts] = {}
    """By message."""

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
        varied = yield from _varied(campaign_id, run_id, definition, ())
        return CountedAudience(batch_size, rows, varied=varied)
    divided = shares(definition.rollout, (yield from _size(campaign_id)))
    found = yield from rollouts.drawn_shares(campaign_id, run_id, divided)
    rows = yield from rollouts.count_batches(campaign_id, run_id, batch_size, found)
    varied = yield from _varied(campaign_id, run_id, definition, found)
    return CountedAudience(batch_size, rows, found, varied)


def _varied(
    campaign_id: CampaignId,
    run_id: RunId,
    definition: CampaignDefinition,
    found: Sequence[DrawnShare],
) -> Transaction[dict[str, CountedParts]]:
    varied = {}
    for message in definition.messages:
        if message.variants:
            of_message = parts(message.variants, found, definition.awaiting_step)
            rows = yield from _chosen_batches(
                campaign_id, run_id, message.id, definition.batch_size, of_message
            )
            varied[message.id] = CountedParts(of_message, rows)
    return varied


def _size(campaign_id: CampaignId) -> Transaction[int]:
    size: int = (yield from ask("audience_size", campaign_id=campaign_id))[0][0]
    return size


def _chosen_batches(
    campaign_id: CampaignId,
    run_id: RunId,
    message_id: str,
    batch_size: int,
    parts: Sequence[AudiencePart],
) -> Transaction[Rows]:
    """How many members of each batch are in which of the parts, counted from 0."""
    choices = [part.choice for part in parts]
    return (
        yield from ask(
            "count_chosen_batches",
            {
                "part": range(len(parts)),
                "first_draw": [part.share.first_draw for part in parts],
                "last_draw": [part.share.last_draw for part in parts],
                "first_choice": [each.first_choice if each else None for each in choices],
                "last_choice": [each.last_choice if each else None for each in choices],
            },
            campaign_id=campaign_id,
            salt=run_id,
            choice_salt=choice_salt(run_id, message_id),
            message_id=message_id,
            batch_size=batch_size,
        )
    )
