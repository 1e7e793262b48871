"""`outrider target try`: one message through a target, and what went over the wire.

It is an intent like any other, with its row in the ledger. A worker of this process sends it, so
that the request and the answer can be shown.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from outrider.api.target_lines import target_line
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.documents import Document, document_of
from outrider.domain.errors import Conflict
from outrider.domain.evidence import TargetEvidence
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import Purpose
from outrider.domain.states import IntentStatus
from outrider.gateways.families.push_options import topic
from outrider.gateways.reachability import CONNECT_HINTS
from outrider.gateways.wire_tap import Exchange, WireTap
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.ledger_items import Attempt
from outrider.kernel.transactions.submissions import Intent
from outrider.kernel.work.queue_turns import WorkFilter
from outrider.ports.gateway import Gateway

LOOK_SECONDS = 0.1
WAITING, IN_DOUBT = "waiting", "in_doubt"
FIXES = {
    WAITING: texts.TargetTry.WAITING,
    IN_DOUBT: texts.TargetTry.IN_DOUBT,
    "unauthorized": texts.TargetTry.UNAUTHORIZED,
    "sender_refused": texts.TargetTry.SENDER,
    "account_refused": texts.TargetTry.ACCOUNT,
    "invalid_setup": texts.TargetTry.SETUP,
    "template_refused": texts.TargetTry.TEMPLATE,
    "invalid_recipient": texts.TargetTry.RECIPIENT,
    "suppressed": texts.TargetTry.SUPPRESSED,
    "unregistered_token": texts.TargetTry.UNREGISTERED,
    "target_throttled": texts.TargetTry.THROTTLED,
    "tls_failure": texts.TargetTry.CERTIFICATE,
    **dict.fromkeys(CONNECT_HINTS, texts.TargetTry.UNREACHABLE),
}
ENDED = frozenset(each.value for each in IntentStatus if each is not IntentStatus.PENDING)


async def tried(
    outrider: Outrider, name: str, to: str, subject: str, body: str | None, seconds: float
) -> Document:
    line = document_of(await target_line(outrider, DEFAULT_SCOPE, name))
    if line["openJobs"]:
        raise Conflict(
            texts.TargetTry.BUSY.format(jobs=line["openJobs"], target=name),
            hint=texts.TargetTry.BUSY_HINT.format(target=name, to=to),
        )
    intent_id = f"try-{uuid.uuid4().hex[:12]}"
    where = name, line["gatewayType"], line["gatewayUrl"]
    gateway = outrider.gateways.gateway(*where)
    text = body if body is not None else texts.TargetTry.BODY.format(intent_id=intent_id)
    payload = _payload(line["gatewayType"], to, subject, text)
    given = Submission(intent_id, name, payload, purpose=Purpose(transactional=True))
    intent, _ = await outrider.submissions.submit(DEFAULT_SCOPE, given)
    # A push to a browser is encrypted, and has our reference in its topic alone.
    marks = intent.key, intent_id, topic(intent.key)
    tap = WireTap(marks, lambda: _secrets(gateway))
    async with outrider.gateways.tapped(tap), _worker(outrider, name):
        intent, attempts = await _outcome(outrider, name, intent_id, seconds)
    door = document_of(await target_line(outrider, DEFAULT_SCOPE, name))["state"] or {}
    return {
        "submissionTarget": name,
        "gatewayType": line["gatewayType"],
        "to": to,
        "intentId": intent_id,
        "referenceId": intent.key,
        **_wire(tap.seen),
        **_said(intent, attempts, door),
        "evidence": _evidence(outrider.gateways.evidence(*where)),
        "success": intent.status == IntentStatus.ACCEPTED,
    }


def _payload(gateway_type: str, to: str, subject: str, text: str) -> dict[str, Any]:
    """`sms` and `push` forward what they are given; the others read these three."""
    match gateway_type:
        case "sms":
            return {"to": to, "message": text}
        case "push":
            return {"token": to, "title": subject, "body": text}
        case _:
            return {"to": to, "subject": subject, "body": text}


def _secrets(gateway: Gateway) -> list[str]:
    known = getattr(gateway, "secret_values", None)
    return [] if known is None else list(known())


@asynccontextmanager
async def _worker(outrider: Outrider, name: str) -> AsyncIterator[None]:
    await outrider.reach_engine()
    async with (
        outrider.worker(work_filter=WorkFilter(frozenset({name}))) as worker,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(worker.run(), name="worker")
        yield
        worker.stop()


async def _outcome(
    outrider: Outrider, name: str, intent_id: str, seconds: float
) -> tuple[Intent, list[Attempt]]:
    """Until it has an outcome, is in doubt, or its target's door is not open."""
    until = asyncio.get_running_loop().time() + seconds
    while True:
        intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
        if intent.status in ENDED or intent.doubted_at is not None:
            return intent, attempts
        line = document_of(await target_line(outrider, DEFAULT_SCOPE, name))
        is_closed = (line["state"] or {}).get("door", "open") != "open"
        is_over = any(each.outcome is not None for each in attempts)
        if is_closed or is_over or asyncio.get_running_loop().time() > until:
            return intent, attempts
        await asyncio.sleep(LOOK_SECONDS)


def _wire(seen: Exchange | None) -> Document:
    if seen is None:
        return {"request": None, "answer": None}
    return {
        "request": {"line": seen.line, "headers": seen.headers, "body": seen.body},
        "answer": {"status": seen.status, "body": seen.answer},
    }


def _said(intent: Intent, attempts: list[Attempt], door: Document) -> Document:
    last = attempts[-1] if attempts else None
    reason = intent.reason or (last.reason if last else None) or door.get("reason")
    error = intent.error or (last.error if last else None)
    # A contract may try again what was refused once: the trial ends with the first answer.
    outcome = (last.outcome if last else None) or WAITING
    if intent.status in ENDED:
        outcome = intent.status.lower()
    elif intent.doubted_at is not None:
        outcome = IN_DOUBT
    return {
        "outcome": outcome,
        "reason": reason,
        "error": error,
        "providerMessageId": last.provider_message_id if last else None,
        "door": door.get("door", "open"),
        "fix": None if intent.status == IntentStatus.ACCEPTED else _fix(outcome, reason, error),
    }


def _fix(outcome: str, reason: str | None, error: str | None) -> str:
    """By the reason, or by the code that an error begins with."""
    for text in (reason, error):
        code = (text or "").partition(":")[0].strip()
        if code in FIXES:
            return FIXES[code]
    return FIXES.get(outcome, texts.TargetTry.OTHERWISE)


def _evidence(found: TargetEvidence) -> Document:
    """By what a doubt about a call of this target, as it is set up, can settle."""
    return {
        "key": str(found.memory) if found.memory.is_memory else None,
        "lookUp": None if found.look_up is None else found.look_up.asks,
        "receipts": None if found.receipts is None else found.receipts.returns,
    }
