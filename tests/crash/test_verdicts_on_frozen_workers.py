"""A worker freezes, its lease expires, and somebody gives a verdict on its calls. While its process
is seen, the verdict that they never arrived is too early; if it is forced, the worker's own results
are recorded when it thaws, and a retry sends nothing again.
"""

import asyncio

import pytest

from outrider.domain.errors import PreconditionFailed, WorkerMayLive
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.phases import Action
from outrider.kernel.receipts.doubt_resolver import DoubtsOf
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.transactions import ledger_items, run_records
from outrider.kernel.transactions.alerts import LAST, AlertCode, AlertRecord, alerts_page
from outrider.kernel.transactions.doubt_lists import DoubtFilter
from outrider.kernel.transactions.doubts import Doubt, DoubtVerdict
from outrider.kernel.transactions.ledger_items import LateAcceptance
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.support.controls import control

BATCH = MAIL_WINDOW_ITEMS + 4
WHOLE_WINDOW_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
EVIDENCE = "nothing in the mail server's log"


async def alerts(scene: Scene, code: AlertCode) -> list[AlertRecord]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    return [each for each in await scene.outrider.store.read(page) if each.code == code]


async def late_acceptance(scene: Scene, doubt: Doubt) -> LateAcceptance:
    """The one of that item, once it has been recorded."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            late = await scene.outrider.store.read(ledger_items.late_acceptances_of(doubt.id))
            if late:
                return late[0]
            await asyncio.sleep(0.02)


async def test_a_verdict_on_a_frozen_workers_calls_waits_and_its_later_results_are_kept(
    scene: Scene,
) -> None:
    """X6, X16: its calls were accepted, which nobody knew when they were settled as failed."""
    # Whole windows: its first one has ended when it freezes, and all of it was accepted.
    await scene.launch(Provider.MAIL, 2 * MAIL_WINDOW_ITEMS, batch_size=MAIL_WINDOW_ITEMS)
    frozen = scene.start_worker(stall_at="close:before:1", close_group_seconds=WHOLE_WINDOW_SECONDS)
    await frozen.is_stalled()
    second = scene.start_worker()
    doubts = await scene.comes_to_rest()
    assert len(doubts) == MAIL_WINDOW_ITEMS
    resolver, of = scene.outrider.doubt_resolver, DoubtsOf(DoubtFilter(scene.run_id))

    with pytest.raises(WorkerMayLive, match="may still be running"):
        await resolver.resolve(
            DEFAULT_SCOPE, doubts[0].id, DoubtVerdict.FAILED, EVIDENCE, "somebody"
        )
    with pytest.raises(WorkerMayLive, match=f"{len(doubts)} of them"):
        await resolver.resolve_all(DEFAULT_SCOPE, of, DoubtVerdict.RESUBMIT, EVIDENCE, "somebody")
    assert len(await scene.doubts()) == len(doubts)
    settled = await resolver.resolve_all(
        DEFAULT_SCOPE, of, DoubtVerdict.FAILED, EVIDENCE, "somebody", force=True
    )
    assert settled == len(doubts)
    await scene.watcher.until(lambda look: look.is_terminal)

    frozen.thaw()
    store = scene.outrider.store
    found = [await late_acceptance(scene, doubt) for doubt in doubts]
    assert [late.attempt for late in found] == [doubt.attempts for doubt in doubts]
    (alert,) = await alerts(scene, AlertCode.LATE_ACCEPTANCE)
    assert alert.subject == scene.run_id
    item = await store.read(ledger_items.item(DEFAULT_SCOPE, doubts[0].id))
    assert item.status == "failed", "a settled row never changes"
    said = explain_item(item, await store.read(ledger_items.attempts_of(item.id)), found[:1])
    assert any("another outcome" in sentence for sentence in said)

    run = await store.read(run_records.run(DEFAULT_SCOPE, scene.run_id))
    with pytest.raises(PreconditionFailed, match="nobody to send to"):
        await control(scene.outrider, run.campaign_id, Action.RERUN)
    assert set(scene.witness.deliveries().values()) == {1}
    assert len(scene.witness.deliveries()) == 2 * MAIL_WINDOW_ITEMS
    await frozen.stop()
    await second.stop()


async def test_a_frozen_worker_whose_items_were_settled_and_sent_again_sends_nothing_on_thawing(
    scene: Scene,
) -> None:
    """X6: it looks at its lease at the last moment before the socket."""
    await scene.launch(Provider.MAIL, BATCH, batch_size=BATCH)
    frozen = scene.start_worker(stall_at="open:after:1")
    await frozen.is_stalled()
    second = scene.start_worker()
    doubts = await scene.comes_to_rest()
    resolver, of = scene.outrider.doubt_resolver, DoubtsOf(DoubtFilter(scene.run_id))
    await resolver.resolve_all(
        DEFAULT_SCOPE, of, DoubtVerdict.RESUBMIT, EVIDENCE, "somebody", force=True
    )
    await scene.watcher.until(lambda look: look.is_terminal)
    assert len(scene.witness.deliveries()) == BATCH

    frozen.thaw()
    await frozen.has_logged("lease_lost")
    # It has given up its calls, so nobody has to wait for it any longer.
    lost = await scene.outrider.doubt_resolver.called_by_the_living(
        DEFAULT_SCOPE, [doubt.id for doubt in doubts]
    )
    assert not lost
    await frozen.stop()
    await second.stop()
    assert set(scene.witness.deliveries().values()) == {1}
    assert not await alerts(scene, AlertCode.LATE_ACCEPTANCE)
