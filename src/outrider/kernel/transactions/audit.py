"""The audit trail: entries are appended in the transaction they describe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from outrider.domain.event_chain import LoggedEntry, content_hash
from outrider.domain.ids import Scope
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`event` is a past-tense name such as `run.deployed`; the detail never contains a payload."""

    scope: Scope
    event: str
    actor: str
    campaign_id: str | None = None
    run_id: str | None = None
    job_id: str | None = None
    outbox_id: str | None = None
    detail: dict[str, object] = field(default_factory=dict)


def record(entries: Sequence[AuditEntry], ids: IdSource, now: datetime) -> Transaction[None]:
    if not entries:
        return
    rows = [
        LoggedEntry(
            id_,
            entry.scope.tenant_id,
            entry.scope.workspace_id,
            entry.campaign_id,
            entry.run_id,
            entry.job_id,
            entry.outbox_id,
            entry.actor,
            entry.event,
            now,
            msgspec.json.encode(entry.detail).decode(),
        )
        for id_, entry in zip(ids.batch(len(entries)), entries, strict=True)
    ]
    yield from ask(
        "insert_audit",
        {
            "id": [row.id for row in rows],
            "tenant_id": [row.tenant_id for row in rows],
            "workspace_id": [row.workspace_id for row in rows],
            "campaign_id": [row.campaign_id for row in rows],
            "run_id": [row.run_id for row in rows],
            "job_id": [row.job_id for row in rows],
            "outbox_id": [row.outbox_id for row in rows],
            "actor": [row.actor for row in rows],
            "event": [row.event for row in rows],
            "detail": [row.detail for row in rows],
            "content": [content_hash(row.canonical()).hex() for row in rows],
        },
        now=now,
    )
