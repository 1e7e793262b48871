"""Rates of what bounced or was complained of: alerts per target, and campaigns that pause."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.documents.campaign import parse_campaign
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.phases import Action
from outrider.domain.receipts import ReceiptEvent
from outrider.kernel.receipts.sent_tallier import SentTallier
from outrider.kernel.transactions import run_records
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.kernel.transactions.campaigns import definition_document, read_definition
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.targets import DoorKey
from outrider.kernel.work.watcher import Watcher
from outrider.ports.store import Store
from outrider.testing.launches import target
from outrider.testing.store_suite.workshop import ACCEPTED, NOON
from tests.support.raw_sql import raw_sql
from tests.support.receipt_scene import TARGET, Scene
from tests.support.whole_runs import opened


async def open_alerts(scene: Scene) -> set[tuple[str, str]]:
    found = await scene.store.read(alerts_page(DEFAULT_SCOPE, LAST, 100, only_standing=True))
    return {(each.code, each.subject) for each in found if "RATE" in each.code}


async def tallied(scene: Scene, sent: int) -> None:
    tallier = SentTallier(scene.foundation, scene.limits)
    for _ in range(sent):
        tallier.note(DoorKey(TARGET, "http://gateway.test", DEFAULT_SCOPE.workspace_id))
    await tallier.flush()
    await tallier.flush()


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (ReceiptEvent.BOUNCED, "BOUNCE_RATE_HIGH"),
        (ReceiptEvent.COMPLAINED, "COMPLAINT_RATE_HIGH"),
    ],
)
async def test_a_high_rate_is_an_alert_that_ends_by_itself(
    store: Store, event: ReceiptEvent, code: str
) -> None:
    scene = Scene(store, NOON)
    watcher = Watcher(scene.foundation, {})
    _, _, items = await scene.sent(10)
    await tallied(scene, 99)
    for item in items:
        await scene.take(event, item)
    await scene.match()
    await watcher.look_once()
    assert await open_alerts(scene) == set(), "99 messages are no sample"
    await tallied(scene, 1)
    await watcher.look_once()
    assert await open_alerts(scene) == {(code, TARGET)}
    scene.clock.advance(timedelta(hours=25).total_seconds())
    await watcher.look_once()
    assert await open_alerts(scene) == set()


async def test_a_rate_below_the_threshold_is_no_alert(store: Store) -> None:
    scene = Scene(store, NOON)
    watcher = Watcher(scene.foundation, {})
    _, _, items = await scene.sent(10)
    await tallied(scene, 200)
    for item in items:
        await scene.take(ReceiptEvent.BOUNCED, item)
    await scene.match()
    await watcher.look_once()
    assert await open_alerts(scene) == set()


async def test_a_bounce_that_was_delivered_after_all_counts_no_more(store: Store) -> None:
    scene = Scene(store, NOON)
    watcher = Watcher(scene.foundation, {})
    _, _, items = await scene.sent(10)
    await tallied(scene, 100)
    for item in items:
        await scene.take(ReceiptEvent.BOUNCED, item)
    await scene.match()
    for item in items[:6]:
        await scene.take(ReceiptEvent.DELIVERED, item)
    await scene.match()
    await watcher.look_once()
    assert await open_alerts(scene) == set()


def document(pause_on: str) -> bytes:
    return (
        '{"name": "n", "messages": [{"id": "m", "channel": "sms", "submissionTarget": "t",'
        f' "body": "Hi"}}], "pauseOn": {pause_on}}}'
    ).encode()


def test_a_campaign_may_say_when_it_is_to_be_paused() -> None:
    parsed = parse_campaign(
        document('{"bounceRate": 0.05, "complaintRate": 0.003}'),
        check_template=lambda *_: None,
        source_root=None,
    )
    pause_on = parsed.definition.pause_on
    assert pause_on is not None
    assert (pause_on.bounce_rate, pause_on.complaint_rate) == (0.05, 0.003)
    assert read_definition(definition_document(parsed.definition)).pause_on == pause_on


@pytest.mark.parametrize("wrong", ['{"bounceRate": 5}', '{"rate": 0.1}', '{"bounceRate": 0}'])
def test_a_rate_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput):
        parse_campaign(document(wrong), check_template=lambda *_: None, source_root=None)


async def test_a_campaign_that_bounces_too_much_is_paused_once_with_the_reason(
    store: Store, database: str, tmp_path: Path
) -> None:
    noop = target(TARGET, "noop", "noop:")
    async with opened(database, tmp_path, noop) as outrider:
        scene = Scene(store, NOON)
        run_id = await scene.shop.launch(200, batch_size=200)
        run = await store.read(run_records.run(DEFAULT_SCOPE, run_id))
        async with raw_sql(database) as raw:
            await raw.run(
                "UPDATE campaigns SET definition = '"
                + json.dumps(
                    {
                        "name": "n", "phases": ["launch"], "messages": [], "batchSize": 200,
                        "pauseOn": {"bounceRate": 0.05},
                    }
                )
                + "'"
            )  # fmt: skip
        context = await scene.shop.claim_one()
        items = await scene.shop.open(context, *range(150))
        await scene.shop.close(context, *((item, ACCEPTED) for item in items))
        for item in items[:7]:
            await scene.take(ReceiptEvent.BOUNCED, item)
        await scene.match()
        assert scene.worse == [(DEFAULT_SCOPE, run_id)]
        assert await outrider.rate_pauser.judge(DEFAULT_SCOPE, run_id) is None
        await scene.take(ReceiptEvent.BOUNCED, items[7])
        await scene.match()
        reason = await outrider.rate_pauser.judge(DEFAULT_SCOPE, run_id)
        assert reason == ("8 of 150 sent messages bounced (5.33%), and pauseOn.bounceRate is 5.00%")
        campaign_id = CampaignId(run.campaign_id)
        [launch] = (await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)).phases
        assert (launch.state, launch.reason) == ("paused", reason)
        resume = Control(Action.RESUME, "ann")
        await outrider.phase_controller.control(DEFAULT_SCOPE, campaign_id, "launch", resume)
        # Whoever resumed it has seen why.
        assert await outrider.rate_pauser.judge(DEFAULT_SCOPE, run_id) is None
