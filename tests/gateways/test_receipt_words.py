"""What each reader makes of its provider's own words: codes, batches, answers of people."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.gateways.families import twilio_receipts, whatsapp_receipts
from outrider.gateways.family import Target
from outrider.gateways.http_client import HttpClient
from outrider.gateways.receipt_reading import ReceiptSecret, plain_keys
from outrider.gateways.sandbox_receipts import Post, standard_post
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS, RECEIPT_SECRET_REREAD_SECONDS
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified
from outrider.settings import TargetSettings
from outrider.testing.receipt_suite import NOW, callback
from tests.support.receipt_targets import (
    OTHER_SECRET,
    PUBLIC_URL,
    SECRET,
    NamedSecrets,
    gateways_of,
    target_settings,
)

URL = f"{PUBLIC_URL}/receipts/mine"
REFERENCE = "a7" * 32
Event = ReceiptEvent


def answer(name: str, post: Post, **changes: Any) -> Verified | Challenge | Refusal:
    reader = gateways_of(name).receipt_reader("mine", name)
    assert reader is not None
    return reader.read(callback(post, **changes), NOW)


def receipts(name: str, post: Post) -> Sequence[Receipt]:
    found = answer(name, post)
    assert isinstance(found, Verified), found
    return found.receipts


# Twilio.


def twilio(form: Mapping[str, str], url: str = f"{URL}?reference={REFERENCE}") -> Post:
    signature = twilio_receipts.signature(SECRET.encode(), url, list(form.items()))
    headers = {twilio_receipts.SIGNATURE_HEADER: signature}
    return Post(url, urlencode(form).encode(), headers)


@pytest.mark.parametrize(
    ("status", "code", "event", "permanent"),
    [
        ("delivered", "", Event.DELIVERED, False),
        ("read", "", Event.READ, False),
        ("undelivered", "30005", Event.BOUNCED, True),
        ("undelivered", "30006", Event.BOUNCED, True),
        ("undelivered", "30003", Event.BOUNCED, False),
        ("undelivered", "30007", Event.FAILED, False),
        ("failed", "21610", Event.OPTED_OUT, True),
        ("failed", "30008", Event.FAILED, False),
        ("canceled", "", Event.FAILED, True),
    ],
)
def test_twilios_statuses_and_codes(
    status: str, code: str, event: ReceiptEvent, permanent: bool
) -> None:
    form = {"MessageSid": "SM1", "MessageStatus": status, "To": "+447700900123"}
    (receipt,) = receipts("twilio_sms", twilio(form | ({"ErrorCode": code} if code else {})))
    assert (receipt.event, receipt.permanent) == (event, permanent)
    assert (receipt.reference, receipt.provider_message_id) == (REFERENCE, "SM1")
    assert code in receipt.reason


@pytest.mark.parametrize("status", ["accepted", "queued", "sending", "sent", "scheduled", "new"])
def test_intermediate_statuses_of_twilio_are_not_receipts(status: str) -> None:
    post = twilio({"MessageSid": "SM1", "MessageStatus": status})
    found = answer("twilio_sms", post)
    assert found == Verified([], "<Response/>", "text/xml")


def test_a_text_message_to_our_number_is_a_reply() -> None:
    form = {"MessageSid": "SM9", "SmsStatus": "received", "From": "+447700900123", "Body": " Hi! "}
    (receipt,) = receipts("twilio_sms", twilio(form, URL))
    assert (receipt.event, receipt.sender, receipt.text) == (Event.REPLIED, "+447700900123", "Hi!")
    assert receipt.provider_message_id is None
    assert receipt.reference is None
    (receipt,) = receipts("twilio_sms", twilio(form | {"OptOutType": "STOP"}, URL))
    assert (receipt.event, receipt.sender) == (Event.OPTED_OUT, "+447700900123")


@pytest.mark.parametrize(
    ("status", "sip", "event", "permanent"),
    [
        ("completed", "200", Event.DELIVERED, False), ("busy", "486", Event.FAILED, False),
        ("no-answer", "487", Event.FAILED, False), ("failed", "404", Event.BOUNCED, True),
        ("failed", "503", Event.FAILED, False), ("canceled", "", Event.FAILED, True),
    ],
)  # fmt: skip
def test_twilios_calls(status: str, sip: str, event: ReceiptEvent, permanent: bool) -> None:
    form = {"CallSid": "CA1", "CallStatus": status, "SipResponseCode": sip}
    form["Timestamp"] = "Tue, 17 Nov 2026 11:59:00 +0000"
    (receipt,) = receipts("twilio_voice", twilio(form))
    assert (receipt.event, receipt.permanent) == (event, permanent)
    assert receipt.occurred_at == datetime(2026, 11, 17, 11, 59, tzinfo=UTC)


def test_twilios_reference_is_taken_from_the_signed_url_alone() -> None:
    post = twilio({"MessageSid": "SM1", "MessageStatus": "delivered"})
    reader = gateways_of("twilio_sms").receipt_reader("mine", "twilio_sms")
    assert reader is not None
    found = reader.read(callback(post, query={"reference": "f" * 64}), NOW)
    assert isinstance(found, Verified)
    assert found.receipts[0].reference == REFERENCE
    forged = callback(post, url=f"{URL}?reference={'f' * 64}")
    assert isinstance(reader.read(forged, NOW), Refusal)


@pytest.mark.parametrize(
    "called",
    [
        f"http://10.0.0.7:8080/receipts/mine?reference={REFERENCE}",
        f"https://news.example.com:443/receipts/mine?reference={REFERENCE}",
    ],
)
def test_a_proxy_may_change_the_beginning_of_twilios_url(called: str) -> None:
    post = twilio({"MessageSid": "SM1", "MessageStatus": "delivered"})
    assert isinstance(answer("twilio_sms", post, url=called), Verified)
    elsewhere = called.replace("receipts/mine?reference=a7", "receipts/mine?reference=a8")
    assert isinstance(answer("twilio_sms", post, url=elsewhere), Refusal)


def test_an_api_keys_secret_does_not_check_what_the_account_signs() -> None:
    options = {"accountSid": "AC1", "apiKeySid": "SK1", "from": "+15550001111"}
    keyed = TargetSettings(options=options, credentials={"authToken": "env:MINE"})
    both = {"authToken": "env:OTHER", "receiptsSecret": "env:MINE"}
    targets = {
        "keyed": keyed,
        "both": TargetSettings(options=options, credentials=both),
    }
    gateways = Gateways(NamedSecrets(), targets=targets, public_url=PUBLIC_URL)
    assert gateways.receipt_reader("keyed", "twilio_sms") is None
    reader = gateways.receipt_reader("both", "twilio_sms")
    assert reader is not None
    post = twilio({"MessageSid": "SM1", "MessageStatus": "delivered"})
    assert isinstance(reader.read(callback(post), NOW), Verified)


# Resend.


def resend(kind: str, **data: object) -> Post:
    document = {"type": kind, "created_at": "2026-11-17T11:59:00.000Z", "data": data}
    body = json.dumps(document).encode()
    return standard_post(URL, body, "application/json", SECRET, NOW, "svix")


@pytest.mark.parametrize(
    ("kind", "data", "event", "permanent"),
    [
        ("email.delivered", {}, Event.DELIVERED, False),
        ("email.bounced", {"bounce": {"type": "Permanent"}}, Event.BOUNCED, True),
        ("email.bounced", {"bounce": {"type": "Transient"}}, Event.BOUNCED, False),
        ("email.bounced", {}, Event.BOUNCED, False),
        ("email.complained", {}, Event.COMPLAINED, False),
        ("email.opened", {}, Event.READ, False),
        ("email.clicked", {}, Event.READ, False),
        ("email.delivery_delayed", {}, Event.FAILED, False),
        ("email.failed", {"failed": {"reason": "quota"}}, Event.FAILED, False),
        ("email.suppressed", {"suppressed": {"message": "listed"}}, Event.FAILED, True),
    ],
)
def test_resends_events(
    kind: str, data: dict[str, object], event: ReceiptEvent, permanent: bool
) -> None:
    for tags in (
        {"outrider_reference": REFERENCE, "other": "x"},
        [{"name": "other", "value": "x"}, {"name": "outrider_reference", "value": REFERENCE}],
    ):
        (receipt,) = receipts("resend", resend(kind, email_id="e-1", tags=tags, **data))
        assert (receipt.event, receipt.permanent) == (event, permanent)
        assert (receipt.reference, receipt.provider_message_id) == (REFERENCE, "e-1")
        assert receipt.occurred_at == datetime(2026, 11, 17, 11, 59, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["email.sent", "email.scheduled", "domain.updated", "new.thing"])
def test_a_report_without_news_of_a_message_is_accepted_and_ignored(kind: str) -> None:
    assert receipts("resend", resend(kind, id=5, tags=7)) == []


def test_resend_may_use_the_standard_header_names() -> None:
    body = b'{"type": "email.delivered", "data": {"email_id": "e-1"}}'
    (receipt,) = receipts("resend", standard_post(URL, body, "application/json", SECRET, NOW))
    assert receipt.provider_message_id == "e-1"


# WhatsApp Cloud.


def whatsapp(value: Mapping[str, object], field: str = "messages") -> Post:
    entry = [{"id": "1", "changes": [{"field": field, "value": value}]}]
    body = json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()
    signature = whatsapp_receipts.signature(SECRET.encode(), body)
    return Post(URL, body, {whatsapp_receipts.SIGNATURE_HEADER: signature})


@pytest.mark.parametrize(
    ("status", "code", "event", "permanent"),
    [
        ("delivered", None, Event.DELIVERED, False), ("read", None, Event.READ, False),
        ("failed", 131026, Event.BOUNCED, False), ("failed", 131021, Event.BOUNCED, True),
        ("failed", 131050, Event.OPTED_OUT, True), ("failed", 131049, Event.FAILED, False),
        ("failed", None, Event.FAILED, False),
    ],
)  # fmt: skip
def test_whatsapps_statuses(
    status: str, code: int | None, event: ReceiptEvent, permanent: bool
) -> None:
    document = {
        "id": "wamid.1", "status": status, "timestamp": "1794916800",
        "recipient_id": "447700900123", "biz_opaque_callback_data": REFERENCE,
    }  # fmt: skip
    errors = {"errors": [{"code": code, "title": "t"}]} if code else {}
    (receipt,) = receipts("whatsapp_cloud", whatsapp({"statuses": [document | errors]}))
    assert (receipt.event, receipt.permanent) == (event, permanent)
    assert (receipt.reference, receipt.provider_message_id) == (REFERENCE, "wamid.1")
    assert receipt.occurred_at == datetime(2026, 11, 17, 12, tzinfo=UTC)
    assert receipt.sender == ("+447700900123" if event is Event.OPTED_OUT else None)


def test_whatsapps_answers_and_preferences() -> None:
    common = {"from": "447700900123", "timestamp": "1794916800", "context": {"id": "wamid.1"}}
    messages = [
        {**common, "id": "in-1", "type": "text", "text": {"body": "Stop"}},
        {**common, "id": "in-2", "type": "button", "button": {"text": "No thanks"}},
        {**common, "id": "in-3", "type": "image", "image": {"id": "5"}},
        {**common, "id": "in-4", "type": "reaction", "reaction": {"emoji": "x"}},
    ]
    found = receipts("whatsapp_cloud", whatsapp({"messages": messages}))
    assert [(each.event, each.text) for each in found] == [
        (Event.REPLIED, "Stop"), (Event.REPLIED, "No thanks"), (Event.REPLIED, ""),
    ]  # fmt: skip
    assert {each.provider_message_id for each in found} == {"wamid.1"}
    assert {each.sender for each in found} == {"+447700900123"}
    preference = {"wa_id": "447700900123", "value": "stop", "timestamp": 1794916800}
    (receipt,) = receipts(
        "whatsapp_cloud", whatsapp({"user_preferences": [preference]}, "user_preferences")
    )
    assert (receipt.event, receipt.sender) == (Event.OPTED_OUT, "+447700900123")
    assert receipts("whatsapp_cloud", whatsapp({"messages": 5}, "account_update")) == []


def test_metas_handshake_is_answered_for_the_right_token_only() -> None:
    reader = gateways_of("whatsapp_cloud").receipt_reader("mine", "whatsapp_cloud")
    assert reader is not None

    def ask(**query: str) -> object:
        named = {f"hub.{name}": value for name, value in query.items()}
        return reader.read(Callback("GET", URL, named, {}, b""), NOW)

    asked = {"mode": "subscribe", "challenge": "1158201444"}
    assert ask(**asked, verify_token=SECRET) == Challenge("1158201444")
    wrong = ask(**asked, verify_token=OTHER_SECRET)
    assert isinstance(wrong, Refusal)
    assert wrong.why is RefusedFor.FORGED
    for incomplete in (asked, {"verify_token": SECRET}, {}):
        refused = ask(**incomplete)
        assert isinstance(refused, Refusal)
        assert refused.why is RefusedFor.UNSIGNED


# sms and push.


@pytest.mark.parametrize(
    "receipt",
    [
        {"receiptId": "r", "event": "delivered"},
        {"receiptId": "", "event": "delivered", "referenceId": "k"},
        {"receiptId": "r" * 201, "event": "delivered", "referenceId": "k"},
        {"receiptId": "r\n", "event": "delivered", "referenceId": "k"},
        {"receiptId": "r", "event": "vanished", "referenceId": "k"},
        {"receiptId": "r", "event": "delivered", "referenceId": 5},
        {"receiptId": "r", "event": "delivered", "referenceId": "k", "occurredAt": "yesterday"},
        {"receiptId": "r", "event": "delivered", "referenceId": "k",
         "occurredAt": "2026-11-17T12:00:00"},
        {"receiptId": "r", "event": "bounced", "referenceId": "k", "permanent": "yes"},
    ],
)  # fmt: skip
def test_one_wrong_receipt_refuses_the_whole_request(receipt: dict[str, object]) -> None:
    good = {"receiptId": "g", "event": "delivered", "referenceId": "k"}
    body = json.dumps({"receipts": [good, receipt]}).encode()
    found = answer("sms", standard_post(URL, body, "application/json", SECRET, NOW))
    assert isinstance(found, Refusal)
    assert found.why is RefusedFor.MALFORMED


def test_a_gateways_message_id_may_be_a_number() -> None:
    document = {"receiptId": "r", "event": "delivered", "gatewayMessageId": 17, "new": "field"}
    body = json.dumps({"receipts": [document]}).encode()
    (receipt,) = receipts("push", standard_post(URL, body, "application/json", SECRET, NOW))
    assert receipt.provider_message_id == "17"


# Secrets, and whose they are.


def test_a_rotated_secret_is_read_again_when_a_signature_fails() -> None:
    secrets, seconds = NamedSecrets(), [0.0]
    target = Target("mine", "", target_settings("sms"), HttpClient(), secrets, "")
    secret = ReceiptSecret(target, "receiptsSecret", plain_keys, seconds=lambda: seconds[0])

    def genuine_with(key: str) -> bool:
        def check(keys: Sequence[bytes]) -> SignatureState:
            return SignatureState.GENUINE if key.encode() in keys else SignatureState.FORGED

        return secret.judge(check) is SignatureState.GENUINE

    assert genuine_with(SECRET)
    secrets.values["env:MINE"] = f"{OTHER_SECRET}\n{SECRET}"
    seconds[0] += RECEIPT_SECRET_REREAD_SECONDS
    assert genuine_with(OTHER_SECRET)
    assert genuine_with(SECRET)
    secrets.values["env:MINE"] = OTHER_SECRET
    seconds[0] += CREDENTIAL_REREAD_SECONDS
    assert not genuine_with(SECRET)
    # A flood of forged callbacks reads it once.
    reads = secrets.reads
    for _ in range(100):
        assert not genuine_with("forged")
    assert secrets.reads <= reads + 1
    # What cannot be read for a moment does not end the old one.
    del secrets.values["env:MINE"]
    seconds[0] += CREDENTIAL_REREAD_SECONDS
    assert genuine_with(OTHER_SECRET)


def test_a_workspaces_own_secret_checks_its_receipts() -> None:
    own = {"credentials": {"receiptsSecret": "env:OTHER"}}
    settings = TargetSettings.model_validate(
        {"credentials": {"receiptsSecret": "env:MINE"}, "workspaces": {"a/b/c": own}}
    )
    gateways = Gateways(NamedSecrets(), targets={"mine": settings}, public_url=PUBLIC_URL)
    body = b'{"receipts": []}'
    workspace = WorkspaceName.parse("a/b/c")
    for secret, reads in ((SECRET, None), (OTHER_SECRET, workspace)):
        found = callback(standard_post(URL, body, "application/json", secret, NOW))
        for name in (None, workspace):
            reader = (
                gateways.receipt_reader("mine", "sms")
                if name is None
                else gateways.receipt_reader("mine", "sms", name)
            )
            assert reader is not None
            assert isinstance(reader.read(found, NOW), Verified if name == reads else Refusal)
    assert gateways.receipt_reader("mine", "sms", WorkspaceName.parse("x/y/z")) is None
    assert gateways.receipts_url("mine") == URL
    assert gateways.receipts_url("mine", workspace) == f"{PUBLIC_URL}/receipts/a:b:c/mine"
    assert Gateways(NamedSecrets()).receipts_url("mine") is None
