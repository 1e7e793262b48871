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

    async def write(self, transaction: Transaction[Result]) -> Result:
        """All of it in time, or BudgetExceeded: then it may have been written, or be yet."""
        try:
            async with asyncio.timeout(self._budget.seconds):
                return await self._store.write(transaction)
        except TimeoutError as late:
            raise BudgetExceeded(
                f"the store took longer than {self._budget.milliseconds} ms",
                hint="look at the database's load; stateStore.writeLatencyBudgetMs is the budget",
            ) from late
