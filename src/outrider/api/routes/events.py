"""Campaigns' events as they happen: one campaign's stream, and many in one for the console."""

from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response

from outrider.api.context import Asker, Wired, services_of
from outrider.api.models.phases import EventEnvelope
from outrider.api.route import api_router
from outrider.api.sse import EventStream, Positions
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import CampaignId
from outrider.domain.keys import KeyScope
from outrider.kernel.transactions import campaigns
from outrider.limits.api import ApiLimits

router = api_router("phases")

SEQUENCE_MAX_DIGITS = 18
CAMPAIGNS_MAX_CHARACTERS = ApiLimits.stream_campaigns * (36 + 1 + SEQUENCE_MAX_DIGITS + 1)


@router.get(
    "/campaigns/{campaign_id}/events",
    operation_id="watchCampaign",
    summary="Server-sent events of a campaign (contract 003)",
    response_class=Response,
    responses={
        200: {
            "description": "Resumes behind `Last-Event-ID`, which wins, or `after`; without either"
            " only new events come. A request for events after a sequence that the campaign has"
            " not reached is first sent `snapshot_required`, then what comes from now on.",
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
    after: Annotated[str | None, Query(description="Only events after this sequence.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="Sent by browsers when they reconnect.")
    ] = None,
) -> Response:
    record = await outrider.store.read(campaigns.campaign(asker.scope, CampaignId(campaign_id)))
    given = last_event_id if last_event_id is not None else after
    begin = record.last_sequence if given is None else _sequence(given, last_event_id is not None)
    services = services_of(request)
    return EventStream(
        outrider.hub,
        services.streams,
        asker,
        services.limits,
        {record.id: begin},
        {record.id: record.last_sequence},
        lambda positions: str(positions[record.id]),
        lambda: services.doorkeeper.is_still_good(request, KeyScope.READ),
    )


@router.get(
    "/stream",
    operation_id="watchCampaigns",
    summary="Server-sent events of several campaigns, in one connection",
    response_class=Response,
    responses={
        200: {
            "description": "Each event's `id` is a position in the whole stream, as `campaigns` is"
            " written. Resumes behind `Last-Event-ID`, which wins, or what `campaigns` says."
            " `snapshot_required` comes first for a campaign that has not got that far.",
            "model": EventEnvelope,
            "content": {"text/event-stream": {}},
        }
    },
)
async def stream(
    request: Request,
    outrider: Wired,
    asker: Asker,
    given: Annotated[
        str,
        Query(
            alias="campaigns",
            min_length=1,
            max_length=CAMPAIGNS_MAX_CHARACTERS,
            description="`ID@SEQUENCE,ID@SEQUENCE`: later events of each. Of one without a"
            f" sequence only new events come. At most {ApiLimits.stream_campaigns}.",
        ),
    ],
    last_event_id: Annotated[
        str | None, Header(description="Sent by browsers when they reconnect.")
    ] = None,
) -> Response:
    services = services_of(request)
    asked = _positions(given, "campaigns", services.limits.stream_campaigns)
    if last_event_id:
        seen = _positions(last_event_id, "Last-Event-ID", services.limits.stream_campaigns)
        asked |= {each: sequence for each, sequence in seen.items() if each in asked}
    latest = await outrider.store.read(campaigns.last_sequences(asker.scope, list(asked)))
    begins = {
        each: latest[each] if sequence is None else sequence for each, sequence in asked.items()
    }
    return EventStream(
        outrider.hub,
        services.streams,
        asker,
        services.limits,
        begins,
        latest,
        _cursor,
        lambda: services.doorkeeper.is_still_good(request, KeyScope.READ),
    )


def _cursor(positions: Positions) -> str:
    return ",".join(f"{campaign_id}@{sequence}" for campaign_id, sequence in positions.items())


def _positions(given: str, where: str, most: int) -> dict[CampaignId, int | None]:
    positions: dict[CampaignId, int | None] = {}
    pieces = given.split(",")
    problem = "the streams cannot start at this position"
    if len(pieces) > most:
        raise InvalidInput(problem, [Problem(where, f"should name at most {most} campaigns")])
    for piece in pieces:
        campaign_id, at, sequence = piece.partition("@")
        if campaign_id in positions:
            raise InvalidInput(problem, [Problem(where, f"names {campaign_id[:36]} twice")])
        if not campaign_id or (at and not _is_sequence(sequence)):
            raise InvalidInput(problem, [Problem(where, "should be like ID@SEQUENCE,ID@SEQUENCE")])
        positions[CampaignId(campaign_id)] = int(sequence) if at else None
    return positions


def _sequence(given: str, in_header: bool) -> int:
    if not _is_sequence(given):
        where = "Last-Event-ID" if in_header else "after"
        raise InvalidInput(
            "the stream cannot start at this position",
            [Problem(where, "should be an event's sequence")],
        )
    return int(given)


def _is_sequence(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= SEQUENCE_MAX_DIGITS
