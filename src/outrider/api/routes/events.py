"""A campaign's events as they happen: the stream that browsers and consoles watch."""

from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response

from outrider.api.context import Asker, Wired, services_of
from outrider.api.models.phases import EventEnvelope
from outrider.api.route import api_router
from outrider.api.sse import EventStream
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import CampaignId
from outrider.domain.keys import KeyScope
from outrider.kernel.transactions import campaigns

router = api_router("phases")

SEQUENCE_MAX_DIGITS = 18


@router.get(
    "/campaigns/{campaign_id}/events",
    operation_id="watchCampaign",
    summary="Server-sent events of a campaign (contract 003)",
    response_class=Response,
    responses={
        200: {
            "description": "Resumes behind `Last-Event-ID`, which wins, or `after`; without either"
            " only new events come.",
            "model": EventEnvelope,
            "content": {"text/event-stream": {}},
        }
    },
)
async def events(
    campaign_id: str,
    request: Request,
    outrider: Wired,
    asker: Asker,
    after: Annotated[str | None, Query(description="A sequence: only later events.")] = None,
    last_event_id: Annotated[str | None, Header(description="What browsers resume with.")] = None,
) -> Response:
    record = await outrider.store.read(campaigns.campaign(asker.scope, CampaignId(campaign_id)))
    given = last_event_id if last_event_id is not None else after
    begin = record.last_sequence if given is None else _sequence(given, last_event_id is not None)
    services = services_of(request)
    return EventStream(
        outrider.hub,
        services.streams,
        services.limits,
        record.id,
        begin,
        lambda: services.doorkeeper.is_still_good(request, KeyScope.READ),
    )


def _sequence(given: str, in_header: bool) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= SEQUENCE_MAX_DIGITS):
        where = "Last-Event-ID" if in_header else "after"
        raise InvalidInput(
            "the stream cannot begin there", [Problem(where, "should be an event's sequence")]
        )
    return int(given)
