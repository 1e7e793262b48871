"""A matcher that is killed anywhere in its window has done all of it or nothing, once."""

import asyncio
import signal
import sys
from datetime import UTC, datetime

import pytest

from outrider.domain.receipts import DeliveryState, ReceiptEvent
from outrider.kernel.transactions import receipts
from outrider.ports.store import Store
from tests.support.receipt_scene import Scene

ITEMS = 20


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 6, 8, 10, 99])
async def test_a_kill_between_intake_and_match_loses_and_repeats_nothing(
    store: Store, database: str, nth: int
) -> None:
    scene = Scene(store, datetime.now(UTC))
    run_id, _, items = await scene.sent(ITEMS)
    for item in items:
        await scene.take(ReceiptEvent.DELIVERED, item)
    await scene.take(ReceiptEvent.REPLIED, items[0], sender="+447700000000", text="STOP")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.dying_matcher", database, str(nth)
    )
    assert await child.wait() == -signal.SIGKILL
    scene.clock.advance(3_600)
    async with asyncio.timeout(60):
        # Postgres holds a dead client's rows until it has noticed, and others skip them meanwhile.
        while await store.read(receipts.next_due()) is not None:
            await scene.match()
    assert await scene.counts(run_id) == {
        DeliveryState.DELIVERED: ITEMS - 1, DeliveryState.REPLIED: 1,
    }  # fmt: skip
    assert set(await scene.suppressed()) == {"+447700000000"}
    assert await scene.unmatched() == []
