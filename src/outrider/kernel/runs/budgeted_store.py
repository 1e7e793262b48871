"""Writes with a latency budget: a store that takes too long counts as unavailable."""

import asyncio

from outrider.domain.errors import StoreUnavailable
from outrider.domain.write_budget import WriteBudget
from outrider.ports.store import Result, Store, Transaction


class BudgetExceeded(StoreUnavailable):
    code = "WRITE_BUDGET_EXCEEDED"


class BudgetedStore:
    def __init__(self, store: Store, budget: WriteBudget) -> None:
        self._store = store
        self._budget = budget
        self._late: set[asyncio.Task[object]] = set()

    async def write(self, transaction: Transaction[Result]) -> Result:
        """Commit within the budget, or raise BudgetExceeded: it may still have been, or be,
        written."""
        writing = asyncio.create_task(self._store.write(transaction))
        try:
            await asyncio.wait({writing}, timeout=self._budget.seconds)
        finally:
            if not writing.done():
                # Its clean-up may take longer than a caller should wait.
                writing.cancel()
                self._late.add(writing)
                writing.add_done_callback(self._over)
        if writing.done():
            return writing.result()
        raise BudgetExceeded(
            f"the store took longer than {self._budget.milliseconds} ms",
            hint="check the database's load; stateStore.writeLatencyBudgetMs sets the budget",
        )

    def _over(self, task: asyncio.Task[object]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            # The caller has continued without the answer.
            task.exception()
