"""Messages of a person, with their attempts and receipts; and events that name the person, with the
messages to others that tell of them.

What may still be called, or was called and nobody knows how it ended, waits for the next pass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.erasure import ERASED, PREFIX, Identity, parties_of, without_person
from outrider.domain.event_people import PERSON_KINDS
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.people import Address, PersonKind
from outrider.domain.recipients import address_kind
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.workflows import DomainEventId
from outrider.kernel.transactions import erasures, event_people, people, sealed_rows
from outrider.kernel.transactions.erasures import ErasedRow, Erasure
from outrider.kernel.transactions.sealed_rows import HiddenHashes
from outrider.ports.store import Row, Rows, Transaction, Window, ask

INTENT = "intent"
MESSAGE_EVENT = '{"erased":true}'
LEDGER = "channel_outbox"
NOTHING = "{}"


@dataclass(slots=True)
class ErasedWindow:
    counts: Counter[str] = field(default_factory=Counter)
    """By table."""
    waiting: list[str] = field(default_factory=list)
    """Messages that cannot be erased yet."""
    campaigns: set[str] = field(default_factory=set)
    events: list[str] = field(default_factory=list)


class ErasableItem(NamedTuple):
    id: str
    run_id: str | None
    recipient_id: str
    address: str | None
    job_id: str | None
    status: str
    origin: str
    channel: str
    domain_event_id: str | None
    is_uncalled: bool

    @property
    def addresses(self) -> list[Address]:
        found = []
        kind = PERSON_KINDS.get(address_kind(Channel(self.channel)))
        if kind is not None and self.address:
            found.append(Address(kind, self.address))
        if self.origin != INTENT:
            found.append(Address(PersonKind.RECIPIENT, self.recipient_id))
        return found


def erase_single(erasure: Erasure, ids: Sequence[str], now: datetime) -> Transaction[ErasedWindow]:
    """Of intents and messages of workflows, those that are the person's."""
    rows = [ErasableItem(*row) for row in (yield from ask("items_to_erase", {"id": ids}))]
    own = [row.id for row in rows if erasure.identity.owns(row.addresses)]
    return (yield from erase(erasure, own, now, {}))


def erase(
    erasure: Erasure, ids: Sequence[str], now: datetime, names: Mapping[tuple[str, str], str]
) -> Transaction[ErasedWindow]:
    """`names`: what recipients of campaigns are called from now on."""
    done = ErasedWindow()
    rows = [ErasableItem(*row) for row in (yield from _locked(ids))]
    if not rows:
        return done
    queued = [row for row in rows if row.status == ItemStatus.QUEUED]
    done.waiting = [row.id for row in queued if not row.is_uncalled]
    yield from _end([row for row in queued if row.is_uncalled], now)
    own = [row for row in rows if row.id not in set(done.waiting)]
    done.events = [row.domain_event_id for row in own if row.domain_event_id]
    if not own:
        return done
    campaigns = yield from people.campaigns_of_runs(row.run_id for row in own)
    window: Window = {"id": [row.id for row in own]}
    hashes = yield from _hashes(own)
    yield from erasures.note_rows(
        erasure, [ErasedRow(row.id, row.run_id, hashes.get(row.id)) for row in own]
    )
    reasons = {row[0]: row[_REASON] for row in (yield from ask("items_to_seal", window))}
    yield from ask("list_erasing_rows", window)
    yield from ask(
        "erase_items",
        {
            "id": [row.id for row in own],
            "recipient_id": [
                _name(row, erasure.identity, campaigns.get(row.run_id or ""), names) for row in own
            ],
            "reason": [
                ERASED if erasure.identity.is_told_in(reasons[row.id]) else reasons[row.id]
                for row in own
            ],
        },
        empty=NOTHING,
    )
    done.counts[LEDGER] += len(own)
    done.counts += yield from _erase_beside(window)
    yield from ask("clear_erasing_rows", window)
    receipts = yield from people.receipts_of([OutboxId(row.id) for row in own])
    done.counts += yield from erase_receipts(erasure, [each.id for each in receipts])
    return done


_REASON = sealed_rows.LEDGER_FIELDS.index("recipientHash") + 5


def _locked(ids: Sequence[str]) -> Transaction[Rows]:
    if not ids:
        return ()
    yield from ask("lock_items_to_erase", {"id": ids})
    return (yield from ask("items_to_erase", {"id": ids}))


def _name(
    row: ErasableItem,
    identity: Identity,
    campaign: people.OfCampaign | None,
    names: Mapping[tuple[str, str], str],
) -> str:
    if campaign is not None and (name := names.get((campaign.campaign_id, row.recipient_id))):
        return name
    # An intent is found by its id, which its sender has chosen.
    if row.origin == INTENT and not identity.is_told_in(row.recipient_id):
        return row.recipient_id
    return f"{PREFIX}{row.id}"


def _end(uncalled: Sequence[ErasableItem], now: datetime) -> Transaction[None]:
    if not uncalled:
        return
    window: Window = {"id": [row.id for row in uncalled]}
    yield from ask("end_items_to_erase", window, reason=ERASED, now=now)
    jobs = sorted({row.job_id for row in uncalled if row.run_id and row.job_id})
    if jobs:
        yield from ask("wake_jobs", {"id": jobs}, call_again=False, now=now)


def _hashes(own: Iterable[ErasableItem]) -> Transaction[dict[str, str]]:
    """Of rows in runs that are sealed, before anything is taken away."""
    own = list(own)
    salts = yield from erasures.salts_of(row.run_id for row in own)
    window: Window = {"id": [row.id for row in own if row.run_id in salts]}
    if not window["id"]:
        return {}
    run_of = {row.id: row.run_id for row in own}
    attempts: dict[str, list[Row]] = {}
    for row in (yield from ask("attempts_to_seal", window)):
        attempts.setdefault(row[0], []).append(row)
    found = {}
    for row in (yield from ask("items_to_seal", window)):
        salt = salts[run_of[row[0]] or ""]
        hashes = sealed_rows.item_hashes(row, attempts.get(row[0], ()), salt)
        found[row[0]] = _written(hashes)
    return found


def _written(hashes: HiddenHashes) -> str:
    return msgspec.json.encode(hashes).decode()


def _erase_beside(window: Window) -> Transaction[Counter[str]]:
    counts: Counter[str] = Counter()
    attempts = yield from ask("erase_attempts", window, reason=ERASED)
    counts["attempt_history"] = len(attempts)
    counts["deliveries"] = len((yield from ask("erase_deliveries", window)))
    counts["doubt_verdicts"] = len((yield from ask("erase_verdicts", window)))
    events = yield from ask("erase_message_events", window, data=MESSAGE_EVENT)
    counts["message_events"] = len(events)
    return counts


def erase_receipts(erasure: Erasure, ids: Sequence[str]) -> Transaction[Counter[str]]:
    counts: Counter[str] = Counter()
    if not ids:
        return counts
    workspace = erasure.scope.workspace_id
    rows = yield from ask("receipts_to_erase", {"id": ids}, workspace_id=workspace)
    own = [row for row in rows if any(row[3:])]
    if not own:
        return counts
    salts = yield from erasures.salts_of(row[2] for row in own)
    yield from erasures.note_rows(
        erasure,
        [
            ErasedRow(
                id_, None,
                _written(sealed_rows.receipt_hashes(id_, private, salts[run_id]))
                if run_id in salts else None,
            )
            for id_, _, run_id, *private in own
        ],
    )  # fmt: skip
    window: Window = {"id": [row[0] for row in own]}
    yield from ask("list_erasing_rows", window)
    yield from ask("erase_receipts", window, workspace_id=workspace)
    yield from ask("clear_erasing_rows", window)
    counts["receipts"] = len(own)
    return counts


def replies(scope: Scope, identity: Identity) -> Transaction[list[str]]:
    """Receipts that the person sent."""
    found: dict[str, None] = {}
    for address in identity.addresses:
        rows = yield from people.replies(scope, address)
        found |= dict.fromkeys(each.id for each in rows)
    return list(found)


def events_naming(scope: Scope, identity: Identity) -> Transaction[list[DomainEventId]]:
    found: dict[DomainEventId, None] = {}
    for address in identity.all:
        found |= dict.fromkeys((yield from event_people.naming(scope, address)))
    return list(found)


def events_of(ids: Sequence[str]) -> Transaction[list[DomainEventId]]:
    """The events that these messages are because of."""
    rows = [ErasableItem(*row) for row in (yield from ask("items_to_erase", {"id": ids}))]
    return [DomainEventId(row.domain_event_id) for row in rows if row.domain_event_id]


class OpenEvents(NamedTuple):
    own: list[str]
    last: str | None
    """None: there are no more."""


def open_events(
    scope: Scope, identity: Identity, status: str, after: str, most: int
) -> Transaction[OpenEvents]:
    """Events that may still become messages, if they name the person."""
    rows = yield from ask(
        "open_events_after", **scope._asdict(), status=status, after=after, most=most
    )
    own = [row[0] for row in rows if _is_named(msgspec.json.decode(row[1]), identity)]
    return OpenEvents(own, rows[-1][0] if len(rows) == most else None)


def _is_named(subject: Mapping[str, object], identity: Identity) -> bool:
    return any(identity.owns(addresses) for _, addresses in parties_of(subject))


def subjects(scope: Scope, ids: Sequence[str]) -> Transaction[list[Mapping[str, object]]]:
    rows = (yield from ask("events_to_erase", {"id": ids}, **scope._asdict())) if ids else ()
    return [msgspec.json.decode(row[2]) for row in rows]


def erase_events(erasure: Erasure, ids: Sequence[str]) -> Transaction[ErasedWindow]:
    """Events that name the person, without that party and without their variables; and what was
    written to others because of them."""
    done = ErasedWindow()
    identity = erasure.identity
    if not ids:
        return done
    yield from ask("lock_events_to_erase", {"id": ids}, **erasure.scope._asdict())
    rows = yield from ask("events_to_erase", {"id": ids}, **erasure.scope._asdict())
    rows = [row for row in rows if _is_named(msgspec.json.decode(row[2]), identity)]
    about, unsent = yield from _about([row[0] for row in rows], identity)
    done.waiting += sorted(unsent)
    own = [row for row in rows if row[0] not in unsent]
    if not own:
        return done
    window: Window = {"id": [row[0] for row in own]}
    yield from ask("list_erasing_rows", window)
    yield from ask(
        "erase_events",
        {
            "id": window["id"],
            "subject": [_without(row[2], identity) for row in own],
            "routes": [row[3] and identity.scrubbed(row[3]) for row in own],
            "error": [ERASED if row[1] == "received" or row[4] else None for row in own],
        },
        empty=NOTHING,
    )
    yield from ask("clear_erasing_rows", window)
    done.counts["domain_events"] += len(own)
    entries = yield from ask("erase_entries_of_events", window, empty=NOTHING)
    done.counts["digest_entries"] += len(entries)
    ended = [row for row in about if row.domain_event_id not in unsent]
    done.counts[LEDGER] += yield from _erase_contents(erasure, ended)
    return done


def _about(
    event_ids: Sequence[str], identity: Identity
) -> Transaction[tuple[list[ErasableItem], set[str]]]:
    """Messages to others because of these events, and the events whose messages are not all sent
    yet: their recipients still need what they tell."""
    if not event_ids:
        return [], set()
    window: Window = {"id": event_ids}
    ids = [row[0] for row in (yield from ask("items_of_events", window))]
    rows = [ErasableItem(*row) for row in (yield from _locked(ids))]
    others = [
        row
        for row in rows
        if not (row.recipient_id.startswith(PREFIX) or identity.owns(row.addresses))
    ]
    queued = [row.domain_event_id for row in others if row.status == ItemStatus.QUEUED]
    collected = [row[0] for row in (yield from ask("events_in_open_digests", window))]
    return others, {each for each in (*queued, *collected) if each}


def _without(subject: str, identity: Identity) -> str:
    return msgspec.json.encode(without_person(msgspec.json.decode(subject), identity)).decode()


def _erase_contents(erasure: Erasure, ended: Sequence[ErasableItem]) -> Transaction[int]:
    if not ended:
        return 0
    hashes = yield from _hashes(ended)
    yield from erasures.note_rows(
        erasure, [ErasedRow(row.id, row.run_id, hashes.get(row.id)) for row in ended]
    )
    window: Window = {"id": [row.id for row in ended]}
    yield from ask("list_erasing_rows", window)
    yield from ask("erase_contents", window, empty=NOTHING)
    yield from ask("erase_message_events", window, data=MESSAGE_EVENT)
    yield from ask("clear_erasing_rows", window)
    return len(ended)
