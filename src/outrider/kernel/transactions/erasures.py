"""Erasures: their records, and which rows and files they are about."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.erasure import Identity
from outrider.domain.ids import CampaignId, Scope, TenantId, WorkspaceId
from outrider.kernel.transactions import audit, erased_suppressions
from outrider.kernel.transactions.audit import AuditEntry
from outrider.limits.people import ERASURES_MAX
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask

BEGUN, ERASED = "person.erasure_begun", "person.erased"


class Erasure(NamedTuple):
    """One that is under way."""

    id: str
    scope: Scope
    actor: str
    identity: Identity
    begun_at: datetime


class Undone(Exception):
    """Ends a transaction of a dry run: nothing of it is kept but what it found."""

    def __init__(self, found: object) -> None:
        super().__init__()
        self.found = found


class ErasedRow(NamedTuple):
    id: str
    run_id: str | None = None
    hashes: str | None = None


def begin(erasure: Erasure, salt: bytes, ids: IdSource) -> Transaction[None]:
    """From this commit on nothing is sent to the person. The log does not say who it is."""
    scope, now = erasure.scope, erasure.begun_at
    yield from ask(
        "insert_erasure",
        **scope._asdict(),
        id=erasure.id,
        actor=erasure.actor,
        identity=msgspec.json.encode(erasure.identity.document()).decode(),
        now=now,
    )
    yield from erased_suppressions.keep(scope, erasure.identity, salt, now)
    entry = AuditEntry(scope, BEGUN, erasure.actor, detail={"erasureId": erasure.id})
    yield from audit.record([entry], ids, now)


def of_workspace(scope: Scope) -> Transaction[list[Erasure]]:
    return _read(
        (
            yield from ask(
                "erasures_of_workspace", workspace_id=scope.workspace_id, most=ERASURES_MAX
            )
        )
    )


def under_way() -> Transaction[list[Erasure]]:
    return _read((yield from ask("erasures_under_way", most=ERASURES_MAX)))


def _read(rows: Rows) -> list[Erasure]:
    return [
        Erasure(
            id_,
            Scope(TenantId(tenant), WorkspaceId(workspace)),
            actor,
            Identity.read(msgspec.json.decode(identity)),
            begun_at,
        )
        for id_, tenant, workspace, actor, identity, begun_at in rows
    ]


def complete(
    erasure: Erasure, counts: Mapping[str, int], ids: IdSource, now: datetime
) -> Transaction[None]:
    """With this commit the last place that knows who it was forgets it."""
    if not (yield from ask("complete_erasure", id=erasure.id, now=now)):
        return
    scope = erasure.scope
    yield from erased_suppressions.relax(scope, erasure.identity)
    detail: dict[str, object] = {"erasureId": erasure.id, "rows": dict(counts)}
    entry = AuditEntry(scope, ERASED, erasure.actor, detail=detail)
    yield from audit.record([entry], ids, now)


def note_rows(erasure: Erasure, rows: Sequence[ErasedRow]) -> Transaction[None]:
    if rows:
        window: Window = {
            "id": [each.id for each in rows],
            "run_id": [each.run_id for each in rows],
            "hashes": [each.hashes for each in rows],
        }
        yield from ask("insert_erased_rows", window, erasure_id=erasure.id)


def salts_of(run_ids: Iterable[str | None]) -> Transaction[dict[str, bytes]]:
    """Of those runs that are sealed. None of them is sealed by anybody until the commit."""
    window: Window = {"id": sorted({each for each in run_ids if each is not None})}
    if not window["id"]:
        return {}
    yield from ask("runs_are_erased_in", window)
    rows = yield from ask("salts_of_runs", window)
    return {row[0]: bytes(row[1]) for row in rows}


def note_files(erasure: Erasure, campaign_ids: Iterable[str]) -> Transaction[None]:
    window: Window = {"id": sorted(set(campaign_ids))}
    if window["id"]:
        yield from ask("note_erasure_files", window, erasure_id=erasure.id)


def files_after(erasure: Erasure, after: str, most: int) -> Transaction[list[CampaignId]]:
    rows = yield from ask("erasure_files", erasure_id=erasure.id, after=after, most=most)
    return [CampaignId(row[0]) for row in rows]


def forget_files(erasure: Erasure, campaign_id: CampaignId) -> Transaction[None]:
    yield from ask("forget_erasure_files", erasure_id=erasure.id, campaign_id=campaign_id)


def erased_items(erasure: Erasure, campaign_id: CampaignId) -> Transaction[set[str]]:
    rows = yield from ask(
        "erased_items_of_campaign", erasure_id=erasure.id, campaign_id=campaign_id
    )
    return {row[0] for row in rows}


def undone(script: Transaction[object]) -> Transaction[None]:
    """A dry run does what it would do, and then not."""
    raise Undone((yield from script))
