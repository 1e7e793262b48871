"""Opt-outs: addresses to which no message may be sent."""

from typing import Annotated

from fastapi import Query

from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.admin import (
    SuppressionAnswer,
    SuppressionsBody,
    SuppressionsDone,
    UnsuppressBody,
)
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.api.suppression_lines import suppressions_page
from outrider.documents.addresses import normalised
from outrider.domain.addresses import EMAIL_MAX_CHARACTERS
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.purposes import TOPIC_PATTERN
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut

router = api_router("suppressions")


@router.get("/suppressions", operation_id="listSuppressions", summary="List opt-outs")
async def list_suppressions(
    outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[SuppressionAnswer]:
    return await suppressions_page(outrider, asker.scope, limit, after)


@router.post(
    "/suppressions",
    operation_id="suppress",
    summary="Opt addresses out of a channel or topic; pending messages to them are skipped",
)
async def suppress(body: SuppressionsBody, outrider: Wired, asker: Asker) -> SuppressionsDone:
    addresses = normalised(body.channel, body.addresses)
    opt_out = OptOut(
        body.reason, body.source, body.evidence, body.topic, body.include_transactional
    )
    await outrider.suppression_keeper.add(
        asker.scope, body.channel.value, addresses, opt_out, asker.actor
    )
    return SuppressionsDone(channel=body.channel, addresses=len(addresses))


@router.delete(
    "/suppressions",
    operation_id="unsuppress",
    summary="Remove opt-outs, given in the body, or one in the query",
)
async def unsuppress(
    outrider: Wired,
    asker: Asker,
    body: UnsuppressBody | None = None,
    channel: Annotated[Channel | None, Query()] = None,
    address: Annotated[str | None, Query(min_length=1, max_length=EMAIL_MAX_CHARACTERS)] = None,
    topic: Annotated[str | None, Query(pattern=TOPIC_PATTERN)] = None,
) -> SuppressionsDone:
    if body is None:
        if channel is None or address is None:
            raise InvalidInput(
                "no address was given",
                [Problem("channel", "is required"), Problem("addresses", "is required")],
            )
        body = UnsuppressBody(channel=channel, addresses=[_checked(address)], topic=topic)
    addresses = normalised(body.channel, body.addresses)
    removed = await outrider.suppression_keeper.remove(
        asker.scope, body.channel.value, addresses, asker.actor, body.topic
    )
    return SuppressionsDone(channel=body.channel, addresses=removed)


def _checked(address: str) -> str:
    if not address.isprintable():
        raise InvalidInput("this is not an address", [Problem("address", "should be printable")])
    return address
