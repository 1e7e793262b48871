"""The campaign deployer: a campaign is written whole, or refused with every problem it has."""

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.testing.launches import message, observe, people
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.raw_sql import raw_sql


async def test_a_campaign_that_could_never_be_sent_is_refused_when_it_is_written(
    noop_outrider: Outrider,
) -> None:
    wrong = message(Channel.SMS, "nowhere"), message(Channel.EMAIL, NOOP, message_id="mail")
    definition = CampaignDefinition("test", (LAUNCH,), wrong, 10)
    with pytest.raises(InvalidInput) as refused:
        await noop_outrider.deployer.create(DEFAULT_SCOPE, definition, people(1), "test")
    paths = [each.path for each in refused.value.problems]
    assert paths == ["messages[0].submissionTarget", "messages[1].submissionTarget"]


async def test_two_recipients_with_one_id_leave_no_campaign_behind(
    noop_outrider: Outrider,
) -> None:
    definition = CampaignDefinition("test", (LAUNCH,), (message(Channel.SMS, NOOP),), 10)
    with pytest.raises(InvalidInput, match="same id"):
        await noop_outrider.deployer.create(
            DEFAULT_SCOPE, definition, [*people(2), *people(1)], "test"
        )
    async with raw_sql(noop_outrider.settings.database_url) as raw:
        [(campaigns,)] = await raw.run("SELECT count(*) FROM campaigns")
    assert campaigns == 0


async def test_a_launch_is_deployed_with_its_whole_audience(noop_outrider: Outrider) -> None:
    _, accounting = await observe(noop_outrider, await noop_launch(noop_outrider, 250))
    assert (accounting.intended, accounting.waiting) == (250, 250)
