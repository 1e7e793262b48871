"""Domain events (contract 004): accepted once per sender's id, shown, explained, routed again."""

from typing import Annotated

import msgspec
from fastapi import Query, Response

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.blockers import blocker_answers
from outrider.api.models.common import Page
from outrider.api.models.domain_events import (
    EventAnswer,
    EventExplanation,
    Rerouted,
    WholeEvent,
)
from outrider.api.raw_paths import RawPathRoute
from outrider.api.route import api_router, options
from outrider.documents.emission import TRIGGER_PATTERN, EmissionDocument
from outrider.domain.errors import Conflict
from outrider.domain.workflows import EventStatus
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.workflows.event_documents import event_document, whole_event_document
from outrider.tracing import trace_parent

router = api_router("events", RawPathRoute)


@router.post(
    "/events",
    status_code=201,
    operation_id="emitEvent",
    summary="Record a domain event, which starts the workflows for its trigger",
    response_model=EventAnswer,
    responses={200: {"model": EventAnswer, "description": "The event was received before."}},
    openapi_extra=options(idempotent=False),
)
async def emit(body: EmissionDocument, outrider: Wired, asker: Asker) -> Response:
    event, is_new = await outrider.event_intake.emit(asker.scope, body.emission(), trace_parent())
    return _answer(event_document(event), 201 if is_new else 200)


@router.get(
    "/events",
    operation_id="listEvents",
    summary="List domain events, newest first",
    response_model=Page[EventAnswer],
)
async def list_events(
    outrider: Wired,
    asker: Asker,
    status: EventStatus | None = None,
    trigger: Annotated[str | None, Query(pattern=TRIGGER_PATTERN)] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Response:
    before = cursors.id_after(after, LAST)
    found = await outrider.event_intake.page(
        asker.scope, before, limit, status=status, trigger=trigger
    )
    following = cursors.encode(found[-1].id) if len(found) == limit else None
    return _answer({"items": [event_document(event) for event in found], "next": following})


@router.get(
    "/events/{event_id:path}/explain",
    operation_id="explainEvent",
    summary="Explain what happened to an event, for everyone or for one recipient",
)
async def explain(
    event_id: str,
    outrider: Wired,
    asker: Asker,
    recipient: Annotated[str | None, Query(description="A recipient ID or an address.")] = None,
) -> EventExplanation:
    found = await outrider.event_explainer.explain_whole(asker.scope, event_id, recipient)
    return EventExplanation(
        event_id=event_id, sentences=found.sentences, blockers=blocker_answers(found.blockers)
    )


@router.get(
    "/events/{event_id:path}",
    operation_id="getEvent",
    summary="Get an event with its routes and messages",
    response_model=WholeEvent,
)
async def show(event_id: str, outrider: Wired, asker: Asker) -> Response:
    event, items = await outrider.event_intake.event(asker.scope, event_id)
    contents = await outrider.event_intake.contents(asker.scope, event_id)
    return _answer(whole_event_document(event, contents, items))


@router.post(
    "/events/{event_id:path}/reroute",
    status_code=202,
    operation_id="rerouteEvent",
    summary="Process the failed parts of an event again",
)
async def reroute(event_id: str, outrider: Wired, asker: Asker) -> Rerouted:
    if not await outrider.event_intake.reroute(asker.scope, event_id):
        raise Conflict(f"event '{event_id}' has no failed routes, so there is nothing to reroute")
    return Rerouted(event_id=event_id)


def _answer(document: object, status: int = 200) -> Response:
    """Encoded here: this route is busy, and most of its response is already JSON."""
    return Response(msgspec.json.encode(document), status, media_type="application/json")
