"""One person's whole story, and one search for everything that has an address, id or name."""

from typing import Annotated

from fastapi import Query

from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.people import ErasureAnswer, HitAnswer, PersonAnswer, SearchAnswer
from outrider.api.person_page import person_page
from outrider.api.raw_paths import RawPathRoute
from outrider.api.route import api_router
from outrider.limits.people import SEARCH_MAX_CHARACTERS

router = api_router("people", RawPathRoute)


@router.get(
    "/people/{address}",
    operation_id="getPerson",
    summary="Everything known about one email address, phone number, push token or recipient ID",
)
async def show(
    address: str, outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> PersonAnswer:
    return await person_page(outrider, asker.scope, address, limit, after)


@router.post(
    "/people/{address}/erase",
    operation_id="erasePerson",
    summary="Destroy what identifies a person; opt-outs stay as salted hashes, proofs stay valid",
)
async def erase(
    address: str,
    outrider: Wired,
    asker: Asker,
    dry_run: Annotated[
        bool, Query(alias="dryRun", description="Only list what would be erased.")
    ] = False,
) -> ErasureAnswer:
    eraser = outrider.person_eraser
    if dry_run:
        done = await eraser.find(asker.scope, address)
    else:
        done = await eraser.erase(asker.scope, address, asker.actor)
    return ErasureAnswer.of(done, dry_run=dry_run)


@router.get(
    "/search",
    operation_id="search",
    summary="Find people, campaigns, runs, items, events and intents by address, ID or name",
)
async def search(
    outrider: Wired,
    asker: Asker,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=SEARCH_MAX_CHARACTERS,
            description="An address, a recipient ID, a campaign's name or ID, a run, item, event or"
            " intent ID, a reference, or a provider's message ID.",
        ),
    ],
) -> SearchAnswer:
    hits = await outrider.searcher.find(asker.scope, q)
    return SearchAnswer(query=q, items=[HitAnswer.of(hit) for hit in hits])
