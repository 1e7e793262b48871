"""Digests: events are collected for one address, then sent as one message.

A digest is open while events are added, and sealed when it is full or claimed because it is due;
what is rendered from it then is final. It is closed once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, NewType

from outrider.domain.ids import OutboxId, Scope, TenantId, WorkspaceId
from outrider.domain.purposes import Purpose
from outrider.domain.texts import storable
from outrider.domain.workflows import DomainEventId, StepId, WorkflowStep
from outrider.kernel.transactions.domain_events import step_from
from outrider.limits.workflows import DIGEST_ENTRIES_MAX
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask, ask_alone

DigestId = NewType("DigestId", str)
Place = tuple[StepId, str]
"""A step and an address: each has one open digest."""


class DigestEntry(NamedTuple):
    """An event to be collected into a digest."""

    step_id: StepId
    audience: str
    recipient_id: str
    address: str
    domain_event_id: str
    variables: str
    digest_seconds: int


class ClaimedDigest(NamedTuple):
    id: DigestId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    step_id: StepId
    recipient_id: str
    address: str
    entries: int

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)


class DigestStep(NamedTuple):
    step: WorkflowStep
    urgent: bool
    enabled: bool
    """The step and its rule."""
    purpose: Purpose


class ClosedDigest(NamedTuple):
    """Sent in that ledger row; or not sent, and why."""

    id: DigestId
    outbox_id: OutboxId | None
    error: str | None = None


class EventDigest(NamedTuple):
    """The digest that an event was added to, and its state."""

    domain_event_id: DomainEventId
    id: DigestId
    step_id: StepId
    audience: str
    recipient_id: str
    address: str
    due_at: datetime
    closed_at: datetime | None
    outbox_id: OutboxId | None
    error: str | None


def collect(
    scope: Scope, entries: Iterable[DigestEntry], ids: IdSource, now: datetime
) -> Transaction[None]:
    """Add events to their open digests; one that was added before is not added again.

    Three statements, and three more for recipients with more events than a digest holds.
    """
    waiting: dict[Place, dict[str, DigestEntry]] = {}
    for entry in entries:
        place = entry.step_id, entry.address
        waiting.setdefault(place, {})[entry.domain_event_id] = entry
    while waiting:
        # All routers use the same order, so that they cannot deadlock.
        places = sorted(waiting)
        rows = yield from _open(scope, [next(iter(waiting[p].values())) for p in places], ids, now)
        taken: list[tuple[DigestId, DigestEntry]] = []
        for digest_id, step_id, address, count in rows:
            place = StepId(step_id), address
            of_place = waiting.pop(place)
            room = max(1, DIGEST_ENTRIES_MAX - count)
            in_order = [of_place[event] for event in sorted(of_place)]
            taken += [(DigestId(digest_id), entry) for entry in in_order[:room]]
            if in_order[room:]:
                waiting[place] = {entry.domain_event_id: entry for entry in in_order[room:]}
        yield from _add(scope, taken, now)


def _open(
    scope: Scope, firsts: Sequence[DigestEntry], ids: IdSource, now: datetime
) -> Transaction[Rows]:
    """The open digest of each step and address, locked until the commit, with its event count."""
    return (
        yield from ask(
            "open_digests",
            {
                "id": ids.batch(len(firsts)),
                "step_id": [entry.step_id for entry in firsts],
                "audience": [entry.audience for entry in firsts],
                "recipient_id": [entry.recipient_id for entry in firsts],
                "address": [entry.address for entry in firsts],
                "due_at": [now + timedelta(seconds=entry.digest_seconds) for entry in firsts],
            },
            **scope._asdict(),
            now=now,
        )
    )


def _add(
    scope: Scope, taken: Sequence[tuple[DigestId, DigestEntry]], now: datetime
) -> Transaction[None]:
    added = yield from ask(
        "insert_digest_entries",
        {
            "digest_id": [digest_id for digest_id, _ in taken],
            "domain_event_id": [entry.domain_event_id for _, entry in taken],
            "step_id": [entry.step_id for _, entry in taken],
            "address": [entry.address for _, entry in taken],
            "variables": [entry.variables for _, entry in taken],
        },
        **scope._asdict(),
        now=now,
    )
    grown: dict[str, int] = {}
    for (digest_id,) in added:
        grown[digest_id] = grown.get(digest_id, 0) + 1
    if grown:
        in_order = sorted(grown)
        yield from ask(
            "grow_digests",
            {"id": in_order, "added": [grown[digest_id] for digest_id in in_order]},
            most=DIGEST_ENTRIES_MAX,
            now=now,
        )


def claim(most: int, lease_expires_at: datetime, now: datetime) -> Transaction[list[ClaimedDigest]]:
    """Seal the oldest due ones; other digesters do not see them until the lease ends."""
    rows = yield from ask_alone(
        "claim_digests", most=most, lease_expires_at=lease_expires_at, now=now
    )
    return sorted(ClaimedDigest(*row) for row in rows)


def steps(ids: Iterable[StepId]) -> Transaction[dict[StepId, DigestStep]]:
    """Those of the steps that still exist."""
    rows = yield from ask("digest_steps", {"id": sorted(set(ids))})
    found = []
    for *of_step, urgent, enabled, topic, transactional in rows:
        step = step_from(of_step)
        purpose = step.purpose_in(Purpose(topic, bool(transactional)))
        found.append(DigestStep(step, bool(urgent), bool(enabled) and step.enabled, purpose))
    return {each.step.id: each for each in found}


def variables(ids: Sequence[DigestId], bytes_most: int) -> Transaction[dict[DigestId, list[str]]]:
    """Each digest's events, oldest first: the newest that fit, and at least one."""
    rows = yield from ask("digest_variables", {"id": sorted(ids)}, bytes_most=bytes_most)
    found: dict[DigestId, list[str]] = {}
    for digest_id, text in rows:
        found.setdefault(DigestId(digest_id), []).append(text)
    return found


def close(closed: Sequence[ClosedDigest], now: datetime) -> Transaction[set[DigestId]]:
    """Those that were not closed before."""
    in_order = sorted(closed)
    rows = yield from ask(
        "close_digests",
        {
            "id": [each.id for each in in_order],
            "outbox_id": [each.outbox_id for each in in_order],
            "error": [storable(each.error) for each in in_order],
        },
        now=now,
    )
    return {DigestId(row[0]) for row in rows}


def note_problems(problems: Sequence[tuple[DigestId, str]]) -> Transaction[None]:
    """They stay due: the cause may be fixed."""
    in_order = sorted(problems)
    yield from ask(
        "note_digest_problems",
        {
            "id": [digest_id for digest_id, _ in in_order],
            "error": [storable(problem) for _, problem in in_order],
        },
    )


def of_events(
    scope: Scope, event_ids: Sequence[DomainEventId], most: int
) -> Transaction[list[EventDigest]]:
    rows = yield from ask("digests_of_events", {"id": event_ids}, **scope._asdict(), most=most)
    return [EventDigest(*row) for row in rows]


def contents(
    claimed: Sequence[ClaimedDigest], most_bytes: int
) -> Transaction[tuple[dict[StepId, DigestStep], dict[DigestId, list[str]]]]:
    """The steps of these digests, and what each of them collected."""
    of_steps = yield from steps(digest.step_id for digest in claimed)
    return of_steps, (yield from variables([digest.id for digest in claimed], most_bytes))
