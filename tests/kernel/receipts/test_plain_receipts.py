"""Plain receipts: matched in one statement, and as all the others are.

In SQLite none is plain, and the same outcomes are expected of the other way.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import DeliveryState, Receipt, ReceiptEvent, fold
from outrider.kernel.transactions import plain_receipts
from outrider.kernel.transactions.plain_receipts import PlainOutcome
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import ACCEPTED, DOUBTED, NOON, REJECTED, at
from tests.support.raw_sql import raw_sql
from tests.support.receipt_scene import TARGET, Scene

ON_POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)
"""In SQLite no receipt is plain."""
EVENTS = [each for each in ReceiptEvent if each is not ReceiptEvent.OPTED_IN]
IDS = ["r-1", "R-1", "r-é", "r-_", "r-a", "r 1", "r-10", "r-9"]
"""Some differ in case, accents and punctuation alone: some collations sort them otherwise."""


@pytest.mark.parametrize("window_items", [3, 1_000])
async def test_any_receipts_in_any_windows_fold_as_the_domain_says(
    store: Store, window_items: int
) -> None:
    scene = Scene(store, NOON, ReceiptLimits(window_items=window_items))
    other = Scene(store, NOON, scene.limits)
    verdicts = [ACCEPTED] * 10 + [REJECTED] * 2
    run_id, _, items = await scene.sent(len(verdicts), verdicts)
    chance = random.Random(19)
    told = {item: _told(chance, await scene.reference(item)) for item in items}
    every = [(item, receipt) for item, some in told.items() for receipt in some]
    chance.shuffle(every)
    for number, (_, receipt) in enumerate(every):
        await scene.intake.take_in(DEFAULT_SCOPE, TARGET, [receipt])
        if number % 7 == 0:
            await asyncio.gather(scene.match(), other.match())
    while (await scene.match()).claimed:
        pass
    expected = {item: fold((each, NOON) for each in told[item]) for item in items}
    assert {item: await scene.delivery(item) for item in items} == expected
    sent = items[:10]
    counts = Counter(expected[item].state for item in sent if told[item])
    assert await scene.counts(run_id) == counts


def _told(chance: random.Random, reference: str) -> list[Receipt]:
    ids = chance.sample(IDS, chance.randrange(1, 5))
    return [
        Receipt(
            f"{reference[:8]}{id}", chance.choice(EVENTS),
            chance.choice((reference, reference.upper())),
            permanent=chance.random() < 0.3, reason=id,
            occurred_at=chance.choice((None, at(-1), at(0), at(1))),
        )
        for id in ids
    ]  # fmt: skip


async def match_plain(scene: Scene, *shared: str) -> PlainOutcome:
    script = plain_receipts.match(scene.limits.window_items, shared, scene.clock.now())
    return await scene.store.write(script)


@ON_POSTGRES
@pytest.mark.parametrize("event", EVENTS)
async def test_a_receipt_without_an_opt_out_for_an_ended_item_is_plain(
    store: Store, event: ReceiptEvent
) -> None:
    scene = Scene(store, NOON)
    run_id, _, [item, _] = await scene.sent(2)
    await scene.take(event, item)
    is_urgent = event in (ReceiptEvent.COMPLAINED, ReceiptEvent.OPTED_OUT)
    outcome = await match_plain(scene)
    assert (outcome.matched, outcome.others) == (0 if is_urgent else 1, 0)
    if not is_urgent:
        assert await scene.counts(run_id) == {DeliveryState(event.value): 1}
        is_worse = event is ReceiptEvent.BOUNCED
        assert outcome.worse_runs == ({(DEFAULT_SCOPE, run_id)} if is_worse else frozenset())


async def _waits_for_its_call(scene: Scene) -> None:
    await scene.shop.launch(1)
    [item] = await scene.shop.open(await scene.shop.claim_one(), 0)
    await scene.take(ReceiptEvent.DELIVERED, item)


async def _is_in_doubt(scene: Scene) -> None:
    _, _, [item] = await scene.sent(1, [DOUBTED])
    await scene.take(ReceiptEvent.DELIVERED, item)


async def _is_of_another_target(scene: Scene) -> None:
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.DELIVERED, item, target="sms.other")


async def _has_only_the_providers_id(scene: Scene) -> None:
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.DELIVERED, provider_message_id=f"m-{item}")


async def _has_no_reference_of_ours(scene: Scene) -> None:
    await scene.take(ReceiptEvent.DELIVERED, reference="zz" * 32)
    await scene.take(ReceiptEvent.DELIVERED, reference="abc")
    await scene.take(ReceiptEvent.DELIVERED, reference="ab" * 32 + "\n")


@ON_POSTGRES
@pytest.mark.parametrize(
    "told",
    [
        _waits_for_its_call,
        _is_in_doubt,
        _is_of_another_target,
        _has_only_the_providers_id,
        _has_no_reference_of_ours,
    ],
)
async def test_receipts_that_are_not_plain_are_counted_and_left(
    store: Store, told: Callable[[Scene], Awaitable[None]]
) -> None:
    scene = Scene(store, NOON)
    await told(scene)
    outcome = await match_plain(scene)
    assert (outcome.matched, outcome.others) == (0, 3 if told is _has_no_reference_of_ours else 1)
    assert await match_plain(scene) == outcome


@ON_POSTGRES
async def test_a_report_of_a_shared_target_is_not_plain(store: Store) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.DELIVERED, item)
    assert (await match_plain(scene, "sms.other", TARGET)).others == 1
    assert (await match_plain(scene, "sms.other")).matched == 1


@ON_POSTGRES
async def test_while_a_sink_receives_message_events_no_receipt_is_plain(
    store: Store, database: str
) -> None:
    scene = Scene(store, NOON)
    _, _, [item] = await scene.sent(1)
    await scene.take(ReceiptEvent.DELIVERED, item)
    async with raw_sql(database) as raw:
        await raw.run("INSERT INTO event_bus_sinks (name, created_at) VALUES ('hooks@1', now())")
    assert (await match_plain(scene)).others == 1
