"""A matcher that kills its process before the nth statement of its window, or after the commit.

`python -m tests.support.dying_matcher URL NTH`
"""

import asyncio
import os
import signal
import sys

from outrider.bootstrap import make_store
from outrider.domain.states import Channel
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Result, Transaction
from tests.support.foundations import foundation


def doomed(script: Transaction[Result], nth: int) -> Transaction[Result]:
    asked, statement = 0, next(script)
    try:
        while True:
            asked += 1
            if asked == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            statement = script.send((yield statement))
    except StopIteration as done:
        result: Result = done.value
        return result


async def main(url: str, nth: int) -> None:
    store = make_store(url)
    common, limits = foundation(store), ReceiptLimits()
    unshared = TargetSharers(common, (), lambda *_: False, limits)
    matcher = ReceiptMatcher(common, lambda _: Channel.SMS, unshared, limits)
    await store.write(doomed(matcher._scripts.window(only_urgent=False), nth))
    # It had fewer statements: the window is committed, and nobody has heard of it.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
