"""Deadlines that pass while a target is closed: ended by the clock, in bulk, with the cause. B1."""

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.targets import Door, Report, TargetPolicy, report
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, submissions, targets
from outrider.kernel.transactions.submissions import Intent
from outrider.kernel.transactions.targets import DoorKey
from outrider.settings import Settings
from outrider.testing.clock import FakeClock
from outrider.testing.launches import registry, target

URL = "http://127.0.0.1:9"
AT_ONCE = 2_000
ENDED_SECONDS, ENDED_PER_SECOND = 10.0, 2_000
"""So generous that only a cost which grows faster than the items exceeds it."""
POLICY = TargetPolicy()


async def submit(outrider: Outrider, name: str, count: int) -> list[Intent]:
    payload = {"to": "+447700900123", "message": "Hi"}
    made: list[Intent] = []
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        batch = [Submission(f"{name}-{number}", "sms", payload) for number in numbers]
        for answer in await outrider.submissions.submit_all(DEFAULT_SCOPE, batch):
            assert isinstance(answer, tuple)
            made.append(answer[0])
    return made


async def endings(outrider: Outrider, intents: list[Intent]) -> Counter[tuple[str, str | None]]:
    keys = [intent.key for intent in intents]
    found = await outrider.store.read(submissions.intents_by_key(DEFAULT_SCOPE, keys))
    return Counter((each.status, each.exhausted_reason) for each in found.values())


async def throttle(outrider: Outrider, clock: FakeClock) -> None:
    def closed(door: Door) -> tuple[Door, None]:
        return report(door, POLICY, Report(door.epoch, throttled=1), clock.now()), None

    key = DoorKey("sms", URL)
    await outrider.store.write(targets.change_door(key, POLICY, closed, clock.now()))


@pytest.mark.parametrize(
    "count", [10_000, pytest.param(100_000, marks=pytest.mark.storm, id="storm")]
)
async def test_late_items_end_in_bulk_and_the_others_stay(
    database: str, tmp_path: Path, count: int
) -> None:
    """B1: ended by the clock alone; `make storms` does a hundred thousand."""
    file, clock = tmp_path / "registry.json", FakeClock()
    file.write_bytes(
        registry(target("sms", "sms", URL, policy="deadline", maxAcceptanceSeconds=30))
    )
    settings = Settings(database_url=database, registry=file, spool=tmp_path / "spool")
    async with open_outrider(settings, clock=clock) as outrider:
        await outrider.store.migrate()
        early = await submit(outrider, "early", count)
        await throttle(outrider, clock)
        clock.advance(20)
        late = await submit(outrider, "late", 10)
        assert await outrider.deadline_expirer.expire() == 0
        clock.advance(10)
        began = time.perf_counter()
        assert await outrider.deadline_expirer.expire() == count
        seconds = time.perf_counter() - began
        assert seconds < ENDED_SECONDS + count / ENDED_PER_SECOND, f"{count:,} in {seconds:.1f} s"
        print(f"{count:,} items ended in {seconds:.1f} s")
        assert await endings(outrider, early) == {("EXHAUSTED", "deadline_exceeded"): count}
        assert await endings(outrider, late) == {("PENDING", None): 10}
        clock.advance(20)
        assert await outrider.deadline_expirer.expire() == 10
        clock.advance(timedelta(days=1).total_seconds())
        assert await outrider.deadline_expirer.expire() == 0


async def test_an_item_that_ended_says_that_its_target_was_throttled(
    database: str, tmp_path: Path
) -> None:
    """S3: deadlines are judged by what was possible, and the item says what kept it."""
    file, clock = tmp_path / "registry.json", FakeClock()
    file.write_bytes(
        registry(target("sms", "sms", URL, policy="deadline", maxAcceptanceSeconds=30))
    )
    settings = Settings(database_url=database, registry=file, spool=tmp_path / "spool")
    async with open_outrider(settings, clock=clock) as outrider:
        await outrider.store.migrate()
        [intent] = await submit(outrider, "one", 1)
        await throttle(outrider, clock)
        clock.advance(30)
        await outrider.deadline_expirer.expire()
        explained = await outrider.submissions.intent(DEFAULT_SCOPE, intent.intent_id)
        assert explained[1] == [], "nobody was called, so there is no attempt"
        [item] = await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, [intent.outbox_id]))
        assert item.reason == "target_throttled"
