"""Drafted members: a job's members as a source of calls, screened and rendered ahead.

The drafting window is independent of how many calls may be made: a target that takes one call at a
time still gets its texts in batches, and skipped members never block the others.
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
        self.draft = draft
        self._drafted = 0
        self._ready: deque[Draft] = deque()
        self._to_call = 0

    def waiting(self) -> int:
        """As far as is known: one, if all drafts only need to be recorded."""
        if self._ready:
            return self._to_call or 1
        return len(self._members) - self._drafted

    async def prepare(self) -> None:
        if self._ready:
            return
        window = self._members[self._drafted : self._drafted + self._window_items]
        drafts = await self.draft(window)
        self._drafted += len(window)
        self._ready.extend(drafts)
        self._to_call += sum(map(_is_to_call, drafts))

    def take(self, most: int) -> Sequence[Draft]:
        """Up to `most` drafts to call, with the adjacent ones that only need to be recorded."""
        taken: list[Draft] = []
        while self._ready:
            if _is_to_call(self._ready[0]):
                if most == 0:
                    break
                most -= 1
                self._to_call -= 1
            taken.append(self._ready.popleft())
        return taken

    def take_undrafted(self) -> list[Member]:
        """Everything that is not drafted yet; whoever takes it drafts it."""
        rest = list(self._members[self._drafted :])
        self._drafted = len(self._members)
        return rest

    def put_back(self, members: Sequence[Member]) -> None:
        self._members = [*self._members[: self._drafted], *members]

    async def more(self) -> bool:
        return False


def _is_to_call(draft: Draft) -> bool:
    return draft.status is ItemStatus.QUEUED
