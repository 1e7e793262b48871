"""Matching: a receipt finds its own item and no other, whenever it comes, and counts once."""

import random

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Delivery, DeliveryState, ReceiptEvent
from outrider.kernel.transactions import receipts
from outrider.kernel.transactions.receipts import MatchedBy
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    ELSEWHERE,
    NOON,
    REJECTED,
    at,
)
from tests.support.receipt_scene import TARGET, Scene

DELIVERED, BOUNCED, READ = ReceiptEvent.DELIVERED, ReceiptEvent.BOUNCED, ReceiptEvent.READ


async def test_a_receipt_with_our_reference_becomes_the_items_delivery(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item, other] = await scene.sent(2)
    await scene.take(DELIVERED, item, reason="to the handset", occurred_at=at(-1))
    outcome = await scene.match()
    assert (outcome.claimed, outcome.matched) == (1, 1)
    assert await scene.delivery(item) == Delivery(
        DeliveryState.DELIVERED, False, "to the handset", at(-1)
    )
    assert await scene.delivery(other) == Delivery()
    assert await scene.counts(run_id) == {DeliveryState.DELIVERED: 1}
    [kept] = await store.read(receipts.of_item(DEFAULT_SCOPE, item, 10))
    assert (kept.outbox_id, kept.matched_by) == (item, MatchedBy.REFERENCE)
    assert (await scene.match()).claimed == 0


async def test_a_receipt_with_the_providers_id_finds_its_item(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item, _] = await scene.sent(2)
    await scene.take(READ, provider_message_id=f"m-{item}")
    await scene.match()
    assert (await scene.delivery(item)).state is DeliveryState.READ
    [kept] = await store.read(receipts.of_item(DEFAULT_SCOPE, item, 10))
    assert kept.matched_by is MatchedBy.PROVIDER_MESSAGE_ID


async def test_an_id_that_a_provider_gave_twice_matches_nothing(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, items = await scene.sent(2, [ACCEPTED._replace(provider_message_id="ok")] * 2)
    await scene.take(READ, provider_message_id="ok")
    assert (await scene.match()).matched == 0
    assert [await scene.delivery(item) for item in items] == [Delivery()] * 2


async def test_a_receipt_of_another_target_or_workspace_matches_nothing(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item] = await scene.sent(1)
    await scene.take(BOUNCED, item, target="sms.other", permanent=True)
    await scene.take(BOUNCED, item, scope=ELSEWHERE, permanent=True)
    await scene.take(BOUNCED, scope=ELSEWHERE, permanent=True, provider_message_id=f"m-{item}")
    await scene.take(BOUNCED, target="sms.other", provider_message_id=f"m-{item}")
    outcome = await scene.match()
    assert (outcome.claimed, outcome.matched) == (4, 0)
    assert await scene.delivery(item) == Delivery()
    assert await scene.counts(run_id) == {}
    assert await scene.suppressed() == {}
    assert len(await scene.unmatched()) == 2
    assert len(await scene.unmatched(ELSEWHERE)) == 2


async def test_a_receipt_that_came_before_our_own_commit_waits_for_it(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id = await scene.shop.launch(1)
    context = await scene.shop.claim_one()
    [item] = await scene.shop.open(context, 0)
    await scene.take(DELIVERED, item)
    assert (await scene.match()).matched == 0
    assert await scene.counts(run_id) == {}
    await scene.shop.close(context, (item, ACCEPTED))
    scene.clock.advance(1)
    assert (await scene.match()).matched == 1
    assert await scene.counts(run_id) == {DeliveryState.DELIVERED: 1}
    assert await scene.unmatched() == []


async def test_a_receipt_whose_item_appears_later_is_matched_then(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id = await scene.shop.launch(1)
    context = await scene.shop.claim_one()
    draft = scene.shop.draft(context, 0)
    await scene.take(DELIVERED, reference=draft.key)
    assert (await scene.match()).matched == 0
    await scene.shop.reserve(context, [draft])
    await scene.shop.close(context, (draft.id, ACCEPTED))
    scene.clock.advance(1)
    assert (await scene.match()).matched == 1
    assert await scene.counts(run_id) == {DeliveryState.DELIVERED: 1}


async def test_an_unmatched_receipt_is_retried_ever_more_rarely_and_then_only_listed(
    store: Store,
) -> None:
    scene = Scene(store, NOON)
    await scene.take(DELIVERED, reference="ab" * 32)
    waits = []
    for _ in scene.limits.look_again_seconds:
        assert (await scene.match()).claimed == 1
        [waiting] = await scene.unmatched()
        assert waiting.look_at is not None
        wait = (waiting.look_at - scene.clock.now()).total_seconds()
        waits.append(wait)
        scene.clock.advance(wait - 0.001)
        assert (await scene.match()).claimed == 0
        scene.clock.advance(0.001)
    assert waits == list(scene.limits.look_again_seconds)
    assert (await scene.match()).claimed == 1
    scene.clock.advance(1_000_000)
    assert (await scene.match()).claimed == 0
    [given_up] = await scene.unmatched()
    assert (given_up.look_at, given_up.reference) == (None, "ab" * 32)


async def test_a_receipt_of_an_item_that_failed_is_shown_and_not_counted_as_sent(
    store: Store,
) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item] = await scene.sent(1, [REJECTED])
    await scene.take(DELIVERED, item)
    await scene.match()
    assert (await scene.delivery(item)).state is DeliveryState.DELIVERED
    assert await scene.counts(run_id) == {}
    assert (await scene.shop.item(item)).status == "failed"


async def test_two_matchers_never_count_a_receipt_twice(store: Store) -> None:
    """Each item has a few receipts, spread over windows that are matched at the same time."""
    import asyncio

    scene = Scene(store, NOON, ReceiptLimits(window_items=7))
    others = [Scene(store, NOON, scene.limits) for _ in range(3)]
    run_id, _, items = await scene.sent(40)
    told = [(item, event) for item in items for event in (DELIVERED, READ, BOUNCED, DELIVERED)]
    random.Random(3).shuffle(told)
    for item, event in told:
        await scene.take(event, item)
    claimed = 0
    while claimed < len(told):
        outcomes = await asyncio.gather(*(each.match() for each in [scene, *others]))
        claimed += sum(each.claimed for each in outcomes)
    assert claimed == len(told)
    assert await scene.counts(run_id) == {DeliveryState.READ: len(items)}
    accounting = await scene.shop.accounting(run_id)
    assert sum((await scene.counts(run_id)).values()) == accounting.sent


async def test_an_operator_can_match_a_receipt_by_hand(store: Store) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item] = await scene.sent(1)
    await scene.take(BOUNCED, provider_message_id="unknown", permanent=True)
    await scene.match()
    [waiting] = await scene.unmatched()
    await scene.matcher.match_by_hand(DEFAULT_SCOPE, waiting.id, item, "key:ann")
    assert await scene.counts(run_id) == {DeliveryState.BOUNCED: 1}
    assert await scene.unmatched() == []
    assert set(await scene.suppressed()) == {"+447700000000"}
    assert "receipt.matched" in await scene.shop.events(run_id)
    with pytest.raises(Exception, match="matched already"):
        await scene.matcher.match_by_hand(DEFAULT_SCOPE, waiting.id, item, "key:ann")


async def test_a_receipt_cannot_be_matched_by_hand_across_workspaces(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(BOUNCED, scope=ELSEWHERE, provider_message_id="unknown")
    await scene.match()
    [theirs] = await scene.unmatched(ELSEWHERE)
    with pytest.raises(Exception, match="no receipt"):
        await scene.matcher.match_by_hand(DEFAULT_SCOPE, theirs.id, item, "key:ann")
    with pytest.raises(Exception, match="no item"):
        await scene.matcher.match_by_hand(ELSEWHERE, theirs.id, item, "key:eve")


async def test_a_flood_of_receipts_without_items_is_bounded_for_its_target(store: Store) -> None:
    from outrider.domain.errors import Overloaded
    from outrider.domain.receipts import Receipt

    scene = Scene(store, NOON, ReceiptLimits(sought_max=10_000))
    flood = [
        Receipt(f"flood-{number}", DELIVERED, reference=f"{number:064x}")
        for number in range(10_000)
    ]
    await scene.intake.take_in(DEFAULT_SCOPE, TARGET, flood)
    while (await scene.match()).claimed:
        pass
    scene.clock.advance(scene.limits.sought_trust_seconds + 0.1)
    more = [Receipt("one-more", DELIVERED, reference="ab" * 32)]
    with pytest.raises(Overloaded):
        await scene.intake.take_in(DEFAULT_SCOPE, TARGET, more)
    # Other targets go on, and so does this one when its receipts are given up.
    assert await scene.intake.take_in(DEFAULT_SCOPE, "sms.other", more)
    for wait in scene.limits.look_again_seconds:
        scene.clock.advance(wait)
        while (await scene.match()).claimed:
            pass
    scene.clock.advance(scene.limits.sought_trust_seconds + 0.1)
    last = [Receipt("last", DELIVERED, reference="cd" * 32)]
    assert await scene.intake.take_in(DEFAULT_SCOPE, TARGET, last)
    every = await store.read(receipts.page(DEFAULT_SCOPE, TARGET, 20_000))
    assert {each.receipt_id for each in every} >= {each.receipt_id for each in flood}
