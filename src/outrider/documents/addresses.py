"""Addresses in user input: normalised like a recipient's, or all problems at once."""

from collections.abc import Sequence

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.recipients import AddressKind, address_kind, recipient
from outrider.domain.states import Channel


def normalised(channel: Channel, given: Sequence[str]) -> list[str]:
    """Normalised like a recipient's address: otherwise they would not match."""
    kind = address_kind(channel)
    if kind is AddressKind.NONE:
        raise InvalidInput(
            "the channel has no addresses",
            [Problem("channel", "does not have addresses to opt out")],
        )
    found = [_address(kind, address) for address in given]
    problems = [
        Problem(f"addresses[{index}]", f"is not a valid address for the channel {channel.value}")
        for index, address in enumerate(found)
        if address is None
    ]
    if problems:
        raise InvalidInput("some addresses are not valid", problems)
    # Deduplicated: Postgres refuses to update a row twice in one statement.
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
