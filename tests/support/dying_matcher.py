"""A matcher that kills its process before its nth statement, or after its window's last commit.

`python -m tests.support.dying_matcher URL NTH`
"""

import asyncio
import os
import signal
import sys
from typing import Any, cast

from outrider.bootstrap import make_store
from outrider.domain.states import Channel
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Result, Store, Transaction
from tests.support.foundations import foundation


class DyingStore:
    """Passes everything on, up to the nth statement of all its transactions."""

    def __init__(self, store: Store, nth: int) -> None:
        self._store, self._left = store, nth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, script: Transaction[Result]) -> Result:
        return await self._store.write(self._doomed(script))

    def _doomed(self, script: Transaction[Result]) -> Transaction[Result]:
        try:
            statement = next(script)
            while True:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                statement = script.send((yield statement))
        except StopIteration as done:
            result: Result = done.value
            return result


async def main(url: str, nth: int) -> None:
    dying = cast(Store, DyingStore(make_store(url), nth))
    common, limits = foundation(dying), ReceiptLimits()
    unshared = TargetSharers(common, (), lambda *_: False, limits)
    matcher = ReceiptMatcher(common, lambda _: Channel.SMS, unshared, limits)
    await matcher.match_due()
    # It had fewer statements: the window is committed, and nobody has heard of it.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
