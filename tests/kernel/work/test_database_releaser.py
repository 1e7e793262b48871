"""A restored database: it sends nothing until it is released, and then nobody hears twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.blocker_facts import BlockerCode
from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.alerts import AlertCode
from outrider.testing.launches import launch, message, people, until_terminal
from tests.support.database_copies import copied
from tests.support.doubt_scene import ended, left_to_people, payload, scene, until, verdicts
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working

PEOPLE, MESSAGES = 40, 12
SECONDS = 600.0
WINDOW = 200
SLOW = Faults(latency_ms=40)
BY_KEY = {"remembers_references": "for_good", "look_up_url": None}
BY_NOTHING = {"remembers_references": "never", "look_up_url": None}
BY_LOOK_UP = {"remembers_references": "never"}


async def begun(outrider: Outrider, sandbox: Sandbox, count: int = PEOPLE) -> RunId:
    """A launch and single messages, stopped in the middle."""
    run_id = await launch(
        outrider, [message(Channel.SMS, "t", body="Hi")], people(count), batch_size=count // 5
    )
    for number in range(MESSAGES):
        given = Submission(f"i-{number}", "t", payload("sms", number))
        await outrider.submissions.submit(DEFAULT_SCOPE, given)
    async with working(outrider):
        await until(lambda: sandbox.requests >= (count + MESSAGES) // 4)
    return run_id


async def quarantined(outrider: Outrider) -> None:
    assert await outrider.database_releaser.quarantine() is not None


@pytest.mark.parametrize(
    ("settings", "kind"),
    [(BY_KEY, "key"), (BY_LOOK_UP, "look-up"), (BY_NOTHING, "nothing")],
    ids=["key", "look-up", "nothing"],
)
async def test_a_restored_backup_sends_nothing_until_released_and_nothing_twice(
    database: str, tmp_path: Path, settings: dict[str, Any], kind: str
) -> None:
    async with Sandbox(SLOW) as sandbox:
        async with scene(database, tmp_path, sandbox, "sms", settings=settings) as outrider:
            run_id = await begun(outrider, sandbox)
        async with copied(database, tmp_path / "backup") as backup:
            async with (
                scene(database, tmp_path, sandbox, "sms", settings=settings) as outrider,
                working(outrider),
            ):
                await until_terminal(outrider, run_id)
                await ended(outrider, MESSAGES)
            assert sandbox.deliveries.total() == PEOPLE + MESSAGES
            called = sandbox.requests
            async with (
                scene(backup, tmp_path / "backup", sandbox, "sms", settings=settings) as outrider,
                working(outrider),
            ):
                await asyncio.sleep(0.5)
                await quarantined(outrider)
                [blocker] = await outrider.blocker_finder.of_run(run_id)
                assert blocker.code is BlockerCode.DATABASE_RESTORED
                assert sandbox.requests == called
                await outrider.database_releaser.release("test")
                if kind == "nothing":
                    waiting = await open_items(backup)
                    await left_to_people(backup, waiting)
                    assert sandbox.requests == called
                    return
                await until_terminal(outrider, run_id)
                await ended(outrider, MESSAGES)
                found = await verdicts(outrider)
            assert kind != "look-up" or found
        assert set(sandbox.deliveries.values()) == {1}
        assert sandbox.deliveries.total() == PEOPLE + MESSAGES


@pytest.mark.parametrize(
    "count",
    [PEOPLE, pytest.param(3_000, id="3000-storm", marks=pytest.mark.storm)],
)
async def test_receipts_settle_what_a_restored_backup_does_not_know_it_sent(
    database: str, tmp_path: Path, count: int
) -> None:
    """A9 at its size: a restored backup once mailed 2,264 of 3,000 people twice."""
    async with Sandbox(SLOW) as sandbox:
        async with scene(database, tmp_path, sandbox, "sms", settings=BY_NOTHING) as outrider:
            run_id = await begun(outrider, sandbox, count)
        async with copied(database, tmp_path / "backup") as backup:
            async with (
                scene(database, tmp_path, sandbox, "sms", settings=BY_NOTHING) as outrider,
                working(outrider),
            ):
                await until_terminal(outrider, run_id, seconds=SECONDS)
                await ended(outrider, MESSAGES)
            called = sandbox.requests
            async with (
                scene(backup, tmp_path / "backup", sandbox, "sms", settings=BY_NOTHING) as outrider,
                working(outrider),
            ):
                await outrider.database_releaser.release("test")
                await open_items(backup, count)
                references = list(sandbox.deliveries)
                for start in range(0, len(references), WINDOW):
                    window = [
                        Receipt(f"r-{each}", ReceiptEvent.DELIVERED, each)
                        for each in references[start : start + WINDOW]
                    ]
                    await outrider.receipt_intake.take_in(DEFAULT_SCOPE, "t", window)
                accounting = await until_terminal(outrider, run_id, seconds=SECONDS)
                await ended(outrider, MESSAGES)
        assert accounting.sent == count
        assert sandbox.requests == called
        assert sandbox.deliveries.total() == count + MESSAGES
        assert set(sandbox.deliveries.values()) == {1}


async def open_items(database: str, count: int = PEOPLE) -> int:
    """Once every member has a row."""
    async with asyncio.timeout(SECONDS), raw_sql(database) as raw:
        while True:
            [(rows, waiting)] = await raw.run(
                "SELECT count(*), sum(CASE WHEN status = 'queued' THEN 1 ELSE 0 END)"
                " FROM channel_outbox"
            )
            if rows == count + MESSAGES:
                return int(str(waiting))
            await asyncio.sleep(0.05)


async def test_a_database_that_has_everything_goes_on_where_it_was(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(SLOW) as sandbox:
        async with scene(database, tmp_path, sandbox, "sms", settings=BY_NOTHING) as outrider:
            run_id = await begun(outrider, sandbox)
        async with (
            copied(database, tmp_path / "moved") as moved,
            scene(moved, tmp_path / "moved", sandbox, "sms", settings=BY_NOTHING) as outrider,
            working(outrider),
        ):
            await quarantined(outrider)
            await outrider.database_releaser.release("test", nothing_lost=True)
            await until_terminal(outrider, run_id)
            await ended(outrider, MESSAGES)
            async with raw_sql(moved) as raw:
                told = await raw.run(
                    "SELECT resolved_at IS NULL FROM alerts"
                    f" WHERE code = '{AlertCode.DATABASE_RESTORED}'"
                )
        assert sandbox.deliveries.total() == PEOPLE + MESSAGES
        assert [bool(is_open) for (is_open,) in told] == [False]


async def test_only_a_database_in_quarantine_is_released(noop_outrider: Outrider) -> None:
    with pytest.raises(Conflict):
        await noop_outrider.database_releaser.release("test")
