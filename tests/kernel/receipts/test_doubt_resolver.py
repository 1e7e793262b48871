"""Whoever is EXHAUSTED says why (audit M): also where a person's verdict ended the doubt."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.submissions import Intent
from outrider.testing.launches import target
from tests.support.whole_runs import opened, working

PATIENCE_SECONDS = 60
LETTER = {"to": "ada@example.test", "subject": "S", "body": "B"}


async def doubted(outrider: Outrider, intent_id: str) -> Intent:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
            if intent.doubted_at is not None:
                return intent
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("policy", "terms", "why"),
    [
        ("max_attempts", {"maxAttempts": 5}, "max_attempts"),
        ("one_shot", {}, "one_shot"),
        ("deadline", {"maxAcceptanceSeconds": 3_600}, "deadline_exceeded"),
    ],
)
async def test_an_intent_whose_doubt_is_judged_failed_says_why_it_is_exhausted(
    database: str, tmp_path: Path, policy: str, terms: dict[str, Any], why: str
) -> None:
    """M: the rule of its contract that ends it, since no attempt will be made any more."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        mail = target("mail", "smtp", sandbox.smtp_url, policy=policy, **terms)
        async with opened(database, tmp_path, mail) as outrider:
            given = Submission("order-1", "mail", LETTER)
            await outrider.submissions.submit(DEFAULT_SCOPE, given)
            async with working(outrider):
                intent = await doubted(outrider, "order-1")
            assert intent.status == "PENDING"
            await outrider.doubt_resolver.resolve(
                DEFAULT_SCOPE, intent.outbox_id, DoubtVerdict.FAILED, "their log", "test"
            )
            found, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "order-1")
            contract = await outrider.submissions.contract_of(found)
    told = intent_document(found, attempts, contract)
    assert (told["status"], told["exhaustedReason"], told["inDoubt"]) == ("EXHAUSTED", why, False)


async def test_a_doubt_that_was_exhausted_before_its_verdict_keeps_its_reason(
    database: str, tmp_path: Path
) -> None:
    """M: the gateway's silence used up the only attempt, and the verdict says no more than that."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        texts = target("texts", "sms", sandbox.http_url, maxAttempts=1)
        async with opened(database, tmp_path, texts) as outrider:
            given = Submission("order-1", "texts", {"to": "+447700900123", "message": "Hi"})
            await outrider.submissions.submit(DEFAULT_SCOPE, given)
            async with working(outrider):
                intent = await doubted(outrider, "order-1")
            assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "max_attempts")
            await outrider.doubt_resolver.resolve(
                DEFAULT_SCOPE, intent.outbox_id, DoubtVerdict.FAILED, "their log", "test"
            )
            settled, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "order-1")
    assert (settled.status, settled.exhausted_reason) == ("EXHAUSTED", "max_attempts")
    assert settled.item_status == "failed"
