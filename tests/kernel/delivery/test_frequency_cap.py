"""The frequency cap is exact: sixty-four workers, one address, a cap of one, ten thousand tries."""

import asyncio
from collections import Counter
from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.screen_policies import FrequencyCap
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.frequency import CappedItem, admit
from outrider.testing.launches import target
from tests.support.whole_runs import opened

WORKERS = 64
TRIES = 10_000
WINDOW = 20
PHONE = "+447700900123"
OTHER = "+447700900124"


async def test_ten_thousand_tries_of_sixty_four_workers_send_one_message(
    database: str, tmp_path: Path
) -> None:
    """Every other message is to another address, so that windows lock several, in any order."""
    async with opened(
        database, tmp_path, target("sms.all", "sms", "http://127.0.0.1:9")
    ) as outrider:
        submissions = [
            Submission(
                f"intent-{number}",
                "sms.all",
                {"to": PHONE if number % 2 else OTHER, "message": "Hello"},
            )
            for number in range(TRIES)
        ]
        items: list[CappedItem] = []
        for begin in range(0, TRIES, 1_000):
            window = submissions[begin : begin + 1_000]
            for taken in await outrider.submissions.submit_all(DEFAULT_SCOPE, window):
                assert isinstance(taken, tuple)
                address = PHONE if len(items) % 2 else OTHER
                items.append(CappedItem(taken[0].outbox_id, "sms", address))
        cap = FrequencyCap(1, 24)
        admitted: Counter[str | None] = Counter()

        async def tries(mine: list[CappedItem]) -> None:
            for begin in range(0, len(mine), WINDOW):
                window = mine[begin : begin + WINDOW]
                script = admit(DEFAULT_SCOPE, window, cap, outrider.clock.now())
                beyond = await outrider.store.write(script)
                admitted.update(item.address for item in window if item.id not in beyond)

        await asyncio.gather(*(tries(items[worker::WORKERS]) for worker in range(WORKERS)))
    assert admitted == {PHONE: 1, OTHER: 1}
