"""The sent tallier: every message is counted once, in its hour, for its workspace and target."""

import asyncio
from datetime import datetime, timedelta

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.receipts.sent_tallier import SentTallier
from outrider.kernel.transactions import deliveries
from outrider.kernel.transactions.deliveries import TargetTally
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import NOON
from tests.support.eventually import eventually
from tests.support.foundations import foundation
from tests.support.whole_runs import SteppedClock

LIMITS = ReceiptLimits()
WORKSPACE = DEFAULT_SCOPE.workspace_id
LONG_AGO = NOON - timedelta(days=365)


def key(target: str = "sms.main", url: str = "http://one.test") -> DoorKey:
    return DoorKey(target, url, WORKSPACE)


async def bounced_once(store: Store, hour_at: datetime, *targets: str) -> None:
    """Rates are only told of targets of which something went wrong."""
    tallies = [TargetTally(WORKSPACE, target, hour_at, bounced=1) for target in targets]
    await store.write(deliveries.tally(tallies))


async def sent(store: Store, since: datetime = LONG_AGO) -> dict[str, int]:
    found = await store.read(deliveries.rates(since, 100))
    return {each.submission_target: each.sent for each in found}


def tallier_of(store: Store, clock: SteppedClock) -> SentTallier:
    return SentTallier(foundation(store, clock=clock), LIMITS)


async def test_each_message_is_counted_once_for_its_target_whatever_its_url(store: Store) -> None:
    tallier = tallier_of(store, SteppedClock(NOON))
    await bounced_once(store, NOON, "sms.main", "sms.other")
    for noted in (key(), key(url="http://two.test"), key("sms.other")):
        tallier.note(noted)
    await tallier.flush()
    await tallier.flush()
    assert await sent(store) == {"sms.main": 2, "sms.other": 1}


async def test_what_is_sent_while_the_sums_are_written_is_counted_next_time(store: Store) -> None:
    tallier = tallier_of(store, SteppedClock(NOON))
    await bounced_once(store, NOON, "sms.main")
    tallier.note(key())
    flushing = asyncio.create_task(tallier.flush())
    await asyncio.sleep(0)
    assert not flushing.done()
    tallier.note(key())
    await flushing
    assert await sent(store) == {"sms.main": 1}
    await tallier.flush()
    assert await sent(store) == {"sms.main": 2}


async def test_a_message_counts_in_the_hour_in_which_it_was_sent(store: Store) -> None:
    clock = SteppedClock(NOON)
    tallier = tallier_of(store, clock)
    later = NOON + timedelta(hours=1)
    await bounced_once(store, NOON, "sms.main")
    await bounced_once(store, later, "sms.main")
    tallier.note(key())
    await tallier.flush()
    clock.advance(timedelta(minutes=61).total_seconds())
    tallier.note(key())
    await tallier.flush()
    assert await sent(store) == {"sms.main": 2}
    assert await sent(store, since=later) == {"sms.main": 1}


async def test_counts_too_old_for_any_rate_are_deleted(store: Store) -> None:
    clock = SteppedClock(NOON)
    tallier = tallier_of(store, clock)
    await bounced_once(store, NOON, "sms.old")
    tallier.note(key("sms.old"))
    await tallier.flush()
    clock.advance(timedelta(hours=LIMITS.tallies_kept_hours).total_seconds())
    tallier.note(key())
    await tallier.flush()
    assert await sent(store) == {"sms.old": 1}, "it is not older than that yet"
    clock.advance(timedelta(hours=1).total_seconds())
    tallier.note(key())
    await tallier.flush()
    assert await sent(store) == {}


async def test_the_loop_writes_the_sums_every_few_seconds(store: Store) -> None:
    clock = SteppedClock(NOON)
    tallier = tallier_of(store, clock)
    await bounced_once(store, NOON, "sms.main")
    tallier.note(key())
    running = asyncio.create_task(tallier.run())

    async def is_written() -> bool:
        await clock.step(LIMITS.sent_flush_seconds)
        return await sent(store) == {"sms.main": 1}

    try:
        await asyncio.sleep(0)
        assert await sent(store) == {"sms.main": 0}, "not before its time"
        await eventually(is_written, what="the sums were not written")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
