"""The log of a run: its events in order, and the snapshot now or at any of them."""

import asyncio
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from outrider.api.context import PAGE_DEFAULT, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.run_log import RunEventLine, RunSnapshotAnswer, events_page
from outrider.api.route import api_router
from outrider.domain.ids import RunId
from outrider.kernel.runs.run_reader import encoded
from outrider.kernel.transactions.run_log import LAST_SEQ

router = api_router("runs")


@router.get(
    "/runs/{run_id}/events",
    operation_id="listRunEvents",
    summary="List a run's events in order",
)
async def list_events(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    limit: Limit = PAGE_DEFAULT,
    after: Annotated[
        int,
        Query(ge=0, le=LAST_SEQ, description="Only events with a higher `runSeq`."),
    ] = 0,
) -> Page[RunEventLine]:
    events = await outrider.run_reader.events(asker.scope, RunId(run_id), after, limit)
    return events_page(events, limit)


@router.get(
    "/runs/{run_id}/snapshot",
    operation_id="getRunSnapshot",
    summary="Get a run's snapshot, now or after one of its events",
    response_model=RunSnapshotAnswer,
)
async def show_snapshot(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    at: Annotated[
        int | None,
        Query(ge=0, le=LAST_SEQ, description="The state after the event with this `runSeq`."),
    ] = None,
) -> Response:
    snapshot = await outrider.run_reader.whole_snapshot(asker.scope, RunId(run_id), at)
    # Encoded here and in a thread: a run may have very many steps.
    document = await asyncio.to_thread(encoded, snapshot)
    return Response(document, media_type="application/json")
