"""Events that the bus could not deliver: listed, and delivered again."""

from typing import Annotated

from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.bus import AllRedriven, LetterAnswer, Redriven
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.kernel.transactions.paging import FIRST

router = api_router("bus")


@router.get(
    "/bus/dead-letters",
    operation_id="listDeadLetters",
    summary="List run events that could not be delivered to a sink, oldest first",
)
async def list_dead_letters(
    outrider: Wired,
    asker: Asker,
    waiting: Annotated[bool, Query(description="Only dead letters not redriven yet.")] = False,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[LetterAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.bus_keeper.letters(asker.scope, begin, limit, only_waiting=waiting)
    return Page(
        items=[LetterAnswer.of(letter) for letter in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.post(
    "/bus/dead-letters/redrive",
    operation_id="redriveDeadLetters",
    summary="Redrive all dead letters",
)
async def redrive_all(outrider: Wired, asker: Asker) -> AllRedriven:
    redriven = await outrider.bus_keeper.redrive_all(asker.scope, asker.actor)
    return AllRedriven(redriven=redriven)


@router.post(
    "/bus/dead-letters/{letter_id}/redrive",
    operation_id="redriveDeadLetter",
    summary="Redrive one dead letter",
)
async def redrive(letter_id: str, outrider: Wired, asker: Asker) -> Redriven:
    sink = await outrider.bus_keeper.redrive(asker.scope, letter_id, asker.actor)
    return Redriven(id=letter_id, sink=sink)
