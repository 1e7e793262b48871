"""The audit trail: entries are appended in the transaction they describe."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

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
    yield from ask(
        "insert_audit",
        {
            "id": ids.batch(len(entries)),
            "tenant_id": [entry.scope.tenant_id for entry in entries],
            "workspace_id": [entry.scope.workspace_id for entry in entries],
            "campaign_id": [entry.campaign_id for entry in entries],
            "run_id": [entry.run_id for entry in entries],
            "job_id": [entry.job_id for entry in entries],
            "outbox_id": [entry.outbox_id for entry in entries],
            "actor": [entry.actor for entry in entries],
            "event": [entry.event for entry in entries],
            "detail": [msgspec.json.encode(entry.detail).decode() for entry in entries],
        },
        now=now,
    )
