"""Launches at a gateway that takes everything at once: for roles that no provider matters to."""

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.states import Channel
from outrider.kernel.transactions import run_records
from outrider.testing.launches import launch, message, people

NOOP = "noop"


async def noop_launch(outrider: Outrider, count: int = 3, *, body: str = "Hi") -> RunId:
    """Deployed, but not worked on yet."""
    return await launch(outrider, [message(Channel.SMS, NOOP, body=body)], people(count))


async def campaign_of(outrider: Outrider, run_id: RunId) -> CampaignId:
    return (await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))).campaign_id
