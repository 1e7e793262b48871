"""A campaign's audience: uploads waiting for their import, its members, and their flags."""

from collections.abc import Callable, Sequence

import msgspec

from outrider.domain.address_census import AddressCensus
from outrider.domain.address_pages import address_pages
from outrider.domain.batches import windows
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import CampaignId
from outrider.domain.recipients import AddressKind, Recipient
from outrider.limits.campaigns import CENSUS_ADDRESSES_MAX, RECIPIENTS_MAX, UPLOAD_CHUNK_RECORDS
from outrider.ports.phases import AudienceChunk, AudienceMember
from outrider.ports.store import Transaction, Window, ask


def stage(
    campaign_id: CampaignId, recipients: Sequence[Recipient], progress: Callable[[int], None]
) -> Transaction[int]:
    """Store recipients for the campaign's import; returns how many there were."""
    chunk, position = yield from upload_totals(campaign_id)
    require_room(position + len(recipients))
    yield from stage_window(campaign_id, chunk, position, recipients)
    progress(len(recipients))
    return len(recipients)


def stage_window(
    campaign_id: CampaignId, chunk: int, position: int, window: Sequence[Recipient]
) -> Transaction[None]:
    for number, part in enumerate(windows(window, UPLOAD_CHUNK_RECORDS)):
        yield from ask(
            "insert_upload",
            campaign_id=campaign_id,
            chunk=chunk + number,
            first_position=position + number * UPLOAD_CHUNK_RECORDS,
            record_count=len(part),
            records=msgspec.json.encode([_as_given(each) for each in part]).decode(),
        )


def insert(
    campaign_id: CampaignId,
    recipients: Sequence[Recipient],
    progress: Callable[[int], None],
    *,
    is_new: bool = False,
) -> Transaction[int]:
    """Add recipients to the audience itself; returns its size.

    An id that already exists is ignored; in a new audience the store refuses it.
    """
    position = yield from next_position(campaign_id)
    end = position + len(recipients)
    require_room(end)
    if recipients:
        yield from insert_window(campaign_id, position, recipients, is_new=is_new)
        progress(end)
    census = AddressCensus(CENSUS_ADDRESSES_MAX)
    census.take(recipients)
    if is_new and not census.may_repeat:
        yield from ask("set_audience_size", campaign_id=campaign_id, size=end)
        return end
    return (yield from complete(campaign_id))


def insert_window(
    campaign_id: CampaignId, position: int, window: Sequence[Recipient], *, is_new: bool
) -> Transaction[None]:
    placed = _columns(range(position, position + len(window)), window)
    if is_new:
        yield from ask("import_new_members", placed, campaign_id=campaign_id)
    else:
        yield from ask("import_members", placed, campaign_id=campaign_id)
    yield from index_addresses(campaign_id, position, window)


def index_addresses(
    campaign_id: CampaignId, first: int, recipients: Sequence[Recipient | None]
) -> Transaction[None]:
    """So that whoever searches for an address finds this audience."""
    pages = address_pages(recipients)
    if pages:
        buckets, entries = zip(*pages, strict=True)
        yield from ask(
            "insert_address_pages",
            {"bucket": buckets, "entries": [each.hex() for each in entries]},
            campaign_id=campaign_id,
            first_position=first,
        )


def duplicates(campaign_id: CampaignId, most: int) -> Transaction[list[tuple[int, int]]]:
    """Positions to mark, each with the address kinds that are duplicated there."""
    rows = yield from ask("find_duplicates", campaign_id=campaign_id, most=most)
    return [(int(row[0]), int(row[1])) for row in rows]


def set_duplicates(campaign_id: CampaignId, found: Sequence[tuple[int, int]]) -> Transaction[None]:
    positions, kinds = zip(*found, strict=True)
    window: Window = {"position": positions, "kinds": kinds}
    yield from ask("set_duplicates", window, campaign_id=campaign_id)


def size(campaign_id: CampaignId) -> Transaction[int]:
    counted = yield from ask("count_members", campaign_id=campaign_id)
    members: int = counted[0][0]
    return members


def set_size(campaign_id: CampaignId, members: int) -> Transaction[None]:
    yield from ask("set_audience_size", campaign_id=campaign_id, size=members)


def complete(campaign_id: CampaignId) -> Transaction[int]:
    """Complete the audience: find duplicate addresses, and count."""
    yield from ask("mark_duplicates", campaign_id=campaign_id)
    members = yield from size(campaign_id)
    yield from set_size(campaign_id, members)
    return members


def require_room(members: int) -> None:
    if members > RECIPIENTS_MAX:
        raise InvalidInput(
            f"an audience has at most {RECIPIENTS_MAX:,} recipients",
            hint="split the audience over several campaigns",
        )


def _as_given(recipient: Recipient) -> dict[str, object]:
    """A recipient in the format of a campaign document."""
    return {
        "id": recipient.id,
        "email": recipient.email,
        "phone": recipient.phone,
        "pushToken": recipient.push_token,
        "attributes": msgspec.Raw(recipient.attributes.encode()),
        "message": recipient.message_id,
    }


def uploaded(campaign_id: CampaignId) -> Transaction[int]:
    """How many chunks were uploaded; none is ever removed."""
    chunks, _ = yield from upload_totals(campaign_id)
    return chunks


def upload_totals(campaign_id: CampaignId) -> Transaction[tuple[int, int]]:
    """How many chunks were uploaded, and how many recipients they contain."""
    chunks, recipients = (yield from ask("upload_totals", campaign_id=campaign_id))[0]
    return chunks, recipients


def uploads(campaign_id: CampaignId) -> Transaction[list[AudienceChunk]]:
    rows = yield from ask("uploads_of_campaign", campaign_id=campaign_id)
    return [AudienceChunk(*row) for row in rows]


def repeated(campaign_id: CampaignId) -> Transaction[list[int]]:
    """The positions of uploaded records whose id an earlier record has, in order."""
    rows = yield from ask("repeated_uploads", campaign_id=campaign_id)
    return [row[0] for row in rows]


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
    """How many of them are in the audience now, each at its position; repeating it changes
    nothing."""
    kept = [(first + index, each) for index, each in enumerate(recipients) if each is not None]
    positions = [position for position, _ in kept]
    yield from ask(
        "import_members", _columns(positions, [each for _, each in kept]), campaign_id=campaign_id
    )
    yield from index_addresses(campaign_id, first, recipients)
    placed: dict[str, Sequence[object]] = {
        "position": positions,
        "recipient_id": [each.id for _, each in kept],
    }
    counted = yield from ask("count_placed", placed, campaign_id=campaign_id)
    taken: int = counted[0][0]
    return taken


def _columns(positions: Sequence[int], recipients: Sequence[Recipient]) -> Window:
    fields = zip(*recipients, strict=True) if recipients else [()] * len(Recipient._fields)
    ids, emails, phones, push_tokens, attributes, message_ids, invalid = fields
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


def unwatched(_imported: int) -> None:
    """No progress is reported for this import."""
