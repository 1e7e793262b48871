"""The progress reporter: tells how far a phase is when that has changed, every so often."""

from dataclasses import replace

import msgspec

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import ReceiptEvent
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import phases, run_records
from outrider.kernel.transactions.phases import CampaignEvent
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import NOON
from tests.support.controls import events_of
from tests.support.noop_launches import campaign_of, noop_launch
from tests.support.receipt_scene import Scene
from tests.support.whole_runs import START, SteppedClock


async def test_a_stalled_phase_is_reported_once_until_it_continues(noop_outrider: Outrider) -> None:
    campaign_id = await campaign_of(noop_outrider, await noop_launch(noop_outrider))
    clock = SteppedClock(max(START, noop_outrider.clock.now()))
    limits = Limits()
    reporter = ProgressReporter(
        replace(noop_outrider.foundation, clock=clock, limits=limits), noop_outrider.hub
    )
    assert await reporter.report_once() == 1
    assert await reporter.report_once() == 0, "it is not time yet"
    clock.advance(limits.progress_seconds)
    assert await reporter.report_once() == 0, "nothing has changed"
    told = [
        event
        for event in await events_of(noop_outrider, campaign_id)
        if event.type == "campaign_progress"
    ]
    assert len(told) == 1


def delivery_in(event: CampaignEvent) -> dict[str, int]:
    delivery: dict[str, int] = msgspec.json.decode(event.payload)["accounting"]["delivery"]
    return delivery


async def test_progress_says_what_receipts_report_until_the_run_ends(store: Store) -> None:
    """Afterwards a campaign's stream has ended: receipts arrive for days, and are read where the
    run is shown, or as events of their messages."""
    scene = Scene(store, NOON)
    run_id, context, items = await scene.sent(3)
    campaign_id = (await store.read(run_records.run(DEFAULT_SCOPE, run_id))).campaign_id
    limits = Limits()
    reporter = ProgressReporter(scene.foundation, EventHub(store, limits))

    async def told() -> list[dict[str, int]]:
        events = await store.read(phases.events_after(campaign_id, 0, 100))
        return [
            {name: count for name, count in delivery_in(event).items() if count}
            for event in events
            if event.type == "campaign_progress"
        ]

    assert await reporter.report_once() == 1
    await scene.take(ReceiptEvent.DELIVERED, items[0])
    await scene.take(ReceiptEvent.BOUNCED, items[1], permanent=True)
    await scene.match()
    scene.clock.advance(limits.progress_seconds)
    assert await reporter.report_once() == 1
    assert await told() == [{"unknown": 3}, {"delivered": 1, "bounced": 1, "unknown": 1}]
    await scene.shop.settle(context, now=scene.clock.now())
    await scene.take(ReceiptEvent.DELIVERED, items[2])
    await scene.match()
    scene.clock.advance(limits.progress_seconds)
    assert await reporter.report_once() == 0
    assert len(await told()) == 2
