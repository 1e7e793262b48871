"""An intent's document: what its client sent and its status; the URL is for operators."""

from datetime import UTC, datetime

import msgspec

from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.submission import Contract, OneShot
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.transactions.submissions import Intent

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
CONTRACT = Contract("sms.all", "sms", "http://gateway.test", "realtime", OneShot(), frozenset())
INTENT = Intent(
    IdempotencyKey("key"), "order-1", "sms.all", '{"to": "+447700900123", "n": 1.0}', "PENDING",
    None, None, 0, "queued", None, NOW, NOW, OutboxId("outbox-1"), 1,
)  # fmt: skip


def test_the_payload_is_shown_as_its_client_wrote_it() -> None:
    shown = msgspec.json.encode(intent_document(INTENT, [], CONTRACT)).decode()
    assert '"payload":{"to": "+447700900123", "n": 1.0}' in shown


def test_the_gateways_url_is_shown_to_its_operator_only() -> None:
    contracts = [
        intent_document(INTENT, [], CONTRACT, with_url=with_url)["contract"]
        for with_url in (True, False)
    ]
    urls = [contract["gatewayUrl"] for contract in contracts if isinstance(contract, dict)]
    assert urls == ["http://gateway.test", None]


def test_an_intent_in_doubt_says_so() -> None:
    doubted = INTENT._replace(doubted_at=NOW)
    assert [intent_document(each, [], CONTRACT)["inDoubt"] for each in (INTENT, doubted)] == [
        False,
        True,
    ]
