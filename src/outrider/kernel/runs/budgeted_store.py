"""Writes with a budget: a store that takes too long is as good as one that is gone."""

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
        """All of it in time, or BudgetExceeded: then it may have been written, or be yet."""
        writing = asyncio.create_task(self._store.write(transaction))
        try:
            await asyncio.wait({writing}, timeout=self._budget.seconds)
        finally:
            if not writing.done():
                # To clean up after itself may take it longer than anybody should wait.
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
            # Whoever asked has gone on without the answer.
            task.exception()
