"""Opt-outs: addresses that must not be written to, whoever asks."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.admin import (
    SuppressionAnswer,
    SuppressionsBody,
    SuppressionsDone,
    UnsuppressBody,
)
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.domain.addresses import EMAIL_MAX_CHARACTERS
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.recipients import (
    AddressKind,
    address_kind,
    recipient,
)
from outrider.domain.states import Channel

router = api_router("suppressions")


@router.get("/suppressions", operation_id="listSuppressions", summary="Who has opted out")
async def list_suppressions(
    outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[SuppressionAnswer]:
    channel, address = cursors.decode(after, 2) if after is not None else ("", "")
    found = await outrider.suppression_keeper.page(asker.scope, (channel, address), limit)
    last = found[-1] if len(found) == limit else None
    return Page(
        items=[
            SuppressionAnswer(
                channel=Channel(each.channel),
                address=each.address,
                reason=each.reason,
                created_at=each.created_at,
            )
            for each in found
        ],
        next=cursors.encode(last.channel, last.address) if last else None,
    )


@router.post(
    "/suppressions",
    operation_id="suppress",
    summary="Opt addresses out of a channel; what is due to them is skipped from now on",
)
async def suppress(body: SuppressionsBody, outrider: Wired, asker: Asker) -> SuppressionsDone:
    addresses = _normalised(body.channel, body.addresses)
    await outrider.suppression_keeper.add(
        asker.scope, body.channel.value, addresses, body.reason, asker.actor
    )
    return SuppressionsDone(channel=body.channel, addresses=len(addresses))


@router.delete(
    "/suppressions",
    operation_id="unsuppress",
    summary="Let addresses be written to again; in the body, or one in the query",
)
async def unsuppress(
    outrider: Wired,
    asker: Asker,
    body: UnsuppressBody | None = None,
    channel: Annotated[Channel | None, Query()] = None,
    address: Annotated[str | None, Query(min_length=1, max_length=EMAIL_MAX_CHARACTERS)] = None,
) -> SuppressionsDone:
    if body is None:
        if channel is None or address is None:
            raise InvalidInput(
                "nothing was named",
                [Problem("channel", "is required"), Problem("addresses", "is required")],
            )
        body = UnsuppressBody(channel=channel, addresses=[_checked(address)])
    addresses = _normalised(body.channel, body.addresses)
    removed = await outrider.suppression_keeper.remove(
        asker.scope, body.channel.value, addresses, asker.actor
    )
    return SuppressionsDone(channel=body.channel, addresses=removed)


def _checked(address: str) -> str:
    if not address.isprintable():
        raise InvalidInput("this is no address", [Problem("address", "should be printable")])
    return address


def _normalised(channel: Channel, given: Sequence[str]) -> list[str]:
    """As a recipient's own address would be: spelt otherwise, they would not be found."""
    kind = address_kind(channel)
    if kind is AddressKind.NONE:
        raise InvalidInput(
            "the channel has no addresses", [Problem("channel", "has no addresses to opt out")]
        )
    found = [_address(kind, address) for address in given]
    problems = [
        Problem(f"addresses[{index}]", f"is no address of the channel {channel.value}")
        for index, address in enumerate(found)
        if address is None
    ]
    if problems:
        raise InvalidInput("some addresses are none", problems)
    # Once each: Postgres refuses to touch a row twice in one statement.
    return list(dict.fromkeys(address for address in found if address is not None))


def _address(kind: AddressKind, given: str) -> str | None:
    match kind:
        case AddressKind.EMAIL:
            member = recipient("-", email=given)
            found = member.email
        case AddressKind.PHONE:
            member = recipient("-", phone=given)
            found = member.phone
        case _:
            member = recipient("-", push_token=given)
            found = member.push_token
    return None if member.invalid else found
