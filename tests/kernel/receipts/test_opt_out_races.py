"""An opt-out between plan and send: whoever is opted out before the reservation is never called."""

import asyncio
import random
from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import target
from tests.raw_sql import raw_sql
from tests.whole_runs import opened, working

TARGET = "sms.main"
RACES = 1_000
AT_ONCE = 50
PATIENCE_SECONDS = 240


async def test_of_1000_races_nobody_is_called_who_was_opted_out_before(
    database: str, tmp_path: Path
) -> None:
    """Each pair of an opt-out and a message begins at its own moments. The ledger's own times judge:
    no attempt was opened after the suppression of its address was there."""
    chance = random.Random(19)
    async with (
        Sandbox() as sandbox,
        opened(database, tmp_path, target(TARGET, "sms", sandbox.http_url)) as outrider,
        working(outrider),
    ):
        turns = asyncio.Semaphore(AT_ONCE)

        async def race(number: int) -> None:
            address = f"+4477{number:08d}"
            opt_out = Receipt(f"r-{number}", ReceiptEvent.OPTED_OUT, sender=address)
            message = Submission(f"i-{number}", TARGET, {"to": address, "message": "Hi"})

            async def opts_out() -> None:
                await asyncio.sleep(chance.random() * 0.1)
                await outrider.receipt_intake.take_in(DEFAULT_SCOPE, TARGET, [opt_out])

            async def sends() -> None:
                await asyncio.sleep(chance.random() * 0.1)
                await outrider.submissions.submit(DEFAULT_SCOPE, message)

            async with turns:
                await asyncio.gather(opts_out(), sends())

        await asyncio.gather(*(race(number) for number in range(RACES)))
        async with raw_sql(database) as raw, asyncio.timeout(PATIENCE_SECONDS):
            while True:
                rows = await raw.run(
                    "SELECT o.recipient_address, o.status, o.attempt_opened_at > s.created_at,"
                    " s.source FROM channel_outbox o LEFT JOIN suppressions s"
                    " ON s.address = o.recipient_address WHERE o.status <> 'queued'"
                )
                if len(rows) == RACES and all(row[3] for row in rows):
                    break
                await asyncio.sleep(0.1)
        called = {call["to"] for call in sandbox.calls} if hasattr(sandbox, "calls") else None
    sent = {row[0] for row in rows if row[1] == "sent"}
    skipped = {row[0] for row in rows if row[1] == "skipped"}
    assert len(sent) + len(skipped) == RACES
    assert {row[3] for row in rows} == {"stop"}
    # Both happened, or nothing was raced for.
    assert sent
    assert skipped
    assert [row for row in rows if row[1] == "sent" and row[2]] == []
    assert called is None or called == sent
