"""Every gateway family against the simulator, and what each asks of its provider, to the letter."""

import base64
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs

import aiohttp
import pytest

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import memory_of
from outrider.domain.states import Channel, ItemStatus, success_status
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.content import Content
from outrider.gateways.credentials import Credential
from outrider.gateways.directory import FAMILIES, GATEWAY_TYPES, Gateways
from outrider.gateways.families.push_options import topic
from outrider.gateways.family import Target
from outrider.gateways.http_client import HttpClient
from outrider.gateways.sandbox import Sandbox
from outrider.gateways.simulators.apns import UNREGISTERED
from outrider.gateways.simulators.web_push import subscription
from outrider.limits.gateways import CREDENTIAL_REREAD_SECONDS
from outrider.ports.gateway import Gateway, Reservation
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, GatewayBench, GatewayConformance, reserve
from tests.support.broken_server import (
    Reader,
    Writer,
    answering,
    answering_then_close,
    closed_port,
    http,
    read_request,
    serving,
)
from tests.support.provider_targets import (
    DEVICE,
    HTTP2,
    PLANTED,
    SIGNS_IN,
    TARGETS,
    PlantedSecrets,
    url_of,
)

PHONE, MAIL = "+447700900123", "ada@example.test"
WITH_CREDENTIALS = [name for name, target in TARGETS.items() if target.credentials]
PROVIDERS = [name for name in WITH_CREDENTIALS if name not in SIGNS_IN | HTTP2]
EXPO_TOKEN = "ExponentPushToken[token-1]"
BROWSER = subscription("/web-push/1")
MAIL_PROVIDERS = ["ses", "sendgrid", "mailgun", "postmark", "brevo", "mailjet"]
ADDRESSES = {
    "resend": MAIL, "fcm": "token-1", "mastodon": "", "expo": EXPO_TOKEN, "web_push": BROWSER,
    "apns": DEVICE,
    "slack": "", "telegram": "", "bluesky": "", **dict.fromkeys(MAIL_PROVIDERS, MAIL),
}  # fmt: skip
SAYS_SO_IN_A_HEADER = {"postmark": "x-postmark-server-token", "brevo": "api-key"}
"""Where the credential is, if it is not the authorisation."""


class _Family(GatewayConformance):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[GatewayBench]:
        gateways = Gateways(PlantedSecrets(), targets=TARGETS)
        async with Sandbox() as sandbox:
            scheme = "smtp" if self.gateway_type == "smtp" else "http"
            url = url_of(sandbox, self.gateway_type)
            nobody = f"{scheme}://127.0.0.1:{closed_port()}"
            yield GatewayBench(
                sandbox,
                gateways.gateway(self.gateway_type, self.gateway_type, url),
                gateways.gateway(self.gateway_type, self.gateway_type, nobody),
                (PLANTED, base64.b64encode(PLANTED.encode()).decode().rstrip("=")),
            )
            await gateways.close()


class TestSms(_Family):
    gateway_type, channel, status = "sms", Channel.SMS, ItemStatus.SENT
    address, refused_address = PHONE, "nobody"
    payload: ClassVar[Mapping[str, Any]] = {"to": PHONE, "message": "Hi", "referenceId": "mine"}


class TestPush(_Family):
    gateway_type, channel, status = "push", Channel.PUSH, ItemStatus.SENT
    address, refused_address = "token-1", "unregistered-1"
    payload: ClassVar[Mapping[str, Any]] = {"token": "token-1", "badge": 3, "nested": {"a": [1]}}


class TestSmtp(_Family):
    gateway_type, channel, status = "smtp", Channel.EMAIL, ItemStatus.SENT
    address, refused_address = MAIL, "reject-me@example.test"
    payload: ClassVar[Mapping[str, Any]] = {"to": MAIL, "subject": "Offer", "body": "Hi"}
    says_when_to_return = False
    carries_enclosures = True


class TestResend(_Family):
    gateway_type, channel, status = "resend", Channel.EMAIL, ItemStatus.SENT
    address, refused_address = MAIL, "reject-me@example.test"
    payload: ClassVar[Mapping[str, Any]] = {"to": MAIL, "subject": "Offer", "body": "Hi"}
    carries_enclosures = True


class _MailProvider(_Family):
    channel, status = Channel.EMAIL, ItemStatus.SENT
    address, refused_address = MAIL, "reject-me@example.test"
    payload: ClassVar[Mapping[str, Any]] = {"to": MAIL, "subject": "Offer", "body": "Hi"}
    carries_enclosures = True


class TestSes(_MailProvider):
    gateway_type = "ses"


class TestSendGrid(_MailProvider):
    gateway_type = "sendgrid"


class TestMailgun(_MailProvider):
    gateway_type = "mailgun"


class TestPostmark(_MailProvider):
    gateway_type = "postmark"


class TestBrevo(_MailProvider):
    gateway_type = "brevo"


class TestMailjet(_MailProvider):
    gateway_type = "mailjet"


class TestTwilioSms(_Family):
    gateway_type, channel, status = "twilio_sms", Channel.SMS, ItemStatus.SENT
    address, refused_address = PHONE, "+15005550001"
    payload: ClassVar[Mapping[str, Any]] = {"to": PHONE, "body": "Hi"}


class TestTwilioVoice(_Family):
    gateway_type, channel, status = "twilio_voice", Channel.VOICE, ItemStatus.CALLED
    address, refused_address = PHONE, "+15005550001"
    payload: ClassVar[Mapping[str, Any]] = {"to": PHONE, "body": "Hi"}


class TestWhatsAppCloud(_Family):
    gateway_type, channel, status = "whatsapp_cloud", Channel.WHATSAPP, ItemStatus.SENT
    address, refused_address = PHONE, "+15005550001"
    payload: ClassVar[Mapping[str, Any]] = {"to": PHONE, "body": "Hi"}


class _SmsProvider(_Family):
    channel, status = Channel.SMS, ItemStatus.SENT
    address, refused_address = PHONE, "+15005550001"
    payload: ClassVar[Mapping[str, Any]] = {"to": PHONE, "body": "Hi"}


class TestTelnyx(_SmsProvider):
    gateway_type = "telnyx"


class TestVonage(_SmsProvider):
    gateway_type = "vonage"


class TestSinch(_SmsProvider):
    gateway_type = "sinch"


class TestInfobip(_SmsProvider):
    gateway_type = "infobip"


class TestPlivo(_SmsProvider):
    gateway_type = "plivo"


class _Post(_Family):
    channel, status = Channel.SOCIAL, ItemStatus.POSTED
    address, refused_address = "", None
    payload: ClassVar[Mapping[str, Any]] = {"body": "Hi"}


class TestSlack(_Post):
    gateway_type = "slack"


class TestTelegram(_Post):
    gateway_type = "telegram"


class TestBluesky(_Post):
    gateway_type = "bluesky"


class TestWebPush(_Family):
    gateway_type, channel, status = "web_push", Channel.PUSH, ItemStatus.SENT
    address, refused_address = BROWSER, "nobody"
    payload: ClassVar[Mapping[str, Any]] = {"to": BROWSER, "subject": "Offer", "body": "Hi"}


class TestExpo(_Family):
    gateway_type, channel, status = "expo", Channel.PUSH, ItemStatus.SENT
    address, refused_address = EXPO_TOKEN, "ExponentPushToken[unregistered-1]"
    payload: ClassVar[Mapping[str, Any]] = {"to": EXPO_TOKEN, "body": "Hi", "data": {"n": 1}}


class TestApns(_Family):
    gateway_type, channel, status = "apns", Channel.PUSH, ItemStatus.SENT
    address, refused_address = DEVICE, UNREGISTERED * 16
    payload: ClassVar[Mapping[str, Any]] = {"to": DEVICE, "subject": "Offer", "body": "Hi"}


class TestFcm(_Family):
    gateway_type, channel, status = "fcm", Channel.PUSH, ItemStatus.SENT
    address, refused_address = "token-1", "unregistered-1"
    payload: ClassVar[Mapping[str, Any]] = {"to": "token-1", "subject": "Offer", "body": "Hi"}


class TestMastodon(_Family):
    gateway_type, channel, status = "mastodon", Channel.SOCIAL, ItemStatus.POSTED
    address, refused_address = "", None
    payload: ClassVar[Mapping[str, Any]] = {"body": "Hi"}


def test_every_family_runs_the_suite() -> None:
    def suites(of: type[_Family]) -> set[type[_Family]]:
        return {of} | {found for each in of.__subclasses__() for found in suites(each)}

    bound = {suite.gateway_type for suite in suites(_Family) if hasattr(suite, "gateway_type")}
    assert bound == GATEWAY_TYPES.keys() - {"noop"}


# The exact requests.


class Heard:
    """One HTTP request, as the provider got it."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.line = first
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        assert self.headers["content-type"] == "application/x-www-form-urlencoded"
        fields = parse_qs(self.body.decode(), keep_blank_values=True, strict_parsing=True)
        return {name: value for name, (value,) in fields.items()}


def make(name: str, url: str, client: HttpClient, **changes: Any) -> Gateway:
    settings = TARGETS[name].model_copy(update=changes)
    return FAMILIES[name].make(
        Target(name, url, settings, client, PlantedSecrets(), "outrider@localhost")
    )


def option(name: str, **options: str) -> dict[str, Any]:
    return {"options": {**TARGETS[name].options, **options}}


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


async def heard(client: HttpClient, name: str, reservation: Reservation, **changes: Any) -> Heard:
    requests: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(http(200, b"{}", "Connection: close"))

    async with serving(remember) as port:
        await make(name, f"http://127.0.0.1:{port}/base", client, **changes).call(reservation)
    (request,) = requests
    return Heard(request)


async def answered(client: HttpClient, name: str, answer: bytes) -> CallResult:
    async with serving(answering(answer)) as port:
        gateway = make(name, f"http://127.0.0.1:{port}", client)
        return await gateway.call(reserve(ADDRESSES.get(name, PHONE)))


async def test_a_direct_sms_is_sent_unchanged_under_our_reference(client: HttpClient) -> None:
    payload = {"to": PHONE, "message": "Hi", "referenceId": "theirs", "extra": {"deep": [1, None]}}
    request = await heard(client, "sms", reserve("", payload=payload))
    assert request.document == {**payload, "referenceId": REFERENCE}


async def test_resend_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "resend", reserve(MAIL, body="<p>Hi</p>"))
    assert request.line == "POST /base/emails HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {PLANTED}"
    assert request.headers["idempotency-key"] == REFERENCE
    assert request.headers["content-type"] == "application/json"
    assert request.document == {
        "from": "News <news@example.test>",
        "to": [MAIL],
        "subject": "Offer",
        "html": "<p>Hi</p>",
    }
    plain = await heard(client, "resend", reserve(MAIL, body="Hi"), options={})
    assert (plain.document["text"], plain.document["from"]) == ("Hi", "outrider@localhost")


async def test_twilio_is_asked_for_a_message_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "twilio_sms", reserve(PHONE, body="Grüße & 1+1"))
    assert request.line == "POST /base/2010-04-01/Accounts/AC123/Messages.json HTTP/1.1"
    basic = base64.b64encode(f"AC123:{PLANTED}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {basic}"
    assert request.headers["x-outrider-reference"] == REFERENCE
    assert request.form == {"To": PHONE, "From": "+15550001111", "Body": "Grüße & 1+1"}


async def test_twilio_takes_a_messaging_service_and_an_api_key(client: HttpClient) -> None:
    options = {"accountSid": "AC123", "apiKeySid": "SK9", "messagingServiceSid": "MG7"}
    request = await heard(client, "twilio_sms", reserve(PHONE), options=options)
    assert request.form == {"To": PHONE, "MessagingServiceSid": "MG7", "Body": "Hello"}
    basic = base64.b64encode(f"SK9:{PLANTED}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {basic}"


async def test_twilio_is_asked_for_a_call_as_its_api_requires(client: HttpClient) -> None:
    changes = option("twilio_voice", language="de-DE")
    request = await heard(client, "twilio_voice", reserve(PHONE, body="1 < 2 & 3"), **changes)
    assert request.line == "POST /base/2010-04-01/Accounts/AC123/Calls.json HTTP/1.1"
    said = '<Response><Say language="de-DE">1 &lt; 2 &amp; 3</Say></Response>'
    assert request.form == {"To": PHONE, "From": "+15550001111", "Twiml": said}


@pytest.mark.parametrize("body", ["", "  ", "\x00", "\ud800", "x" * 4_001])
async def test_a_message_that_cannot_be_expressed_is_rejected_without_any_traffic(
    client: HttpClient, body: str
) -> None:
    gateway = make("twilio_voice", f"http://127.0.0.1:{closed_port()}", client)
    result = await gateway.call(reserve(PHONE, body=body))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_message"


async def test_whatsapp_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "whatsapp_cloud", reserve(PHONE))
    assert request.line == "POST /base/v23.0/106540352242922/messages HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {PLANTED}"
    assert request.document == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": PHONE,
        "biz_opaque_callback_data": REFERENCE,
        "type": "text",
        "text": {"preview_url": False, "body": "Hello"},
    }


async def test_whatsapp_puts_the_body_into_a_template_where_one_is_named(
    client: HttpClient,
) -> None:
    changes = option("whatsapp_cloud", template="offer", templateLanguage="de")
    request = await heard(client, "whatsapp_cloud", reserve(PHONE), **changes)
    assert request.document["type"] == "template"
    assert request.document["template"] == {
        "name": "offer",
        "language": {"code": "de"},
        "components": [{"type": "body", "parameters": [{"type": "text", "text": "Hello"}]}],
    }


async def test_fcm_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "fcm", reserve("token-1"))
    assert request.line == "POST /base/v1/projects/shop/messages:send HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {PLANTED}"
    assert request.headers["x-outrider-reference"] == REFERENCE
    assert request.document == {
        "message": {
            "token": "token-1",
            "notification": {"title": "Offer", "body": "Hello"},
            "android": {"notification": {"tag": REFERENCE}},
            "apns": {"headers": {"apns-collapse-id": REFERENCE}},
            "webpush": {"headers": {"Topic": topic(REFERENCE)}},
        }
    }


async def test_mastodon_is_called_as_its_api_requires(client: HttpClient) -> None:
    changes = option("mastodon", visibility="unlisted", language="en")
    request = await heard(client, "mastodon", reserve("", subject=None), **changes)
    assert request.line == "POST /base/api/v1/statuses HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {PLANTED}"
    assert request.headers["idempotency-key"] == REFERENCE
    assert request.form == {"status": "Hello", "visibility": "unlisted", "language": "en"}
    marked = await heard(client, "mastodon", reserve("", subject="News"))
    assert marked.form["spoiler_text"] == "News"


# What the providers' answers mean.


def resend(name: str) -> dict[str, Any]:
    return {"statusCode": 400, "name": name, "message": "why"}


def twilio(code: int) -> dict[str, Any]:
    return {"code": code, "message": "why", "more_info": "…", "status": 400}


def graph(code: int) -> dict[str, Any]:
    return {"error": {"message": "why", "type": "OAuthException", "code": code, "fbtrace_id": "x"}}


def fcm(status: str, code: str | None = None) -> dict[str, Any]:
    details = [{"@type": "google.rpc.BadRequest"}, {"@type": "FcmError", "errorCode": code}]
    return {"error": {"code": 400, "message": "why", "status": status, "details": details}}


def aws(name: str, message: str = "why") -> dict[str, Any]:
    return {"__type": f"com.amazonaws.ses#{name}", "message": message}


def sendgrid(field: str | None) -> dict[str, Any]:
    return {"errors": [{"message": "why", "field": field, "help": None}]}


def postmark(code: int) -> dict[str, Any]:
    return {"ErrorCode": code, "Message": "why"}


def mailjet(code: str, *related: str) -> dict[str, Any]:
    error = {"ErrorCode": code, "ErrorMessage": "why", "ErrorRelatedTo": list(related)}
    return {"Messages": [{"Status": "error", "Errors": [error]}]}


def brevo(code: str) -> dict[str, Any]:
    return {"code": code, "message": "why"}


@pytest.mark.parametrize(
    ("name", "status", "document", "message_id"),
    [
        ("resend", 200, {"id": "49a3"}, "49a3"),
        ("twilio_sms", 201, {"sid": "SM1", "code": None, "message": None}, "SM1"),
        ("twilio_voice", 201, {"sid": "CA1", "status": "queued"}, "CA1"),
        ("whatsapp_cloud", 200, {"messages": [{"id": "wamid.1"}], "contacts": []}, "wamid.1"),
        ("fcm", 200, {"name": "projects/shop/messages/1"}, "projects/shop/messages/1"),
        ("mastodon", 200, {"id": "103", "content": "<p>Hi</p>"}, "103"),
        ("ses", 200, {"MessageId": "0102-3"}, "0102-3"),
        ("mailgun", 200, {"id": "<1@mg.example>", "message": "Queued. Thank you."}, "1@mg.example"),
        ("postmark", 200, {"MessageID": "b7bc", "ErrorCode": 0, "Message": "OK"}, "b7bc"),
        ("brevo", 201, {"messageId": "<2@smtp-relay>"}, "<2@smtp-relay>"),
        ("mailjet", 200, {"Messages": [{"Status": "success", "To": [{"MessageID": 456}]}]}, "456"),
    ],
)
async def test_a_yes_carries_the_providers_message_id(
    client: HttpClient, name: str, status: int, document: object, message_id: str
) -> None:
    answer = http(status, json.dumps(document).encode())
    assert await answered(client, name, answer) == Accepted(message_id)


@pytest.mark.parametrize(
    ("name", "status", "document", "reason"),
    [
        ("resend", 422, resend("validation_error"), "invalid_request"),
        ("resend", 422, resend("missing_required_field"), "invalid_request"),
        ("resend", 422, resend("invalid_attachment"), "invalid_message"),
        ("resend", 409, resend("invalid_idempotent_request"), DUPLICATE_REFERENCE),
        ("twilio_sms", 400, twilio(21211), "invalid_recipient"),
        ("twilio_sms", 400, twilio(21610), "suppressed"),
        ("twilio_sms", 400, twilio(21617), "invalid_message"),
        ("twilio_sms", 400, twilio(21408), "invalid_recipient"),
        ("twilio_sms", 400, twilio(29999), "invalid_request"),
        ("twilio_voice", 400, twilio(21214), "invalid_recipient"),
        ("twilio_voice", 400, twilio(21215), "invalid_recipient"),
        ("twilio_voice", 400, twilio(32018), "invalid_message"),
        ("whatsapp_cloud", 400, graph(131026), "invalid_recipient"),
        ("whatsapp_cloud", 400, graph(131047), "invalid_message"),
        ("whatsapp_cloud", 400, graph(131050), "suppressed"),
        ("whatsapp_cloud", 400, graph(100), "invalid_request"),
        ("fcm", 404, fcm("NOT_FOUND", "UNREGISTERED"), "unregistered_token"),
        ("fcm", 403, fcm("PERMISSION_DENIED", "SENDER_ID_MISMATCH"), "invalid_recipient"),
        ("fcm", 400, fcm("INVALID_ARGUMENT"), "invalid_request"),
        ("mastodon", 422, {"error": "Validation failed"}, "invalid_message"),
        ("mastodon", 400, {"error": "bad"}, "invalid_request"),
        ("ses", 400, aws("MessageRejected"), "invalid_message"),
        ("ses", 400, aws("BadRequestException"), "invalid_request"),
        ("sendgrid", 400, sendgrid("personalizations.0.to.0.email"), "invalid_recipient"),
        ("sendgrid", 400, sendgrid("content.0.value"), "invalid_message"),
        ("sendgrid", 400, sendgrid(None), "invalid_request"),
        ("sendgrid", 413, sendgrid(None), "invalid_message"),
        ("mailgun", 400, {"message": "from parameter is missing"}, "invalid_request"),
        ("postmark", 422, postmark(300), "invalid_request"),
        ("postmark", 422, postmark(406), "suppressed"),
        ("postmark", 422, postmark(411), "invalid_message"),
        ("brevo", 400, brevo("invalid_parameter"), "invalid_request"),
        ("brevo", 400, brevo("duplicate_request"), DUPLICATE_REFERENCE),
        ("mailjet", 400, mailjet("mj-0013", "To[0].Email"), "invalid_recipient"),
        ("mailjet", 400, mailjet("send-0003", "TextPart"), "invalid_message"),
    ],
)
async def test_a_no_is_a_reason_of_the_taxonomy(
    client: HttpClient, name: str, status: int, document: object, reason: str
) -> None:
    result = await answered(client, name, http(status, json.dumps(document).encode()))
    assert isinstance(result, Rejected), result
    assert result.reason == reason
    assert result.reason in GATEWAY_TYPES[name].rejection_reasons
    assert result.detail


@pytest.mark.parametrize(
    ("name", "status", "document", "reason"),
    [
        ("resend", 401, resend("missing_api_key"), "unauthorized"),
        ("resend", 403, resend("invalid_api_key"), "unauthorized"),
        ("resend", 403, resend("validation_error"), "unauthorized"),
        ("twilio_sms", 400, twilio(21606), "sender_refused"),
        ("twilio_sms", 401, twilio(20003), "unauthorized"),
        ("whatsapp_cloud", 404, graph(132001), "template_refused"),
        ("whatsapp_cloud", 401, graph(190), "unauthorized"),
        ("whatsapp_cloud", 401, graph(0), "unauthorized"),
        ("fcm", 401, fcm("UNAUTHENTICATED"), "unauthorized"),
        ("mastodon", 401, {"error": "The access token is invalid"}, "unauthorized"),
        ("mastodon", 403, {"error": "outside the authorized scopes"}, "unauthorized"),
        ("resend", 422, resend("invalid_from_address"), "sender_refused"),
        ("twilio_sms", 404, twilio(20404), "invalid_setup"),
        ("fcm", 404, fcm("NOT_FOUND"), "invalid_setup"),
        ("whatsapp_cloud", 400, graph(33), "invalid_setup"),
        ("ses", 403, aws("InvalidSignatureException"), "unauthorized"),
        ("ses", 400, aws("SendingPausedException"), "account_refused"),
        ("ses", 400, aws("MessageRejected", "Email address is not verified."), "sender_refused"),
        ("ses", 404, aws("NotFoundException"), "invalid_setup"),
        ("sendgrid", 403, sendgrid("from"), "sender_refused"),
        ("sendgrid", 401, sendgrid(None), "unauthorized"),
        ("mailgun", 404, {"message": "Domain not found"}, "invalid_setup"),
        ("postmark", 401, postmark(10), "unauthorized"),
        ("postmark", 422, postmark(400), "sender_refused"),
        ("postmark", 422, postmark(405), "account_refused"),
        ("brevo", 401, brevo("unauthorized"), "unauthorized"),
        ("brevo", 402, brevo("not_enough_credits"), "account_refused"),
        ("mailjet", 403, mailjet("send-0008", "From"), "sender_refused"),
        ("mailjet", 400, mailjet("mj-0013", "From.Email"), "sender_refused"),
        *(
            (name, status, "<html>no", "unauthorized")
            for name in PROVIDERS
            for status in (401, 403)
        ),
    ],
)
async def test_a_refusal_of_us_or_our_set_up_holds_the_target(
    client: HttpClient, name: str, status: int, document: object, reason: str
) -> None:
    """A5: it is said to everybody, so it is nobody's outcome."""
    result = await answered(client, name, http(status, json.dumps(document).encode()))
    assert isinstance(result, Held), result
    assert (result.reason, result.closes) == (reason, Closes.THE_DOOR)
    assert result.detail


async def test_a_key_that_only_some_devices_need_makes_only_these_wait(client: HttpClient) -> None:
    """A5: without Apple's key the others are still sent to."""
    body = json.dumps(fcm("UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR")).encode()
    result = await answered(client, "fcm", http(401, body))
    assert isinstance(result, Throttled), result
    assert (result.reason, result.closes) == ("unauthorized", Closes.THE_ITEM)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_every_reason_a_family_can_give_is_in_its_taxonomy(
    client: HttpClient, name: str
) -> None:
    gateway: Any = make(name, "http://127.0.0.1", client)
    given = {*gateway.reasons.values()}
    assert given <= gateway.type.rejection_reasons
    assert not gateway.reasons.keys() & (gateway.throttles | gateway.unfinished)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_familys_table_names_its_source_and_blames_one_party_a_code(
    client: HttpClient, name: str
) -> None:
    """A3, X1: of each code it says whom it is about, and where the provider says so."""
    gateway: Any = make(name, "http://127.0.0.1", client)
    assert gateway.source.startswith("https://")
    codes = [
        *gateway.reasons, *gateway.ours, *gateway.ours_for_some, *gateway.throttles,
        *gateway.unfinished,
    ]  # fmt: skip
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("name", "status", "document"),
    [
        *((name, 429, {}) for name in PROVIDERS),
        *((name, 503, {}) for name in PROVIDERS),
        ("twilio_sms", 400, twilio(21611)),
        ("twilio_voice", 400, twilio(10004)),
        ("whatsapp_cloud", 400, graph(131056)),
        ("whatsapp_cloud", 400, graph(80007)),
        ("fcm", 429, fcm("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")),
        ("ses", 400, aws("LimitExceededException")),
        ("postmark", 422, postmark(429)),
    ],
)
async def test_a_throttled_call_was_not_accepted_and_says_when_to_retry(
    client: HttpClient, name: str, status: int, document: object
) -> None:
    answer = http(status, json.dumps(document).encode(), "Retry-After: 17")
    result = await answered(client, name, answer)
    assert isinstance(result, Throttled), result
    assert result.detail
    assert (result.retry_after_seconds, result.closes) == (17.0, Closes.THE_DOOR)


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_broken_server_may_have_taken_the_message(
    client: HttpClient, name: str, status: int
) -> None:
    result = await answered(client, name, http(status, b'{"error":{"code":1},"code":20500}'))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, f"http_{status}")


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"<html>", b"\xff", b'{"id":5,"sid":5,"name":5,"messages":5}']
)
async def test_a_yes_without_a_message_id_is_not_repeated_as_a_no(
    client: HttpClient, name: str, body: bytes
) -> None:
    result = await answered(client, name, http(200, body))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "invalid_answer")


@pytest.mark.parametrize("name", PROVIDERS)
async def test_bytes_that_are_not_http_leave_the_message_in_the_open(
    client: HttpClient, name: str
) -> None:
    async with serving(answering_then_close(b"\x00garbage\r\n\r\n")) as port:
        gateway = make(name, f"http://127.0.0.1:{port}", client)
        result = await gateway.call(reserve(ADDRESSES.get(name, PHONE)))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "invalid_answer")


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("status", [302, 307, 400, 404, 405, 408, 409])
async def test_an_answer_that_is_not_the_providers_own_proves_nothing(
    client: HttpClient, name: str, status: int
) -> None:
    """X1: whoever answered so, the provider may have taken the message before."""
    result = await answered(client, name, http(status, b"<html>not here</html>"))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, f"http_{status}")
    assert result.detail == f"HTTP {status}: <html>not here</html>"


async def test_resend_still_working_on_the_first_request_is_asked_again(
    client: HttpClient,
) -> None:
    body = json.dumps(resend("concurrent_idempotent_requests")).encode()
    result = await answered(client, "resend", http(409, body))
    assert isinstance(result, AttemptError)
    # The first request may yet be taken, so this one must not end as a plain failure.
    assert result.progress is Progress.SENT_NO_ANSWER
    assert result.code == "concurrent_idempotent_requests"


def test_a_memory_is_what_a_provider_documents_or_what_a_target_declares() -> None:
    """B3: of the families that documents say nothing about, none is assumed to remember."""
    memories = {name: kind.remembers for name, kind in GATEWAY_TYPES.items()}
    documented = {name: str(memory) for name, memory in memories.items() if memory}
    assert {name: text for name, text in documented.items() if text != "never"} == {
        "resend": "24h",
        "telnyx": "24h",
        "bluesky": "for_good",
        "brevo": "15m",
        "mastodon": "1h",
        "noop": "for_good",
    }
    assert {name for name, memory in memories.items() if memory is None} == {"sms", "push"}


@pytest.mark.parametrize(
    ("name", "declared", "relied_on"),
    [
        ("sms", None, "never"),
        ("push", None, "never"),
        ("sms", "in_flight", "in_flight"),
        ("sms", "90m", "90m"),
        ("push", "for_good", "for_good"),
        ("resend", None, "24h"),
        ("resend", "1h", "1h"),
        ("resend", "never", "never"),
        ("resend", "for_good", "24h"),
        ("mastodon", None, "1h"),
        ("twilio_sms", None, "never"),
        ("twilio_sms", "for_good", "never"),
        ("smtp", "for_good", "never"),
    ],
)
async def test_a_target_declares_its_memory_and_may_promise_no_more_than_is_documented(
    client: HttpClient, name: str, declared: str | None, relied_on: str
) -> None:
    """B3: the default of `sms` and `push` is never."""
    settings = TARGETS[name].model_copy(update={"remembers_references": declared})
    gateways = Gateways(PlantedSecrets(), client, targets={"t": settings})
    url = "smtp://127.0.0.1:25" if name == "smtp" else "http://127.0.0.1"
    gateway = gateways.gateway("t", name, url)
    assert str(gateway.memory) == relied_on
    assert gateway.memory.is_memory or gateway.window_items == gateway.concurrency


# Settings and credentials.


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_provider_that_repeats_the_credential_is_not_quoted(
    client: HttpClient, name: str
) -> None:
    async def echo(reader: Reader, writer: Writer) -> None:
        request = Heard(await read_request(reader))
        header = SAYS_SO_IN_A_HEADER.get(name, "authorization")
        said = f"Malformed: {request.headers.get(header, request.line)}"
        in_words = name in ("mastodon", "slack", "plivo")
        document = {
            "message": said, "error": said if in_words else {"message": said},
            "detail": said, "text": said, "description": said,
            "errors": [{"message": said, "detail": said}], "Message": said, "ErrorMessage": said,
        }  # fmt: skip
        writer.write(http(401, json.dumps(document).encode(), "Connection: close"))

    async with serving(echo) as port:
        gateway: Any = make(name, f"http://127.0.0.1:{port}", client)
        result = await gateway.call(reserve(ADDRESSES.get(name, PHONE)))
    assert isinstance(result, Held)
    assert result.reason == "unauthorized"
    assert "Malformed" in result.detail
    assert "[redacted]" in result.detail
    to = ADDRESSES.get(name, PHONE)
    composed = gateway.compose(IdempotencyKey(REFERENCE), Content(to, None, "Hi"))
    assert PLANTED not in repr(composed)
    for planted in (PLANTED, base64.b64encode(f"AC123:{PLANTED}".encode()).decode()):
        assert planted not in repr(result) + repr(gateway) + repr(getattr(gateway, "__dict__", {}))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_missing_credential_or_an_unknown_option_is_said_at_once(
    client: HttpClient, name: str
) -> None:
    with pytest.raises(InvalidInput, match="requires the credential"):
        make(name, "http://127.0.0.1", client, credentials={})
    with pytest.raises(InvalidInput, match="unknown options: colour"):
        make(name, "http://127.0.0.1", client, **option(name, colour="red"))


@pytest.mark.parametrize("name", ["twilio_sms", "twilio_voice", "whatsapp_cloud", "fcm", "apns"])
async def test_a_missing_option_is_said_at_once(client: HttpClient, name: str) -> None:
    with pytest.raises(InvalidInput, match="requires the option"):
        make(name, "http://127.0.0.1", client, options={})


@pytest.mark.parametrize("name", [*PROVIDERS, *HTTP2])
async def test_concurrency_is_the_targets_and_bounds_what_a_crash_can_leave_open(
    client: HttpClient, name: str
) -> None:
    dedupes = memory_of(GATEWAY_TYPES[name].remembers, None).is_memory
    usual = make(name, "http://127.0.0.1", client)
    assert (usual.concurrency, usual.window_items) == ((64, 500) if dedupes else (16, 16))
    chosen = make(name, "http://127.0.0.1", client, concurrency=5)
    assert (chosen.concurrency, chosen.window_items) == ((5, 500) if dedupes else (5, 5))


class _Rotating:
    value = "first"

    def resolve(self, references: Sequence[str], workspace: WorkspaceName) -> dict[str, str]:  # noqa: ARG002
        if not self.value:
            raise InvalidInput(f"the secret {references[0]} cannot be read")
        return dict.fromkeys(references, self.value)


async def test_a_rotated_credential_is_used_in_time(client: HttpClient) -> None:
    secrets, now = _Rotating(), 0.0
    settings = TargetSettings(credentials={"accessToken": "file:/token"})
    target = Target("fcm", "http://127.0.0.1", settings, client, secrets, "")
    credential = Credential(target, "accessToken", "first", seconds=lambda: now)
    secrets.value = "second"
    assert credential.value() == "first"
    now += CREDENTIAL_REREAD_SECONDS
    assert credential.value() == "second"
    secrets.value, now = "", now + CREDENTIAL_REREAD_SECONDS
    assert credential.value() == "second"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "schlüssel", " "])
async def test_a_credential_that_is_no_header_is_refused_without_showing_it(
    client: HttpClient, value: str
) -> None:
    secrets = _Rotating()
    secrets.value = value
    target = Target("fcm", "http://127.0.0.1", TARGETS["fcm"], client, secrets, "")
    with pytest.raises(InvalidInput) as refused:
        FAMILIES["fcm"].make(target)
    assert value.strip() not in refused.value.message or not value.strip()


# The simulator as each provider.


@pytest.mark.parametrize(
    "path",
    [
        "/emails",
        "/v2/email/outbound-emails",
        "/v3/mail/send",
        "/v3/mg.example.test/messages",
        "/email",
        "/v3/smtp/email",
        "/v3.1/send",
        "/2010-04-01/Accounts/AC1/Messages.json",
        "/2010-04-01/Accounts/AC1/Calls.json",
        "/v2/messages",
        "/v1/messages",
        "/xms/v1/plan/batches",
        "/sms/3/messages",
        "/v1/Account/A/Message/",
        "/web-push/1",
        "/--/api/v2/push/send",
        "/api/chat.postMessage",
        "/xrpc/com.atproto.repo.putRecord",
        "/v23.0/1/messages",
        "/v1/projects/p/messages:send",
        "/api/v1/statuses",
    ],
)
async def test_the_simulator_asks_for_authorisation(path: str) -> None:
    async with Sandbox() as sandbox, aiohttp.ClientSession(sandbox.http_url) as session:
        async with session.post(path, data=b"{}") as response:
            assert response.status == 401
        assert sandbox.received()["outcomes"] == {"rejected": 1}


async def test_the_simulators_log_names_the_type_and_our_reference(tmp_path: Path) -> None:
    log_path = tmp_path / "requests.ndjson"
    gateways = Gateways(PlantedSecrets(), targets=TARGETS)
    async with Sandbox(log_path=log_path) as sandbox:
        for name in WITH_CREDENTIALS:
            gateway = gateways.gateway(name, name, url_of(sandbox, name))
            reference = f"{name:_>64}"
            result = await gateway.call(reserve(ADDRESSES.get(name, PHONE), reference=reference))
            assert isinstance(result, Accepted)
        await gateways.close()
    logged = [json.loads(line) for line in log_path.read_text().splitlines()]
    assert [(line["protocol"], line["referenceId"]) for line in logged] == [
        (name, f"{name:_>64}") for name in WITH_CREDENTIALS
    ]
    assert PLANTED not in log_path.read_text()


# The page about gateways.


PAGE = (Path(__file__).parents[2] / "docs/reference/gateways.md").read_text()


def _rows(page: str, columns: int) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    return {row[0].strip("`"): row[1:] for row in rows if len(row) == columns}


def test_the_page_shows_what_each_type_declares() -> None:
    rows = _rows(PAGE, 6)
    for name, kind in GATEWAY_TYPES.items():
        if name == "noop":
            continue
        _, channel, status, remembers, reasons = rows[name]
        assert (channel, status) == (kind.channel, success_status(kind.channel))
        documented = kind.remembers
        assert remembers == ("declared" if documented is None else f"`{documented}`")
        assert reasons == ", ".join(sorted(kind.rejection_reasons))


@pytest.mark.parametrize("name", [*PROVIDERS, *HTTP2])
async def test_the_page_names_every_option_of_a_type(client: HttpClient, name: str) -> None:
    gateway: Any = make(name, "http://127.0.0.1", client)
    options, credentials = _rows(PAGE, 3)[name]
    named = set(re.findall(r"\w+", options)) - {"or"}
    assert named == gateway.options
    assert all(f"**{credential}**" in credentials for credential in TARGETS[name].credentials)


async def test_the_family_that_the_page_shows_works_unchanged(client: HttpClient) -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    shown: dict[str, Any] = {"__name__": "pigeon"}
    exec(compile(code, "docs/reference/gateways.md", "exec"), shown)
    settings = TargetSettings(options={"loft": "7"}, credentials={"apiKey": "env:X"})
    requests: list[Heard] = []

    async def fly(reader: Reader, writer: Writer) -> None:
        for answer in (http(200, b'{"flight":"f1"}'), http(400, b'{"problem":"NO_SUCH_LOFT"}')):
            requests.append(Heard(await read_request(reader)))
            writer.write(answer)

    async with serving(fly) as port:
        url = f"http://127.0.0.1:{port}"
        gateway: Gateway = shown["FAMILY"].make(
            Target("birds", url, settings, client, PlantedSecrets(), "")
        )
        assert await gateway.call(reserve(PHONE)) == Accepted("f1")
        assert await gateway.call(reserve(PHONE)) == Rejected("invalid_recipient", "HTTP 400")
    assert requests[0].line == "POST /lofts/7/flights HTTP/1.1"
    assert requests[0].document == {"to": PHONE, "note": "Hello", "tag": REFERENCE}
