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
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.foundation import Foundation
from outrider.kernel.receipts.opt_out_answerer import OptOutAnswerer
from outrider.kernel.receipts.receipt_matcher import ReceiptMatcher
from outrider.kernel.receipts.target_sharers import TargetSharers
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.store import Result, Store, Transaction
from outrider.testing.store_suite.workshop import CONTRACT
from tests.support.foundations import foundation

SURVIVED = "all of it is committed"


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


def answering_matcher(common: Foundation) -> ReceiptMatcher:
    """One that answers STOP and HELP."""
    limits = ReceiptLimits()
    unshared = TargetSharers(common, (), lambda *_: False, limits)
    contracts = {CONTRACT.submission_target: CONTRACT}
    answerer = OptOutAnswerer(lambda: contracts, GATEWAY_TYPES, lambda *_: "You are heard.")
    return ReceiptMatcher(
        common, lambda _: Channel.SMS, unshared, limits, answer_of=answerer.answer
    )


async def main(url: str, nth: int) -> None:
    dying = DyingStore(make_store(url), nth)
    await answering_matcher(foundation(cast(Store, dying))).match_due()
    # It had fewer statements: the window is committed, and nobody has heard of it.
    print(SURVIVED, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
