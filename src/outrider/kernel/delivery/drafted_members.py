"""Drafted members: the people of a job as a source of calls, screened and rendered ahead.

How many are drafted at once has nothing to do with how many may be called: a target that takes one
call at a time is no reason to render one text at a time, and whoever is not called at all holds up
nobody who is.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from outrider.domain.states import ItemStatus
from outrider.kernel.transactions.ledger import Member
from outrider.kernel.transactions.reserving import Draft


class DraftedMembers:
    def __init__(
        self,
        members: Sequence[Member],
        window_items: int,
        draft: Callable[[Sequence[Member]], Awaitable[list[Draft]]],
    ) -> None:
        self._members = members
        self._window_items = window_items
        self._draft = draft
        self._drafted = 0
        self._ready: deque[Draft] = deque()
        self._to_call = 0

    def waiting(self) -> int:
        """As far as is known: one, where all that is drafted only needs to be written down."""
        if self._ready:
            return self._to_call or 1
        return len(self._members) - self._drafted

    async def prepare(self) -> None:
        if self._ready:
            return
        window = self._members[self._drafted : self._drafted + self._window_items]
        drafts = await self._draft(window)
        self._drafted += len(window)
        self._ready.extend(drafts)
        self._to_call += sum(map(_is_to_call, drafts))

    def take(self, most: int) -> Sequence[Draft]:
        """So many to be called, and whoever stands before and behind them and is not."""
        taken: list[Draft] = []
        while self._ready:
            if _is_to_call(self._ready[0]):
                if most == 0:
                    break
                most -= 1
                self._to_call -= 1
            taken.append(self._ready.popleft())
        return taken

    async def more(self) -> bool:
        return False


def _is_to_call(draft: Draft) -> bool:
    return draft.status is ItemStatus.QUEUED
