"""An intent as clients see it: its status, its contract and its attempts."""

from collections.abc import Sequence

import msgspec

from outrider.domain.contracts import contract_document
from outrider.domain.submission import Contract
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.resubmissions import NOT_RESUBMITTED, ResubmissionLinks
from outrider.kernel.transactions.submissions import Intent


def intent_document(
    intent: Intent, attempts: Sequence[Attempt], contract: Contract, *, with_url: bool = True,
    links: ResubmissionLinks = NOT_RESUBMITTED,
) -> dict[str, object]:  # fmt: skip
    """`with_url`: the gateway's address is shown only to its operator."""
    terms = contract_document(contract)
    if not with_url:
        terms["gatewayUrl"] = None
    return {
        "intentId": intent.intent_id,
        "outboxId": intent.outbox_id,
        "submissionTarget": intent.submission_target,
        "payload": msgspec.Raw(intent.payload.encode()),
        "topic": intent.topic,
        "transactional": bool(intent.transactional),
        "callbackUrl": intent.callback_url,
        "timeZone": intent.time_zone,
        "status": intent.status,
        "finalOutcome": intent.final_outcome,
        "exhaustedReason": intent.exhausted_reason,
        "inDoubt": intent.doubted_at is not None,
        "contract": terms,
        "reason": intent.reason,
        "error": intent.error,
        "waitsFor": intent.waits_for,
        "createdAt": rfc3339(intent.created_at),
        "resubmits": links.resubmits,
        "resubmittedAs": links.resubmitted_as,
        "delivery": intent.delivery.as_document(),
        "attempts": [
            {
                "number": attempt.number,
                "contractAttempt": attempt.number,
                "engineAttempt": attempt.engine_attempt,
                "openedAt": rfc3339(attempt.opened_at),
                "closedAt": rfc3339(attempt.closed_at) if attempt.closed_at else None,
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "error": attempt.error,
                "progress": attempt.progress,
            }
            for attempt in attempts
        ],
    }
