"""Drafted members: rendered in windows of their own, taken as calls have room."""

import asyncio
from collections.abc import Sequence

from outrider.domain.ids import IdempotencyKey, OutboxId, RecipientId
from outrider.domain.states import ItemStatus
from outrider.kernel.delivery.drafted_members import DraftedMembers
from outrider.kernel.transactions.ledger import Member
from outrider.kernel.transactions.reserving import Draft


def member(number: int) -> Member:
    return Member(RecipientId(str(number)), "a@example.test", "{}", invalid=False, duplicate=False)


def draft_of(member: Member, status: ItemStatus) -> Draft:
    return Draft(
        OutboxId(member.recipient_id), member.recipient_id, None, None, "", IdempotencyKey("k"),
        status, None, None,
    )  # fmt: skip


class Scene:
    """So many people, of whom those whose number divides by three have no address."""

    def __init__(self, count: int, window: int) -> None:
        self.windows: list[int] = []
        self.source = DraftedMembers([member(n) for n in range(count)], window, self._draft)

    async def _draft(self, members: Sequence[Member]) -> list[Draft]:
        self.windows.append(len(members))
        return [
            draft_of(each, ItemStatus.QUEUED if int(each.recipient_id) % 3 else ItemStatus.SKIPPED)
            for each in members
        ]

    def taken(self, most: int) -> list[int]:
        return [int(draft.recipient_id) for draft in self.source.take(most)]


def test_nothing_is_drafted_before_it_is_known_that_some_will_be_called() -> None:
    scene = Scene(5, 10)
    assert scene.source.waiting() == 5
    assert scene.windows == []


def test_recipients_that_are_not_called_do_not_count_towards_a_cap() -> None:
    scene = Scene(9, 10)
    asyncio.run(scene.source.prepare())
    assert scene.source.waiting() == 6
    assert scene.taken(2) == [0, 1, 2, 3]
    assert scene.taken(1) == [4]
    assert scene.taken(100) == [5, 6, 7, 8]
    assert scene.source.waiting() == 0
    assert not asyncio.run(scene.source.more())


def test_recipients_without_an_address_are_still_imported() -> None:
    scene = Scene(1, 10)
    asyncio.run(scene.source.prepare())
    assert scene.source.waiting() == 1
    assert scene.taken(1) == [0]


def test_windows_are_as_large_as_they_may_be_whatever_is_taken() -> None:
    scene = Scene(25, 10)
    taken: list[int] = []
    while scene.source.waiting():
        asyncio.run(scene.source.prepare())
        taken += scene.taken(1)
    assert taken == list(range(25))
    assert scene.windows == [10, 10, 5]
