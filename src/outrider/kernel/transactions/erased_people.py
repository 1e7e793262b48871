"""What a person has left in each table, and how it is taken away, a window at a time.

A script finds its rows and erases them in one transaction, so that it may be killed and run again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.address_pages import (
    ENTRY_BYTES,
    MIXED_BUCKET,
    bucket_of,
    fingerprint,
    offsets_in,
)
from outrider.domain.erasure import (
    ERASED,
    PREFIX,
    DrawnRange,
    Identity,
    named,
    record_addresses,
    replacement,
)
from outrider.domain.ids import CampaignId, OutboxId, Scope
from outrider.domain.people import Address, PersonKind
from outrider.kernel.transactions import erased_items, erasures, people
from outrider.kernel.transactions.erased_items import NOTHING, ErasedWindow
from outrider.kernel.transactions.erasures import Erasure
from outrider.kernel.transactions.people import Membership
from outrider.ports.store import Transaction, Window, ask

MEMBERS, UPLOADS = "audience_members", "audience_uploads"


class PlacedMember(NamedTuple):
    campaign_id: str
    position: int
    recipient_id: str
    email: str | None
    phone: str | None
    push_token: str | None

    @property
    def addresses(self) -> list[Address]:
        return named(self.recipient_id, self.email, self.phone, self.push_token)

    @property
    def membership(self) -> Membership:
        return Membership(
            CampaignId(self.campaign_id), self.recipient_id, self.email, self.phone, self.push_token
        )


@dataclass(slots=True)
class Found:
    """The members who are this person, and the pages of fingerprints that lead to them."""

    members: dict[tuple[str, int], PlacedMember] = field(default_factory=dict)
    pages: dict[tuple[str, int, int], bytes] = field(default_factory=dict)


def campaigns_after(scope: Scope, after: str, most: int) -> Transaction[list[str]]:
    rows = yield from ask("campaigns_after", **scope._asdict(), after=after, most=most)
    return [row[0] for row in rows]


def members(identity: Identity, campaign_ids: Sequence[str]) -> Transaction[Found]:
    """Fingerprints say where in an audience an address may be; the members say whether it is."""
    found = Found()
    places: dict[tuple[str, int], None] = {}
    for address in identity.addresses:
        mark = fingerprint(address.key)
        rows = yield from ask(
            "address_pages_among", {"id": campaign_ids}, bucket=bucket_of(mark),
            mixed=MIXED_BUCKET, fingerprint=mark.hex(),
        )  # fmt: skip
        for campaign_id, bucket, first, content in rows:
            entries = bytes.fromhex(content)
            found.pages[campaign_id, bucket, first] = entries
            places |= dict.fromkeys((campaign_id, first + at) for at in offsets_in(entries, mark))
    placed = yield from _placed(list(places))
    placed += yield from _named(identity, campaign_ids)
    for member in placed:
        if identity.owns(member.addresses):
            found.members[member.campaign_id, member.position] = member
    return found


def _placed(places: Sequence[tuple[str, int]]) -> Transaction[list[PlacedMember]]:
    if not places:
        return []
    campaigns, positions = zip(*places, strict=True)
    window: Window = {"campaign_id": campaigns, "position": positions}
    return [PlacedMember(*row) for row in (yield from ask("members_placed", window))]


def _named(identity: Identity, campaign_ids: Sequence[str]) -> Transaction[list[PlacedMember]]:
    found: list[PlacedMember] = []
    for recipient_id in identity.recipient_ids:
        rows = yield from ask("members_named", {"id": campaign_ids}, recipient_id=recipient_id)
        found += [PlacedMember(*row) for row in rows]
    return found


def erase_members(
    erasure: Erasure, campaign_ids: Sequence[str], now: datetime
) -> Transaction[ErasedWindow]:
    """Members of these campaigns, with the messages to them. Both get the same new name: a job that
    goes on must not take the member for one without a message."""
    found = yield from members(erasure.identity, campaign_ids)
    own = list(found.members.values())
    done = ErasedWindow()
    if not own:
        return done
    names = yield from _names(erasure, own)
    anybody = Address(PersonKind.RECIPIENT, "")
    memberships = [each.membership for each in own]
    items = yield from people.campaign_items(erasure.scope, anybody, memberships)
    done = yield from erased_items.erase(erasure, [each.id for each in items], now, names)
    waiting = yield from _whose(done.waiting)
    own = [each for each in own if (each.campaign_id, each.recipient_id) not in waiting]
    done.campaigns = {each.campaign_id for each in found.members.values()}
    yield from erasures.note_files(erasure, done.campaigns)
    if own:
        yield from ask(
            "erase_members",
            {
                "campaign_id": [each.campaign_id for each in own],
                "position": [each.position for each in own],
                "recipient_id": [names[each.campaign_id, each.recipient_id] for each in own],
            },
            empty=NOTHING,
        )
        yield from _put_pages(found.pages, own)
    done.counts[MEMBERS] += len(own)
    return done


def _names(
    erasure: Erasure, own: Iterable[PlacedMember]
) -> Transaction[Mapping[tuple[str, str], str]]:
    campaigns: Window = {"id": sorted({each.campaign_id for each in own})}
    ranges: dict[str, list[DrawnRange]] = {}
    for campaign_id, salt, first, last in (yield from ask("draws_of_open_runs", campaigns)):
        ranges.setdefault(campaign_id, []).append(DrawnRange(salt, first, last))
    seed = erasure.id.rpartition("-")[2]
    return {
        (each.campaign_id, each.recipient_id): each.recipient_id
        if each.recipient_id.startswith(PREFIX)
        else replacement(
            f"{seed}-{each.position}", each.recipient_id, ranges.get(each.campaign_id, [])
        )
        for each in own
    }


def _whose(ids: Sequence[str]) -> Transaction[set[tuple[str, str]]]:
    """The campaigns and recipients of these items."""
    rows = (yield from ask("items_to_erase", {"id": ids})) if ids else ()
    campaigns = yield from people.campaigns_of_runs(row[1] for row in rows)
    return {(campaigns[row[1]].campaign_id, row[2]) for row in rows if row[1] in campaigns}


def _put_pages(
    pages: Mapping[tuple[str, int, int], bytes], own: Iterable[PlacedMember]
) -> Transaction[None]:
    """Without the fingerprints of these members."""
    gone = {
        (member.campaign_id, member.position, fingerprint(address.key))
        for member in own
        for address in member.addresses
    }
    kept = {
        place: b"".join(
            entry
            for entry in (
                content[at : at + ENTRY_BYTES] for at in range(0, len(content), ENTRY_BYTES)
            )
            if (place[0], place[2] + int.from_bytes(entry[4:], "big"), entry[:4]) not in gone
        )
        for place, content in pages.items()
    }
    window: Window = {
        "campaign_id": [place[0] for place in kept],
        "bucket": [place[1] for place in kept],
        "first_position": [place[2] for place in kept],
        "entries": [content.hex() for content in kept.values()],
    }
    if kept:
        yield from ask("put_address_pages", window)


class UploadsWindow(NamedTuple):
    erased: int
    last: tuple[str, int] | None
    """None: there are no more."""
    campaigns: set[str]


def link_uploads(
    identity: Identity, campaign_ids: Sequence[str], after: tuple[str, int], most: int
) -> Transaction[tuple[str, int] | None]:
    """Learn which other addresses uploads have of the same person; None: there are no more."""
    rows = yield from ask(
        "uploads_among", {"id": campaign_ids}, after_campaign=after[0], after_chunk=after[1],
        most=most,
    )  # fmt: skip
    for _, _, _, text in rows:
        for record in msgspec.json.decode(text):
            identity.link(record_addresses(record))
    return (rows[-1][0], rows[-1][1]) if len(rows) == most else None


def erase_uploads(
    erasure: Erasure, campaign_ids: Sequence[str], after: tuple[str, int], most: int
) -> Transaction[UploadsWindow]:
    """Records as they were uploaded, which may not be members yet. They keep their places."""
    rows = yield from ask(
        "uploads_among", {"id": campaign_ids}, after_campaign=after[0], after_chunk=after[1],
        most=most,
    )  # fmt: skip
    erased, seed, campaigns = 0, erasure.id.rpartition("-")[2], set[str]()
    for campaign_id, chunk, first, text in rows:
        records = msgspec.json.decode(text)
        own = [
            number
            for number, record in enumerate(records)
            if erasure.identity.owns(record_addresses(record))
        ]
        for number in own:
            records[number] = {"id": f"{PREFIX}{seed}-{first + number}"}
        if own:
            campaigns.add(campaign_id)
            erased += len(own)
            content = msgspec.json.encode(records).decode()
            yield from ask("put_upload", campaign_id=campaign_id, chunk=chunk, records=content)
    yield from erasures.note_files(erasure, campaigns)
    last = (rows[-1][0], rows[-1][1]) if len(rows) == most else None
    return UploadsWindow(erased, last, campaigns)


def jobs_held(campaign_ids: Sequence[str], begun_at: datetime) -> Transaction[int]:
    """Jobs that may have read the person's addresses before, and may still write them."""
    if not campaign_ids:
        return 0
    rows = yield from ask("jobs_held_since_before", {"id": campaign_ids}, begun_at=begun_at)
    return int(rows[0][0])


def single_items(scope: Scope, identity: Identity) -> Transaction[list[OutboxId]]:
    """Intents and messages of workflows that may be the person's."""
    found: dict[OutboxId, None] = {}
    for address in identity.all:
        items = yield from people.single_items(scope, address)
        found |= dict.fromkeys(each.id for each in items)
    return list(found)


def short_lived(scope: Scope, identity: Identity) -> Transaction[Counter[str]]:
    """What is only looked up by address: it is removed."""
    counts: Counter[str] = Counter()
    spelt = {text for each in identity.addresses for text in (each.text, each.key)}
    by_channel = [
        (channel.value, text)
        for each in identity.addresses
        for channel in each.channels
        for text in {each.text, each.key}
    ]
    by_kind: Window = {
        "kind": [each.kind.value for each in identity.all],
        "address": [each.key for each in identity.all],
    }
    workspace = scope.workspace_id
    gone = yield from ask("remove_named_in_events", by_kind, workspace_id=workspace)
    counts["event_people"] += len(gone)
    if by_channel:
        channels, addresses = zip(*by_channel, strict=True)
        window: Window = {"channel": channels, "address": addresses}
        gone = yield from ask("remove_capped_sends", window, **scope._asdict())
        counts["capped_sends"] += len(gone)
        gone = yield from ask("remove_capped_addresses", window, **scope._asdict())
        counts["capped_addresses"] += len(gone)
        gone = yield from ask(
            "remove_shared_addressees", {"address": sorted(spelt)}, workspace_id=workspace
        )
        counts["shared_addressees"] += len(gone)
    for key in sorted({each.key for each in identity.addresses}):
        gone = yield from ask("remove_answers_about", **scope._asdict(), address=key.lower())
        counts["idempotency_records"] += len(gone)
    return counts


def erase_digests(scope: Scope, identity: Identity, now: datetime) -> Transaction[Counter[str]]:
    """Digests to the person: one that is still open is not sent."""
    counts: Counter[str] = Counter()
    window: Window = {"address": sorted({each.text.lower() for each in identity.addresses})}
    if not window["address"]:
        return counts
    rows = yield from ask(
        "erase_digests", window, workspace_id=scope.workspace_id, erased=ERASED, now=now
    )
    counts["digests"] = len(rows)
    if rows:
        entries = yield from ask(
            "erase_digest_entries", {"id": [row[0] for row in rows]}, empty=NOTHING
        )
        counts["digest_entries"] = len(entries)
    return counts


def rules_naming(scope: Scope, identity: Identity) -> Transaction[list[str]]:
    """Workflow rules that are written with an address of the person. They are the operator's."""
    rows = yield from ask("step_recipients", **scope._asdict())
    return sorted({row[0] for row in rows if identity.is_told_in(row[1])})
