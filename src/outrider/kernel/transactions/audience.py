"""A campaign's audience: uploads that wait for their import, members, and what is known of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from outrider.domain.address_census import AddressCensus
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import CampaignId
from outrider.domain.recipients import AddressKind, Recipient
from outrider.ports.phases import AudienceChunk, AudienceMember
from outrider.ports.store import Transaction, Window, ask
from outrider.settings import (
    CENSUS_ADDRESSES_MAX,
    IMPORT_WINDOW_ITEMS,
    RECIPIENTS_MAX,
    UPLOAD_CHUNK_RECORDS,
)


def stage(
    campaign_id: CampaignId, recipients: Iterable[Recipient], progress: Callable[[int], None]
) -> Transaction[int]:
    """Keep recipients for the campaign's import, a chunk at a time; returns how many came."""
    totals = yield from ask("upload_totals", campaign_id=campaign_id)
    chunk, first_position = totals[0]
    staged = 0
    for window in _windows(recipients, UPLOAD_CHUNK_RECORDS):
        yield from ask(
            "insert_upload",
            campaign_id=campaign_id,
            chunk=chunk,
            first_position=first_position + staged,
            record_count=len(window),
            records=msgspec.json.encode([_as_given(each) for each in window]).decode(),
        )
        chunk, staged = chunk + 1, staged + len(window)
        _require_room(first_position + staged)
        progress(staged)
    return staged


def insert(
    campaign_id: CampaignId,
    recipients: Iterable[Recipient],
    progress: Callable[[int], None],
    *,
    is_new: bool = False,
) -> Transaction[int]:
    """Add recipients to the audience itself; returns its size.

    An id that is there is left out; in a new audience the store refuses it.
    """
    position = yield from next_position(campaign_id)
    census = AddressCensus(CENSUS_ADDRESSES_MAX)
    for window in _windows(recipients, IMPORT_WINDOW_ITEMS):
        placed = _columns(range(position, position + len(window)), window)
        if is_new:
            census.take(window)
            yield from ask("import_new_members", placed, campaign_id=campaign_id)
        else:
            yield from ask("import_members", placed, campaign_id=campaign_id)
        position += len(window)
        _require_room(position)
        progress(position)
    if is_new and not census.may_repeat:
        yield from ask("set_audience_size", campaign_id=campaign_id, size=position)
        return position
    return (yield from complete(campaign_id))


def complete(campaign_id: CampaignId) -> Transaction[int]:
    """Everybody is in: see who would get the same message twice, and count."""
    yield from ask("mark_duplicates", campaign_id=campaign_id)
    counted = yield from ask("count_members", campaign_id=campaign_id)
    size: int = counted[0][0]
    yield from ask("set_audience_size", campaign_id=campaign_id, size=size)
    return size


def _windows(recipients: Iterable[Recipient], most: int) -> Iterator[list[Recipient]]:
    stream = iter(recipients)
    while window := list(islice(stream, most)):
        yield window


def _require_room(size: int) -> None:
    if size > RECIPIENTS_MAX:
        raise InvalidInput(
            f"an audience has at most {RECIPIENTS_MAX:,} recipients",
            hint="split the audience over several campaigns",
        )


def _as_given(recipient: Recipient) -> dict[str, object]:
    """A recipient in the words of a campaign document."""
    return {
        "id": recipient.id,
        "email": recipient.email,
        "phone": recipient.phone,
        "pushToken": recipient.push_token,
        "attributes": msgspec.Raw(recipient.attributes.encode()),
        "message": recipient.message_id,
    }


def uploaded(campaign_id: CampaignId) -> Transaction[int]:
    """How many chunks were uploaded; none is ever taken away."""
    totals = yield from ask("upload_totals", campaign_id=campaign_id)
    chunks: int = totals[0][0]
    return chunks


def uploads(campaign_id: CampaignId) -> Transaction[list[AudienceChunk]]:
    rows = yield from ask("uploads_of_campaign", campaign_id=campaign_id)
    return [AudienceChunk(*row) for row in rows]


def upload(campaign_id: CampaignId, chunk: int) -> Transaction[list[object]]:
    rows = yield from ask("upload_by_chunk", campaign_id=campaign_id, chunk=chunk)
    if not rows:
        raise NotFound(f"there is no chunk {chunk} of this audience")
    records: list[object] = msgspec.json.decode(rows[0][0])
    return records


def next_position(campaign_id: CampaignId) -> Transaction[int]:
    rows = yield from ask("next_position", campaign_id=campaign_id)
    position: int = rows[0][0]
    return position


def members(campaign_id: CampaignId, first: int, last: int) -> Transaction[list[AudienceMember]]:
    rows = yield from ask("members_between", campaign_id=campaign_id, first=first, last=last)
    return [AudienceMember(*row) for row in rows]


def add_members(
    campaign_id: CampaignId, first: int, recipients: Sequence[Recipient | None]
) -> Transaction[int]:
    """How many of them are in the audience now, each in its place; repeating it changes nothing."""
    kept = [(first + index, each) for index, each in enumerate(recipients) if each is not None]
    positions = [position for position, _ in kept]
    yield from ask(
        "import_members", _columns(positions, [each for _, each in kept]), campaign_id=campaign_id
    )
    placed: dict[str, Sequence[object]] = {
        "position": positions,
        "recipient_id": [each.id for _, each in kept],
    }
    counted = yield from ask("count_placed", placed, campaign_id=campaign_id)
    taken: int = counted[0][0]
    return taken


def _columns(positions: Sequence[int], recipients: Sequence[Recipient]) -> Window:
    if not recipients:
        return {}
    ids, emails, phones, push_tokens, attributes, message_ids, invalid = zip(
        *recipients, strict=True
    )
    return {
        "position": positions,
        "recipient_id": ids,
        "email": emails,
        "phone": phones,
        "push_token": push_tokens,
        "attributes": attributes,
        "message_id": message_ids,
        "invalid": invalid,
    }


def mark_invalid(
    campaign_id: CampaignId, kind: AddressKind, positions: Sequence[int]
) -> Transaction[None]:
    yield from ask("mark_invalid", {"position": positions}, campaign_id=campaign_id, kind=int(kind))
