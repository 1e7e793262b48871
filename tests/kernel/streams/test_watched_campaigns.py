"""Several campaigns watched as one: each in its own order, and none crowds out another."""

import asyncio

from outrider.bootstrap import Outrider
from outrider.domain.phases import Action
from outrider.kernel.streams.watched_campaigns import watch_all
from tests.support.controls import control, events_of
from tests.support.noop_launches import campaign_of, noop_launch


async def test_events_of_two_campaigns_come_in_order_until_the_end_is_near(
    noop_outrider: Outrider,
) -> None:
    campaigns = [
        await campaign_of(noop_outrider, await noop_launch(noop_outrider)) for _ in range(2)
    ]
    for campaign_id in campaigns:
        await control(noop_outrider, campaign_id, Action.PAUSE)
    expected = {each: await events_of(noop_outrider, each) for each in campaigns}
    end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ended() -> None:
        await end

    ends = {asyncio.create_task(ended())}
    seen: dict[str, list[int]] = {each: [] for each in campaigns}
    hub = asyncio.create_task(noop_outrider.hub.run())
    async with watch_all(noop_outrider.hub, dict.fromkeys(campaigns, 0)) as watched:
        while sum(map(len, seen.values())) < sum(map(len, expected.values())):
            came = await watched.next(ends)
            assert came is not None
            assert len({campaign_id for campaign_id, _ in came}) == len(came)
            for campaign_id, event in came:
                seen[campaign_id].append(event.sequence)
        end.set_result(None)
        assert await watched.next(ends) is None
    hub.cancel()
    assert seen == {each: [event.sequence for event in events] for each, events in expected.items()}
