"""An opt-out between plan and send: whoever is opted out before the reservation is never called."""

import asyncio
import random
from datetime import datetime
from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.receipt_matching import WindowOutcome
from outrider.testing.launches import launch, message, people, target, until_terminal
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

TARGET = "sms.main"
RACES = 1_000
AT_ONCE = 50
JOB_ITEMS = 20
TOGETHER = 50
PATIENCE_SECONDS = 240


async def test_in_1000_races_nobody_who_had_opted_out_is_called(
    database: str, tmp_path: Path
) -> None:
    """Each pair of an opt-out and a message begins at its own moments. An attempt's time is taken
    before the statement that opens it, so that one which is later than the commit of the opt-out
    was opened by somebody who could see it."""
    chance = random.Random(19)
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, target(TARGET, "sms", sandbox.http_url)) as outrider,
        working(outrider),
    ):
        turns = asyncio.Semaphore(AT_ONCE)
        known_at = noted_opt_outs(outrider)

        async def race(number: int) -> None:
            address = address_of(number)
            message = Submission(f"i-{number}", TARGET, {"to": address, "message": "Hi"})

            async def opts_out() -> None:
                await asyncio.sleep(chance.random() * 0.1)
                await opt_out(outrider, number)

            async def sends() -> None:
                await asyncio.sleep(chance.random() * 0.1)
                await outrider.submissions.submit(DEFAULT_SCOPE, message)

            async with turns:
                await asyncio.gather(opts_out(), sends())

        await asyncio.gather(*(race(number) for number in range(RACES)))
        sent = await sent_but_to_nobody_who_had_opted_out(database, known_at)
    assert sandbox.requests == sent


async def test_in_a_campaign_under_way_nobody_who_had_opted_out_is_called(
    database: str, tmp_path: Path
) -> None:
    """Everybody in it opts out, in an order of their own, while its jobs are planned and sent."""
    chance, numbers = random.Random(19), list(range(RACES))
    chance.shuffle(numbers)
    async with (
        Sandbox(Faults(latency_ms=5)) as sandbox,
        opened(database, tmp_path, target(TARGET, "sms", sandbox.http_url)) as outrider,
        working(outrider),
    ):
        known_at = noted_opt_outs(outrider)
        assets, audience = [message(Channel.SMS, TARGET)], people(RACES)
        assert audience[0].phone == address_of(0)
        run_id = await launch(outrider, assets, audience, batch_size=JOB_ITEMS)
        for first in range(0, RACES, TOGETHER):
            await asyncio.gather(
                *(opt_out(outrider, each) for each in numbers[first : first + TOGETHER])
            )
            await asyncio.sleep(chance.random() * 0.1)
        await until_terminal(outrider, run_id, seconds=PATIENCE_SECONDS)
        sent = await sent_but_to_nobody_who_had_opted_out(database, known_at)
    assert sandbox.requests == sent


def address_of(number: int) -> str:
    return f"+4477{number:08d}"


async def opt_out(outrider: Outrider, number: int) -> None:
    receipt = Receipt(f"r-{number}", ReceiptEvent.OPTED_OUT, sender=address_of(number))
    await outrider.receipt_intake.take_in(DEFAULT_SCOPE, TARGET, [receipt])


def noted_opt_outs(outrider: Outrider) -> dict[str, datetime]:
    """When each opt-out was known to be committed, filled as the matcher goes."""
    known_at: dict[str, datetime] = {}
    match_due = outrider.receipt_matcher.match_due

    async def matched(*, only_urgent: bool = False) -> WindowOutcome:
        outcome = await match_due(only_urgent=only_urgent)
        for each in outcome.opted:
            known_at[each.address] = outrider.clock.now()
        return outcome

    outrider.receipt_matcher.match_due = matched  # type: ignore[method-assign]
    return known_at


async def sent_but_to_nobody_who_had_opted_out(database: str, known_at: dict[str, datetime]) -> int:
    async with raw_sql(database) as raw, asyncio.timeout(PATIENCE_SECONDS):
        while True:
            rows = await raw.run(
                "SELECT recipient_address, status, attempt_opened_at FROM channel_outbox"
                " WHERE status <> 'queued'"
            )
            if len(rows) == len(known_at) == RACES:
                break
            await asyncio.sleep(0.1)
    sent = {row[0] for row in rows if row[1] == "sent"}
    skipped = {row[0] for row in rows if row[1] == "skipped"}
    assert len(sent) + len(skipped) == RACES
    # Both happened, or nothing was raced for.
    assert sent
    assert skipped
    late = [
        address
        for address, status, opened_at in rows
        if status == "sent" and _moment(opened_at) > known_at[address]
    ]
    assert late == []
    return len(sent)


def _moment(raw: str | datetime) -> datetime:
    """SQLite's own form is text."""
    return datetime.fromisoformat(raw) if isinstance(raw, str) else raw
