"""Which messages the rows of a provider's export are about."""

from collections.abc import Sequence
from typing import NamedTuple

from outrider.domain.ids import OutboxId, Scope, TenantId, WorkspaceId
from outrider.domain.provider_exports import ExportRow
from outrider.kernel.transactions import receipts
from outrider.ports.store import Transaction


class _OfTarget(NamedTuple):
    tenant_id: TenantId
    workspace_id: WorkspaceId
    submission_target: str


def known(
    scope: Scope, submission_target: str, rows: Sequence[ExportRow]
) -> Transaction[dict[int, OutboxId]]:
    """The items that were last called at this target, by the places of the rows about them."""
    of_target = _OfTarget(*scope, submission_target)
    references = {
        place: (of_target, row.reference)
        for place, row in enumerate(rows)
        if row.reference is not None and row.has_reference
    }
    found: dict[int, OutboxId] = {}
    if references:
        items = yield from receipts.items_by_reference(references)
        found |= {place: item.id for place, item in items.items()}
    messages = {
        place: (of_target, row.provider_message_id)
        for place, row in enumerate(rows)
        if place not in found and row.provider_message_id is not None
    }
    if messages:
        items = yield from receipts.items_by_provider_message(messages)
        found |= {place: item.id for place, item in items.items()}
    return found
