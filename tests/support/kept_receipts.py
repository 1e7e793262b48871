"""An inbox in memory: the accepted receipts in order, and a signal for those who wait for one."""

import asyncio
from collections.abc import Sequence

from outrider.domain.receipts import Receipt


class KeptReceipts:
    """A small real inbox: a receipt that is known already changes nothing."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, str, str], Receipt] = {}
        self.calls = 0
        self.is_down = False
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()

    async def take(
        self, workspace: str, submission_target: str, receipts: Sequence[Receipt]
    ) -> None:
        self.calls += 1
        self._asked.set()
        if self.is_down:
            raise ConnectionError("the database is away")
        for receipt in receipts:
            self.taken.setdefault((workspace, submission_target, receipt.receipt_id), receipt)
        self._changed.set()

    async def until_asked(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await self._asked.wait()

    async def until(self, count: int, seconds: float) -> list[Receipt]:
        async with asyncio.timeout(seconds):
            while len(self.taken) < count:
                self._changed.clear()
                await self._changed.wait()
        return list(self.taken.values())
