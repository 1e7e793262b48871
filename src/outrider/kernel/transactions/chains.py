"""Hash chains: the audit log is chained in windows, and both chains are read to be verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from outrider.domain.event_chain import (
    NO_HASH,
    LoggedEntry,
    LoggedEvent,
    content_hash,
    next_hash,
)
from outrider.domain.ids import RunId
from outrider.ports.store import Row, Transaction, ask, ask_alone


class ChainedRun(NamedTuple):
    run_id: RunId
    last_seq: int
    head: bytes | None
    beyond: int | None
    """The first event beyond the run's counter: nobody who appends leaves one."""
    is_retired: bool = False


class ChainedEvent(NamedTuple):
    run_seq: int
    hash: bytes | None
    event: LoggedEvent


class AuditHead(NamedTuple):
    workspace_id: str
    seq: int
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class AuditLink:
    seq: int
    hash: bytes
    id: str
    entry: LoggedEntry | None
    """None if it was removed."""
    content_hash: bytes | None
    """What its writer said that its content hashes to."""


class AuditPlace(NamedTuple):
    """Where an entry of the audit log stands with the chain."""

    id: str
    workspace_id: str
    is_chained: bool
    is_waiting: bool
    lacks_run: bool
    run_id: str | None


def is_audit_unchained() -> Transaction[bool]:
    return bool((yield from ask_alone("is_audit_unchained")))


def chain_audit(most: int) -> Transaction[int]:
    """Chain the oldest entries that wait for it, each to the head of its workspace."""
    rows = yield from ask("unchained_audit", most=most)
    entries = [LoggedEntry(*row) for row in rows]
    if not entries:
        return 0
    workspaces = {"workspace_id": sorted({entry.workspace_id for entry in entries})}
    yield from ask("open_audit_heads", workspaces)
    locked = yield from ask("lock_audit_heads", workspaces)
    heads = {row[0]: AuditHead(*row) for row in locked}
    links = []
    for entry in entries:
        head = _after(heads[entry.workspace_id], entry)
        heads[entry.workspace_id] = head
        links.append((head, entry.id))
    yield from ask(
        "insert_audit_chain",
        {
            "workspace_id": [head.workspace_id for head, _ in links],
            "seq": [head.seq for head, _ in links],
            "id": [id_ for _, id_ in links],
            "hash": [_hex(head.hash) for head, _ in links],
        },
    )
    moved = list(heads.values())
    yield from ask(
        "move_audit_heads",
        {
            "workspace_id": [head.workspace_id for head in moved],
            "seq": [head.seq for head in moved],
            "hash": [_hex(head.hash) for head in moved],
        },
    )
    yield from ask("forget_unchained_audit", {"id": [entry.id for entry in entries]})
    return len(entries)


def _after(head: AuditHead, entry: LoggedEntry) -> AuditHead:
    seq = head.seq + 1
    content = content_hash(entry.canonical())
    return AuditHead(head.workspace_id, seq, next_hash(bytes(head.hash or NO_HASH), seq, content))


def _hex(found: bytes | None) -> str:
    assert found is not None
    return found.hex()


def runs_after(after: str, most: int) -> Transaction[list[ChainedRun]]:
    rows = yield from ask_alone("chained_runs", after=after, most=most)
    return [ChainedRun(*row) for row in rows]


def run(run_id: RunId) -> Transaction[ChainedRun | None]:
    rows = yield from ask_alone("chained_run", run_id=run_id)
    return ChainedRun(*rows[0]) if rows else None


def events_after(
    run_id: RunId, after: int, until: int, most: int
) -> Transaction[list[ChainedEvent]]:
    rows = yield from ask_alone(
        "chained_events", run_id=run_id, after=after, until=until, most=most
    )
    return [ChainedEvent(row[0], row[1], LoggedEvent(*row[2:])) for row in rows]


def audit_heads_after(after: str, most: int) -> Transaction[list[AuditHead]]:
    rows = yield from ask_alone("audit_heads", after=after, most=most)
    return [AuditHead(*row) for row in rows]


def audit_links_after(workspace_id: str, after: int, most: int) -> Transaction[list[AuditLink]]:
    rows = yield from ask_alone(
        "audit_chain_page", workspace_id=workspace_id, after=after, most=most
    )
    return [_link(row) for row in rows]


def _link(row: Row) -> AuditLink:
    seq, hash_, said, id_, tenant, *cells = row
    entry = None if tenant is None else LoggedEntry(id_, tenant, *cells)
    return AuditLink(seq, hash_, id_, entry, said)


def audit_places_after(after: str, most: int) -> Transaction[Sequence[AuditPlace]]:
    rows = yield from ask_alone("audit_without_chain", after=after, most=most)
    return [AuditPlace(*row) for row in rows]
