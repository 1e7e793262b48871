"""The watcher's alerts on rates: too much of a target bounced, or was complained of."""

from datetime import timedelta

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import ReceiptEvent
from outrider.kernel.receipts.sent_tallier import SentTallier
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.kernel.transactions.targets import DoorKey
from outrider.kernel.work.watcher import Watcher
from outrider.ports.store import Store
from outrider.settings import TargetSettings
from outrider.testing.store_suite.workshop import NOON
from tests.support.receipt_scene import TARGET, Scene


def watching(scene: Scene) -> Watcher:
    return Watcher(scene.foundation, {}, BlockerFinder(scene.foundation, dict))


async def open_alerts(scene: Scene) -> set[tuple[str, str]]:
    found = await scene.store.read(alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True))
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
async def test_a_high_rate_opens_an_alert_that_resolves_automatically(
    store: Store, event: ReceiptEvent, code: str
) -> None:
    scene = Scene(store, NOON)
    watcher = watching(scene)
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
    watcher = watching(scene)
    _, _, items = await scene.sent(10)
    await tallied(scene, 200)
    for item in items:
        await scene.take(ReceiptEvent.BOUNCED, item)
    await scene.match()
    await watcher.look_once()
    assert await open_alerts(scene) == set()


@pytest.mark.parametrize(("most", "alerts"), [(0.04, 1), (0.06, 0)])
async def test_a_target_may_have_its_own_thresholds(store: Store, most: float, alerts: int) -> None:
    scene = Scene(store, NOON)
    settings = TargetSettings(bounce_rate_alert=most, complaint_rate_alert=1.0)
    finder = BlockerFinder(scene.foundation, dict)
    limits = {TARGET: settings.rate_limits}
    watcher = Watcher(scene.foundation, {}, finder, rate_limits=limits)
    _, _, items = await scene.sent(10)
    await tallied(scene, 200)
    for item in items:
        await scene.take(ReceiptEvent.BOUNCED, item)
    await scene.match()
    await watcher.look_once()
    assert len(await open_alerts(scene)) == alerts


async def test_a_bounce_followed_by_a_delivery_no_longer_counts(store: Store) -> None:
    scene = Scene(store, NOON)
    watcher = watching(scene)
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
