"""What follows from receipts: opt-outs with their evidence, opt-ins, and settled doubts."""

import asyncio
import random
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId
from outrider.domain.receipts import DeliveryState, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.transactions import receipts, suppressions
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import DOUBTED, NOON, at
from tests.support.receipt_scene import Scene

FIRST, SECOND = "+447700000000", "+447700000001"


@pytest.mark.parametrize(
    ("event", "fields", "source"),
    [
        (ReceiptEvent.BOUNCED, {"permanent": True}, SuppressionSource.BOUNCE),
        (ReceiptEvent.COMPLAINED, {}, SuppressionSource.COMPLAINT),
        (ReceiptEvent.OPTED_OUT, {}, SuppressionSource.STOP),
        (ReceiptEvent.REPLIED, {"sender": FIRST, "text": "Stop "}, SuppressionSource.STOP),
    ],
)
async def test_the_items_address_is_suppressed_with_the_receipt_as_evidence(
    store: Store, event: ReceiptEvent, fields: dict[str, Any], source: SuppressionSource
) -> None:
    scene = Scene(store, NOON)
    _, _, [item, _] = await scene.sent(2)
    await scene.take(event, item, **fields)
    await scene.match()
    [kept] = await store.read(receipts.of_item(DEFAULT_SCOPE, item, 10))
    found = await scene.suppressed()
    assert set(found) == {FIRST}
    assert (found[FIRST].source, found[FIRST].topic) == (source, None)
    assert found[FIRST].evidence == f"receipt {kept.id}"
    assert found[FIRST].includes_transactional


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (ReceiptEvent.BOUNCED, {"permanent": False}),
        (ReceiptEvent.FAILED, {"permanent": True}),
        (ReceiptEvent.DELIVERED, {}),
        (ReceiptEvent.REPLIED, {"sender": FIRST, "text": "I will stop by tomorrow"}),
        (ReceiptEvent.REPLIED, {"sender": FIRST, "text": "HELP"}),
    ],
)
async def test_nobody_else_is_suppressed(
    store: Store, event: ReceiptEvent, fields: dict[str, Any]
) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(event, item, **fields)
    await scene.match()
    assert await scene.suppressed() == {}


async def test_a_reply_to_no_known_message_is_its_senders_word(store: Store) -> None:
    scene = Scene(store, NOON)
    await scene.take(ReceiptEvent.REPLIED, sender="+44 7700 000000", text="STOP")
    await scene.match()
    assert (await scene.suppressed())[FIRST].source is SuppressionSource.STOP
    assert await scene.unmatched() == []


async def test_start_lifts_what_stop_made_and_nothing_else(store: Store) -> None:
    scene = Scene(store, NOON)
    opt_out = OptOut("asked by phone", include_transactional=True)
    await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [SECOND], opt_out, NOON))
    for sender in (FIRST, SECOND):
        await scene.take(ReceiptEvent.REPLIED, sender=sender, text="STOP")
    await scene.match()
    assert set(await scene.suppressed()) == {FIRST, SECOND}
    scene.clock.advance(5)
    for sender in (FIRST, SECOND):
        await scene.take(ReceiptEvent.REPLIED, sender=sender, text="START")
    await scene.match()
    assert set(await scene.suppressed()) == {SECOND}


async def test_a_bounce_outlasts_a_start(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.REPLIED, item, sender=FIRST, text="STOP")
    await scene.take(ReceiptEvent.BOUNCED, item, permanent=True)
    await scene.match()
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="START")
    await scene.match()
    assert (await scene.suppressed())[FIRST].source is SuppressionSource.BOUNCE


@pytest.mark.parametrize("one_window", [True, False])
async def test_a_persons_latest_message_counts_in_whatever_order_they_arrive(
    store: Store, one_window: bool
) -> None:
    scene = Scene(store, NOON)
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="START", occurred_at=at(-10))
    await scene.take(ReceiptEvent.REPLIED, sender=SECOND, text="STOP", occurred_at=at(-10))
    if not one_window:
        await scene.match()
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="STOP", occurred_at=at(-20))
    await scene.take(ReceiptEvent.REPLIED, sender=SECOND, text="START", occurred_at=at(-20))
    await scene.match()
    assert set(await scene.suppressed()) == {SECOND}


async def test_a_start_by_a_clock_that_was_ahead_does_not_outweigh_a_later_stop(
    store: Store,
) -> None:
    scene = Scene(store, NOON)
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="START", occurred_at=at(86_400))
    await scene.match()
    scene.clock.advance(60)
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="STOP", occurred_at=at(60))
    await scene.match()
    assert set(await scene.suppressed()) == {FIRST}


@pytest.mark.parametrize(
    "event", [ReceiptEvent.DELIVERED, ReceiptEvent.BOUNCED, ReceiptEvent.READ, ReceiptEvent.FAILED]
)
async def test_a_receipt_settles_a_doubt_as_sent(store: Store, event: ReceiptEvent) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item, other] = await scene.sent(2, [DOUBTED, DOUBTED])
    await scene.take(event, item)
    await scene.match()
    settled, doubted = await scene.shop.item(item), await scene.shop.item(other)
    assert (settled.status, settled.intent_status, settled.doubted_at) == ("sent", "ACCEPTED", None)
    assert doubted.doubted_at is not None
    assert sum((await scene.counts(run_id)).values()) == 1
    [(_, detail)] = [each for each in await scene.shop.audit(run_id) if each[0] == "doubt.resolved"]
    assert detail == {
        "verdict": "sent", "evidence": f"receipt: sms.realtime reported {event.value}",
        "kind": "receipt", "source": "sms.realtime",
    }  # fmt: skip
    assert (await scene.shop.accounting(run_id)).sent == 1


async def test_an_opt_in_settles_no_doubt(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1, [DOUBTED])
    await scene.take(ReceiptEvent.OPTED_IN, item)
    await scene.match()
    assert (await scene.shop.item(item)).doubted_at is not None


async def test_a_receipt_changes_nothing_in_the_ledger_otherwise(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    before = await scene.shop.item(item)
    for event in ReceiptEvent:
        await scene.take(event, item, permanent=True)
    await scene.match()
    after = await scene.shop.item(item)
    assert after._replace(delivery=before.delivery) == before
    assert (await scene.delivery(item)).state is DeliveryState.OPTED_OUT


async def test_runs_with_many_bounces_are_reported(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item, other] = await scene.sent(2)
    await scene.take(ReceiptEvent.DELIVERED, item)
    await scene.match()
    assert scene.worse == []
    await scene.take(ReceiptEvent.BOUNCED, other)
    await scene.match()
    assert scene.worse == [(DEFAULT_SCOPE, run_id)]


async def test_start_leaves_what_somebody_unsubscribed_from_before_their_stop(
    store: Store,
) -> None:
    scene = Scene(store, NOON)
    clicked = OptOut("unsubscribed", source=SuppressionSource.UNSUBSCRIBE)
    await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [FIRST], clicked, NOON))
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="STOP")
    await scene.match()
    assert (await scene.suppressed())[FIRST].includes_transactional
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="START")
    await scene.match()
    assert (await scene.suppressed())[FIRST].source is SuppressionSource.UNSUBSCRIBE


async def test_start_leaves_what_an_operator_forbade_after_the_stop(store: Store) -> None:
    scene = Scene(store, NOON)
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="STOP")
    await scene.match()
    opt_out = OptOut("asked by phone", include_transactional=True)
    await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [FIRST], opt_out, NOON))
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="START")
    await scene.match()
    assert (await scene.suppressed())[FIRST].source is SuppressionSource.API


async def test_a_stop_is_followed_when_its_targets_channel_is_known_again(store: Store) -> None:
    scene = Scene(store, NOON)
    await scene.take(ReceiptEvent.REPLIED, sender=FIRST, text="STOP")
    unaware = ReceiptMatcher(scene.foundation, lambda _target: None, scene.sharers, scene.limits)
    await unaware.match_due()
    assert await scene.suppressed() == {}
    scene.clock.advance(scene.limits.look_again_seconds[0])
    await scene.match()
    assert set(await scene.suppressed()) == {FIRST}
    assert await scene.unmatched() == []


async def test_a_receipt_cannot_be_matched_by_hand_with_an_item_of_another_channel(
    store: Store,
) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.BOUNCED, permanent=True, reference="ab" * 32)
    of_mail = ReceiptMatcher(
        scene.foundation, lambda _target: Channel.EMAIL, scene.sharers, scene.limits
    )
    await scene.match()
    [receipt] = await scene.unmatched()
    with pytest.raises(Conflict, match="email"):
        await of_mail.match_by_hand(DEFAULT_SCOPE, receipt.id, item, "ada")
    assert await scene.suppressed() == {}
    assert len(await scene.unmatched()) == 1


async def test_a_time_that_no_calendar_has_in_utc_is_no_reason_to_refuse(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    await scene.take(ReceiptEvent.DELIVERED, item, occurred_at=early)
    await scene.match()
    assert (await scene.delivery(item)).at == NOON


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_matchers_that_opt_the_same_people_in_and_out_at_once_never_deadlock(
    store: Store,
) -> None:
    """A deadlock would be a window that fails, and is matched again later: here none may fail."""
    limits = ReceiptLimits(window_items=8)
    scenes = [Scene(store, NOON, limits) for _ in range(4)]
    _, _, items = await scenes[0].sent(24)
    addresses = [(await scenes[0].shop.item(item)).address for item in items]
    chance = random.Random(5)
    told: list[tuple[ReceiptEvent, OutboxId, dict[str, Any]]] = [
        (event, item, fields)
        for item, address in zip(items, addresses, strict=True)
        for event, fields in (
            (ReceiptEvent.REPLIED, {"sender": address, "text": "STOP", "occurred_at": at(-3)}),
            (ReceiptEvent.REPLIED, {"sender": address, "text": "START", "occurred_at": at(-2)}),
            (ReceiptEvent.REPLIED, {"sender": address, "text": "STOP", "occurred_at": at(-1)}),
            (ReceiptEvent.COMPLAINED, {}),
        )
    ]
    chance.shuffle(told)
    for event, item, fields in told:
        await scenes[0].take(event, item, **fields)
    while sum(each.claimed for each in await asyncio.gather(*(scene.match() for scene in scenes))):
        pass
    found = await scenes[0].suppressed()
    assert set(found) == set(addresses)
    assert {each.source for each in found.values()} == {SuppressionSource.COMPLAINT}
