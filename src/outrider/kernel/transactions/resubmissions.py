"""Resubmitting an intent that its contract has ended: a new intent, linked to the first."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import Conflict
from outrider.domain.ids import OutboxId, Scope
from outrider.kernel.transactions import submissions
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.submissions import Intent, NewIntent
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


class ResubmissionLinks(NamedTuple):
    """Intent IDs: which one it resubmits, and as which one it was resubmitted."""

    resubmits: str | None = None
    resubmitted_as: str | None = None


NOT_RESUBMITTED = ResubmissionLinks()


def links_of(outbox_id: OutboxId) -> Transaction[ResubmissionLinks]:
    rows = yield from ask("resubmission_links", outbox_id=outbox_id)
    known = {row[0]: row[1] for row in rows}
    return ResubmissionLinks(known.get("of"), known.get("as"))


def resubmit(
    scope: Scope, original: Intent, intent: NewIntent, contracts: Mapping[str, ContractSnapshot],
    actor: str, ids: IdSource, now: datetime,
) -> Transaction[Intent]:  # fmt: skip
    """In one transaction with its link, so that neither exists alone."""
    created, _ = yield from submissions.submit(scope, [intent], contracts, ids, now)
    if intent.key not in created:
        raise Conflict(f"there is already an intent '{intent.intent_id}'")
    new = created[intent.key]
    yield from ask(
        "link_resubmission", outbox_id=new.outbox_id, original_id=original.outbox_id, actor=actor,
        now=now,
    )  # fmt: skip
    detail: dict[str, object] = {"intentId": original.intent_id, "resubmittedAs": new.intent_id}
    entry = AuditEntry(scope, "intent.resubmitted", actor, None, None, None, new.outbox_id, detail)
    yield from record([entry], ids, now)
    return new
