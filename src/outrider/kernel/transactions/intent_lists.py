"""Lists of intents: the newest first, page by page."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import OutboxId, Scope
from outrider.domain.states import IntentStatus
from outrider.kernel.transactions.ledger_items import last_repeats
from outrider.ports.store import Transaction, ask


class IntentLine(NamedTuple):
    """An intent in a list."""

    outbox_id: OutboxId
    intent_id: str
    submission_target: str
    status: str
    final_outcome: str | None
    exhausted_reason: str | None
    attempts: int
    repeats: int
    opened_at: datetime | None
    doubted_at: datetime | None
    topic: str | None
    transactional: bool
    reason: str | None
    created_at: datetime
    updated_at: datetime


def intents_page(
    scope: Scope,
    after: str,
    most: int,
    looked: int,
    *,
    status: IntentStatus | None = None,
    submission_target: str | None = None,
) -> Transaction[tuple[list[IntentLine], str | None]]:
    """Newest first, with the position after which the next page starts. With a filter, only
    `looked` rows are examined: a page may then have fewer items although there are more."""
    if status is None and submission_target is None:
        looked = most
    rows = yield from ask(
        "intents_page",
        **scope._asdict(),
        after=after,
        looked=looked,
        most=most,
        status=status.value if status else None,
        submission_target=submission_target,
    )
    lines = [IntentLine(*row) for row in rows]
    between = [each.outbox_id for each in lines if each.attempts and each.opened_at is None]
    repeats = yield from last_repeats(between)
    lines = [
        each._replace(repeats=each.repeats or repeats.get(each.outbox_id, 0)) for each in lines
    ]
    if len(lines) == most:
        return lines, lines[-1].outbox_id
    end = yield from ask("intents_looked_until", **scope._asdict(), after=after, passed=looked - 1)
    return lines, end[0][0] if end else None
