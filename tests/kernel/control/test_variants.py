"""A/B variants of a launch: who is sent which, and the last step that waits for a winner."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.campaigns import Message, PauseOn
from outrider.domain.errors import SignalRefused
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.phases import Action
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.rollouts import RolloutStep
from outrider.domain.run_events import RunEvent
from outrider.domain.signals import AskedSignal, Signal
from outrider.domain.variants import Variant, WinnerBy, WinnerRate, WinnerRule, assigned
from outrider.kernel.transactions import run_log, variants
from outrider.kernel.transactions.variants import VariantsOfRun
from outrider.testing.launches import launch, people
from tests.kernel.control.test_rollout_keeper import ANN, SMS, Scene, opened_scene
from tests.support.whole_runs import items_of, working

A, B = Variant("a", "Hi from A"), Variant("b", "Hi from B")
OFFER = replace(SMS, variants=(A, B))
TEST = (RolloutStep(20, 0.5), RolloutStep(100))
PERSON = WinnerRule(WinnerBy.PERSON)
RECEIPTS = WinnerRule(WinnerBy.RECEIPTS, WinnerRate.READ, 5)


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with opened_scene(database, tmp_path) as made:
        yield made


async def launched(scene: Scene, audience: Any, *messages: Message, **terms: Any) -> RunId:
    recipients = people(audience) if isinstance(audience, int) else audience
    return await launch(scene.outrider, messages or [OFFER], recipients, batch_size=50, **terms)


async def variants_of(scene: Scene, run_id: RunId) -> VariantsOfRun:
    _, [found] = await scene.outrider.store.read(variants.of_run(DEFAULT_SCOPE, run_id))
    return found


async def decide(scene: Scene, run_id: RunId, variant: str, signal_id: str = "once") -> bool:
    asked = AskedSignal(Signal.DECIDE, signal_id, message_id="offer", variant=variant)
    return (await scene.outrider.run_signaller.signal(ANN, run_id, asked)).changed


async def sent_variants(scene: Scene, run_id: RunId) -> dict[str, str]:
    """By recipient."""
    items = await items_of(scene.outrider, run_id)
    return {who: item.variant or "" for who, item in items.items()}


async def told(scene: Scene, run_id: RunId) -> list[RunEvent]:
    events = await scene.outrider.store.read(run_log.events_after(run_id, 0, 1_000))
    return [each for each in events if each.type in ("VariantsPlanned", "WinnerChosen")]


async def blocker(scene: Scene, run_id: RunId) -> str | None:
    found = await scene.outrider.blocker_finder.of_run(run_id)
    return found[0].code.value if found else None


async def receive(scene: Scene, run_id: RunId, event: ReceiptEvent, variant: str) -> None:
    """From the provider, of everybody who was sent this variant."""
    names = await sent_variants(scene, run_id)
    items = await items_of(scene.outrider, run_id)
    receipts = [
        Receipt(f"{event}-{who}", event, reference=items[who].reference)
        for who, name in names.items()
        if name == variant
    ]
    await scene.outrider.receipt_intake.take_in(DEFAULT_SCOPE, "sms.all", receipts)

    async def are_counted() -> bool:
        figures = (await variants_of(scene, run_id)).figures
        [own] = [each for each in figures if each.variant == variant]
        return own.deliveries.get(event.value, 0) >= len(receipts)

    await scene.until(are_counted)


async def test_everybody_is_sent_the_variant_that_was_drawn_for_them(scene: Scene) -> None:
    heavy = replace(SMS, variants=(A, replace(B, weight=3)))
    run_id = await launched(scene, 200, heavy)
    async with working(scene.outrider):
        await scene.until_sent(run_id, 200)
    sent = await sent_variants(scene, run_id)
    assert sent == {who: assigned(run_id, "offer", heavy.variants, who) for who in sent}
    assert 120 < Counter(sent.values())["b"] < 180
    assert set(scene.sandbox.deliveries.values()) == {1}
    [planned] = await told(scene, run_id)
    payload: Any = planned.payload
    [of_offer] = payload["messages"]
    assert [(each["variant"], each["weight"]) for each in of_offer["variants"]] == [
        ("a", 1),
        ("b", 3),
    ]
    assert sum(each["items"] for each in of_offer["variants"]) == 200
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate.criteria


async def test_without_a_winner_every_step_of_a_rollout_has_all_variants(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        assert set((await sent_variants(scene, run_id)).values()) == {"a", "b"}
        await scene.until_sent(run_id, 100)
    sent = await sent_variants(scene, run_id)
    assert sent == {who: assigned(run_id, "offer", (A, B), who) for who in sent}


async def test_recipients_and_messages_without_variants_are_not_touched(scene: Scene) -> None:
    plain = replace(SMS, id="plain", body="Hello")
    only_plain = people(50, message_id="plain")[40:]
    run_id = await launched(scene, [*people(40), *only_plain], OFFER, plain)
    async with working(scene.outrider):
        await scene.until_sent(run_id, 90)
    figures = (await variants_of(scene, run_id)).figures
    assert sum(each.items for each in figures) == 40
    assert sum(each.sent for each in figures) == 40


async def test_a_person_chooses_what_the_last_step_is_sent(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST, winner=PERSON)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        assert await blocker(scene, run_id) == "ROLLOUT_HOLD"
        await scene.some_time(2)
        assert await scene.states(run_id) == ["holding", "waiting"]
        assert await blocker(scene, run_id) == "AWAITING_WINNER"
        test = await sent_variants(scene, run_id)
        assert test == {who: assigned(run_id, "offer", (A, B), who) for who in test}
        with pytest.raises(SignalRefused, match="none has been chosen"):
            await scene.advance(run_id, "too early")
        assert (await variants_of(scene, run_id)).awaits_winner
        assert await decide(scene, run_id, "b")
        assert await decide(scene, run_id, "b"), "the same signal gets the same answer"
        assert not await decide(scene, run_id, "b", "again")
        with pytest.raises(SignalRefused, match="has chosen 'b' already"):
            await decide(scene, run_id, "a", "otherwise")
        await scene.until_sent(run_id, 100)
    sent = await sent_variants(scene, run_id)
    assert {variant for who, variant in sent.items() if who not in test} == {"b"}
    assert len(sent) == 100
    assert {who: sent[who] for who in test} == test
    planned, chosen = await told(scene, run_id)
    assert planned.payload["winner"] == {"by": "person"}
    assert (chosen.payload["variant"], chosen.payload["by"]) == ("b", ANN.actor)
    found = await variants_of(scene, run_id)
    assert found.winner is not None
    assert (found.winner.variant, found.awaits_winner) == ("b", False)
    assert sum(each.sent for each in found.figures) == 20, "the test alone"
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate.criteria


async def test_a_choice_before_the_hold_is_over_does_not_shorten_it(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST, winner=PERSON)
    assert await decide(scene, run_id, "a")
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.some_time(0.25)
        assert await scene.states(run_id) == ["holding", "waiting"]
        await scene.until_sent(run_id, 100)


@pytest.mark.parametrize(
    ("message_id", "variant", "why"),
    [("offer", "c", "no variant 'c'"), ("other", "a", "has no variants")],
)
async def test_only_a_variant_of_the_message_can_be_chosen(
    scene: Scene, message_id: str, variant: str, why: str
) -> None:
    run_id = await launched(scene, 10, rollout=TEST, winner=PERSON)
    asked = AskedSignal(Signal.DECIDE, "once", message_id=message_id, variant=variant)
    with pytest.raises(SignalRefused, match=why):
        await scene.outrider.run_signaller.signal(ANN, run_id, asked)


async def test_nothing_is_to_be_chosen_without_a_winner_or_after_the_end(scene: Scene) -> None:
    run_id = await launched(scene, 10, rollout=TEST)
    with pytest.raises(SignalRefused, match="waits for a winner"):
        await decide(scene, run_id, "a")
    stopped = await launched(scene, 10, rollout=TEST, winner=PERSON)
    await scene.control(stopped, Action.STOP)
    with pytest.raises(SignalRefused, match="has ended or was stopped"):
        await decide(scene, stopped, "a")


async def test_receipts_choose_the_variant_that_more_people_read(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST, winner=RECEIPTS)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await receive(scene, run_id, ReceiptEvent.DELIVERED, "a")
        await receive(scene, run_id, ReceiptEvent.READ, "b")
        await scene.until_sent(run_id, 100)
    _, chosen = await told(scene, run_id)
    assert (chosen.payload["variant"], chosen.payload["by"]) == ("b", "receipts")
    figures: Any = chosen.payload["figures"]
    assert figures[1]["deliveries"] == {"read": figures[1]["sent"]}


async def test_without_a_leader_a_person_has_to_choose_or_late_receipts_do(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST, winner=RECEIPTS)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.some_time(2)
        assert await blocker(scene, run_id) == "AWAITING_WINNER"
        await receive(scene, run_id, ReceiptEvent.READ, "a")
        await scene.until_sent(run_id, 100)
    assert (await told(scene, run_id))[1].payload["variant"] == "a"


async def test_a_retry_before_the_choice_still_waits_for_it(scene: Scene) -> None:
    """What the earlier run sent counts, and nobody gets the first variant by default."""
    run_id = await launched(scene, 100, rollout=TEST, winner=PERSON)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        test = await sent_variants(scene, run_id)
        await scene.control(run_id, Action.STOP)
        await scene.until_state(run_id, 1, "done")
        again = await scene.control(run_id, Action.RETRY)
        await scene.until_state(again, 1, "holding")
        assert await blocker(scene, again) == "AWAITING_WINNER"
        assert sum(each.sent for each in (await variants_of(scene, again)).figures) == len(test)
        await decide(scene, again, "b")
        await scene.until_sent(again, 80)
    assert set((await sent_variants(scene, again)).values()) == {"b"}
    assert set(scene.sandbox.deliveries.values()) == {1}


async def test_a_retry_after_the_choice_keeps_every_variant(scene: Scene) -> None:
    scene.sandbox.faults.fail_rate = 1.0
    limits = PauseOn(failure_rate=0.05)
    run_id = await launched(scene, 60, rollout=TEST, winner=PERSON, pause_on=limits)
    await decide(scene, run_id, "b")
    async with working(scene.outrider):
        await scene.until_paused(run_id)
        scene.sandbox.faults.fail_rate = 0.0
        await scene.control(run_id, Action.STOP)
        await scene.until_state(run_id, 1, "done")
        again = await scene.control(run_id, Action.RETRY)
        await scene.until_sent(again, 60)
    sent = await sent_variants(scene, again)
    test = {who for who in sent if assigned(run_id, "offer", (A, B), who) == "a"}
    assert {who for who, variant in sent.items() if variant == "a"} < test
    assert Counter(sent.values())["b"] > 48


async def test_ten_keepers_and_a_person_choose_once(scene: Scene) -> None:
    run_id = await launched(scene, 100, rollout=TEST, winner=RECEIPTS)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await receive(scene, run_id, ReceiptEvent.READ, "a")
        await scene.clock.step(5)
        scene.clock.advance(600)
        looks = [scene.outrider.rollout_keeper.look() for _ in range(10)]
        found = await asyncio.gather(decide(scene, run_id, "b"), *looks, return_exceptions=True)
        assert all(each is None for each in found[1:])
        await scene.until_sent(run_id, 100)
    chosen = [each for each in await told(scene, run_id) if each.type == "WinnerChosen"]
    assert len(chosen) == 1
    variant = chosen[0].payload["variant"]
    last = {
        name
        for who, name in (await sent_variants(scene, run_id)).items()
        if assigned(run_id, "offer", (A, B), who) != variant and name == variant
    }
    assert last == {variant}
