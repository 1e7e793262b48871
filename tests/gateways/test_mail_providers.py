"""What the e-mail providers are asked, to the letter, and what only one of them does."""

import base64
import hmac
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509 import load_pem_x509_certificate
from yarl import URL

from outrider.domain.call_results import Accepted, Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.message_content import Enclosure
from outrider.domain.receipts import ReceiptEvent
from outrider.gateways.families import ses_receipts
from outrider.gateways.families.brevo import key_of
from outrider.gateways.families.sendgrid import _is_signed, public_keys
from outrider.gateways.family import Target
from outrider.gateways.http_client import HttpClient
from outrider.gateways.sigv4 import AwsKey, signed_headers
from outrider.gateways.simulators import mailgun, ses
from outrider.ports.receipts import Callback, Refusal, RefusedFor, Verified
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, HeldReservation, reserve
from outrider.testing.receipt_suite import NOW, callback
from tests.gateways.test_gateway_families import Heard, answered, heard, make, option
from tests.support.broken_server import http
from tests.support.mail_security import Certificate, certificate
from tests.support.provider_targets import PLANTED, PlantedSecrets
from tests.support.receipt_targets import PUBLIC_URL, SECRET, gateways_of

MAIL = "ada@example.test"
URL_OF_MINE = f"{PUBLIC_URL}/receipts/mine"
LINK = "https://news.example.com/u/1"
FILE = Enclosure('re"port.pdf', "application/pdf", b"%PDF-1.7\r\n--edge\r\n")
HEADERS = {
    "X-Outrider-Reference": REFERENCE,
    "List-Unsubscribe": f"<{LINK}>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
}
NAMED = [{"Name": name, "Value": value} for name, value in HEADERS.items()]


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


@dataclass(frozen=True, slots=True)
class Letter(HeldReservation):
    unsubscribe_url: str | None = LINK


def letter(*files: Enclosure) -> Letter:
    plain = reserve(MAIL, body="<p>Hi</p>")
    return Letter(
        plain.outbox_id, plain.reference, MAIL, plain.subject, plain.body, None, files, True
    )


async def test_ses_is_called_as_its_api_requires(client: HttpClient) -> None:
    changes = option("ses", configurationSet="events")
    request = await heard(client, "ses", letter(), **changes)
    assert request.line == "POST /base/v2/email/outbound-emails HTTP/1.1"
    assert request.document == {
        "FromEmailAddress": "News <news@example.test>",
        "Destination": {"ToAddresses": [MAIL]},
        "Content": {
            "Simple": {
                "Subject": {"Data": "Offer", "Charset": "UTF-8"},
                "Body": {"Html": {"Data": "<p>Hi</p>", "Charset": "UTF-8"}},
                "Headers": NAMED,
            }
        },
        "ConfigurationSetName": "events",
        "EmailTags": [{"Name": "outrider_reference", "Value": REFERENCE}],
    }
    assert request.headers["authorization"] == as_botocore_signs(request, "/base/")


def as_botocore_signs(request: Heard, base: str) -> str:
    url = f"http://{request.headers['host']}{base}v2/email/outbound-emails"
    at = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return botocores(Credentials(PLANTED, PLANTED), "eu-west-1", "POST", url, request.body, at)[
        "Authorization"
    ]


def botocores(
    key: Credentials, region: str, method: str, url: str, body: bytes, at: datetime
) -> dict[str, str]:
    made = AWSRequest(method, url, data=body)
    made.context["timestamp"] = at.strftime("%Y%m%dT%H%M%SZ")
    signer = SigV4Auth(key, "ses", region)
    made.headers["X-Amz-Date"] = made.context["timestamp"]
    if key.token:
        made.headers["X-Amz-Security-Token"] = key.token
    canonical = signer.canonical_request(made)
    signature = signer.signature(signer.string_to_sign(made, canonical), made)
    names = signer.signed_headers(signer.headers_to_sign(made))
    credential = f"AWS4-HMAC-SHA256 Credential={signer.scope(made)}"
    text = f"{credential}, SignedHeaders={names}, Signature={signature}"
    return {"Authorization": text}


@pytest.mark.parametrize("token", [None, "session/token+1=="])
@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("POST", "https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails", b'{"a":1}'),
        ("GET", "https://email.us-east-1.amazonaws.com/v2/email/account", b""),
        ("GET", "https://host.example:8443/a%20b/~c?b=2&a=x%2Fy&a=1", b""),
        ("POST", "http://127.0.0.1:9/", "Grüße".encode()),
    ],
)
def test_requests_to_aws_are_signed_as_botocore_signs_them(
    token: str | None, method: str, url: str, body: bytes
) -> None:
    at = datetime(2026, 11, 18, 6, 0, 1, tzinfo=UTC)
    made = signed_headers(
        AwsKey("AKID", "s3cret", token), "eu-west-1", "ses", method, URL(url), body, at
    )
    theirs = botocores(Credentials("AKID", "s3cret", token), "eu-west-1", method, url, body, at)
    assert made["Authorization"] == theirs["Authorization"]


async def test_the_region_is_the_hosts_or_an_option(client: HttpClient) -> None:
    plain = {"options": {"from": "news@example.test"}}
    gateway: Any = make("ses", "https://email.ap-south-1.amazonaws.com", client, **plain)
    assert "/ap-south-1/ses/" in gateway._signed("GET", URL("https://x.example"))["Authorization"]
    with pytest.raises(InvalidInput, match="requires the option 'region'"):
        make("ses", "https://proxy.example", client, **plain)


async def test_sendgrid_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "sendgrid", letter(FILE))
    assert request.line == "POST /base/v3/mail/send HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {PLANTED}"
    assert request.document == {
        "personalizations": [{"to": [{"email": MAIL}]}],
        "from": {"email": "news@example.test", "name": "News"},
        "subject": "Offer",
        "content": [{"type": "text/html", "value": "<p>Hi</p>"}],
        "headers": HEADERS,
        "custom_args": {"outrider_reference": REFERENCE},
        "attachments": [
            {
                "filename": "re_port.pdf",
                "content": base64.b64encode(FILE.content).decode(),
                "type": "application/pdf",
            }
        ],
    }


async def test_sendgrid_names_a_message_in_a_header(client: HttpClient) -> None:
    assert await answered(client, "sendgrid", http(202, b"", "X-Message-Id: 14c5d75ce93")) == (
        Accepted("14c5d75ce93")
    )


async def test_ses_names_an_error_in_a_header(client: HttpClient) -> None:
    head = "x-amzn-ErrorType: MessageRejected:http://internal.amazon.com/coral/"
    result = await answered(client, "ses", http(400, b'{"message":"why"}', head))
    assert result == Rejected("invalid_message", "why")


async def test_mailgun_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "mailgun", letter())
    assert request.line == "POST /base/v3/mg.example.test/messages HTTP/1.1"
    basic = base64.b64encode(f"api:{PLANTED}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {basic}"
    fields = {
        "from": "News <news@example.test>",
        "to": MAIL,
        "subject": "Offer",
        "html": "<p>Hi</p>",
        **{f"h:{name}": value for name, value in HEADERS.items()},
        "v:outrider_reference": REFERENCE,
    }
    assert {name: value for name, (value,) in parse_qs(request.body.decode()).items()} == fields
    with_file = await heard(client, "mailgun", letter(FILE))
    kind = with_file.headers["content-type"].encode()
    form = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + kind + b"\r\n\r\n" + with_file.body
    )
    *texts, file = form.iter_parts()
    named = {part.get_param("name", header="content-disposition"): part for part in texts}
    assert {name: part.get_content().rstrip("\n") for name, part in named.items()} == fields
    assert (file.get_filename(), file.get_content_type()) == ("re_port.pdf", "application/pdf")
    assert FILE.content in with_file.body


async def test_mailguns_domain_is_the_senders_unless_it_is_set(client: HttpClient) -> None:
    sender = {"options": {"from": "news@shop.example"}}
    request = await heard(client, "mailgun", letter(), **sender)
    assert request.line == "POST /base/v3/shop.example/messages HTTP/1.1"


async def test_postmark_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "postmark", letter(FILE))
    assert request.line == "POST /base/email HTTP/1.1"
    assert request.headers["x-postmark-server-token"] == PLANTED
    assert request.document == {
        "From": "News <news@example.test>",
        "To": MAIL,
        "Subject": "Offer",
        "HtmlBody": "<p>Hi</p>",
        "MessageStream": "outbound",
        "Headers": NAMED,
        "Metadata": {"outrider_reference": REFERENCE},
        "Attachments": [
            {
                "Name": "re_port.pdf",
                "Content": base64.b64encode(FILE.content).decode(),
                "ContentType": "application/pdf",
            }
        ],
    }


async def test_brevo_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "brevo", letter())
    assert request.line == "POST /base/v3/smtp/email HTTP/1.1"
    assert request.headers["api-key"] == PLANTED
    assert request.document == {
        "sender": {"email": "news@example.test", "name": "News"},
        "to": [{"email": MAIL}],
        "subject": "Offer",
        "htmlContent": "<p>Hi</p>",
        "headers": {
            **HEADERS, "idempotencyKey": key_of(REFERENCE), "X-Mailin-custom": REFERENCE,
        },
    }  # fmt: skip
    again = await heard(client, "brevo", letter())
    assert again.body == request.body


async def test_mailjet_is_called_as_its_api_requires(client: HttpClient) -> None:
    request = await heard(client, "mailjet", reserve(MAIL, body="Hi"))
    assert request.line == "POST /base/v3.1/send HTTP/1.1"
    basic = base64.b64encode(f"{PLANTED}:{PLANTED}".encode()).decode()
    assert request.headers["authorization"] == f"Basic {basic}"
    assert request.document == {
        "Messages": [
            {
                "From": {"Email": "news@example.test", "Name": "News"},
                "To": [{"Email": MAIL}],
                "Subject": "Offer",
                "TextPart": "Hi",
                "Headers": {"X-Outrider-Reference": REFERENCE},
                "CustomID": REFERENCE,
            }
        ]
    }


# What providers post.


def posted(document: object, **headers: str) -> Callback:
    body = json.dumps(document).encode()
    return Callback("POST", URL_OF_MINE, {}, headers, body)


def read(name: str, made: Callback) -> Any:
    reader = gateways_of(name).receipt_reader("mine", name)
    assert reader is not None
    return reader.read(made, NOW)


PASSWORD = f"Basic {base64.b64encode(SECRET.encode()).decode()}"


@pytest.mark.parametrize(
    ("name", "document", "event", "permanent"),
    [
        ("postmark", {"RecordType": "Bounce", "Type": "SoftBounce"}, "bounced", False),
        ("postmark", {"RecordType": "Bounce", "Type": "BadEmailAddress"}, "bounced", True),
        ("postmark", {"RecordType": "Bounce", "Type": "AutoResponder"}, None, False),
        ("postmark", {"RecordType": "Click"}, "read", False),
        (
            "postmark",
            {
                "RecordType": "SubscriptionChange", "SuppressSending": True, "Recipient": MAIL,
                "SuppressionReason": "ManualSuppression",
            },
            "opted_out", True,
        ),
        (
            "postmark",
            {
                "RecordType": "SubscriptionChange", "SuppressSending": True, "Recipient": MAIL,
                "SuppressionReason": "HardBounce",
            },
            None, False,
        ),
        ("brevo", {"event": "soft_bounce"}, "bounced", False),
        ("brevo", {"event": "request"}, None, False),
        ("brevo", {"event": "blocked"}, "failed", True),
        ("brevo", {"event": "proxy_open"}, None, False),
        ("mailjet", {"event": "bounce", "hard_bounce": False}, "bounced", False),
        ("mailjet", [{"event": "blocked", "error": "preblocked"}], "failed", True),
        ("mailjet", {"event": "unknown"}, None, False),
    ],
)  # fmt: skip
def test_the_words_of_providers_with_a_password(
    name: str, document: object, event: str | None, permanent: bool
) -> None:
    found = read(name, posted(document, authorization=PASSWORD))
    assert isinstance(found, Verified), found
    said = [(receipt.event.value, receipt.permanent) for receipt in found.receipts]
    assert said == ([] if event is None else [(event, permanent)])
    assert isinstance(read(name, posted(document)), Refusal)
    bearer = read(name, posted(document, authorization=f"Bearer {SECRET}"))
    assert isinstance(bearer, Verified)


@pytest.mark.parametrize(
    ("data", "event", "permanent"),
    [
        ({"event": "failed", "severity": "temporary"}, "failed", False),
        ({"event": "rejected"}, "failed", True),
        ({"event": "accepted"}, None, False),
        ({"event": "clicked"}, "read", False),
    ],
)
def test_mailguns_words(data: dict[str, Any], event: str | None, permanent: bool) -> None:
    body = mailgun.signed(SECRET, NOW, {"id": "e1", **data})
    found = read("mailgun", Callback("POST", URL_OF_MINE, {}, {}, body))
    assert isinstance(found, Verified), found
    said = [(receipt.event.value, receipt.permanent) for receipt in found.receipts]
    assert said == ([] if event is None else [(event, permanent)])


def test_mailguns_signature_is_of_its_time_and_token() -> None:
    """HMAC-SHA256 in hexadecimal digits, computed here with the standard library alone."""
    time, token = str(int(NOW.timestamp())), "t" * 50
    digest = hmac.new(SECRET.encode(), f"{time}{token}".encode(), "sha256").hexdigest()
    document: dict[str, Any] = {
        "signature": {"timestamp": time, "token": token, "signature": digest},
        "event-data": {"id": "e", "event": "delivered"},
    }
    assert isinstance(read("mailgun", posted(document)), Verified)
    for field, wrong, why in (
        ("signature", "0" * 64, RefusedFor.FORGED),
        ("token", "other", RefusedFor.FORGED),
        ("timestamp", str(int(time) - 9), RefusedFor.FORGED),
    ):
        forged = {**document, "signature": {**document["signature"], field: wrong}}
        refused = read("mailgun", posted(forged))
        assert isinstance(refused, Refusal)
        assert refused.why is why
    refused = read("mailgun", posted({"event-data": {"event": "delivered"}}))
    assert refused.why is RefusedFor.UNSIGNED


def test_a_key_that_sendgrid_made_elsewhere_is_read() -> None:
    """With a fresh key and cryptography's own signing, as SendGrid's libraries verify it."""
    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (key,) = public_keys(base64.b64encode(public).decode())
    signature = base64.b64encode(private.sign(b"1794916800[]", ec.ECDSA(hashes.SHA256()))).decode()
    assert _is_signed(key, signature, b"1794916800[]")
    assert not _is_signed(key, signature, b"1794916800[ ]")
    with pytest.raises(InvalidInput, match="verification key"):
        public_keys("bm90IGEga2V5")


# SNS: certificates.


class Sns:
    """A server with a certificate of a private authority, which serves SNS's own."""

    def __init__(self, served: bytes, tls: Certificate) -> None:
        self.served, self.tls = served, tls
        self.asked: list[str] = []

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request.path_qs)
        return web.Response(body=self.served)

    async def __aenter__(self) -> "Sns":
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls.context)
        await site.start()
        self.url = f"https://localhost:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


TOPIC = "arn:aws:sns:eu-west-1:1:mine"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


def reader_of(sns: Sns, client: HttpClient, **options: str) -> ses_receipts.SesReader:
    given = {"region": "eu-west-1", "topicArn": TOPIC, "snsUrl": sns.url, **options}
    settings = TargetSettings(options=given)
    target = Target("mine", "", settings, client, PlantedSecrets(), "news@example.test")
    reader = ses_receipts.receipt_reader(target)
    assert reader is not None
    return reader


def trusting(authority: Certificate) -> HttpClient:
    return HttpClient(tls=ssl.create_default_context(cafile=authority.file))


def delivery(sns: Sns, **changes: str) -> ses_receipts.Notice:
    event = {"eventType": "Delivery", "mail": {"messageId": "m", "tags": {}}, "delivery": {}}
    made = ses.notice(json.dumps(event), "n-1", TOPIC, f"{sns.url}/sns.pem", NOW)
    return msgspec.structs.replace(made, **changes)


def of(notice: ses_receipts.Notice) -> Callback:
    return callback(ses.posted(URL_OF_MINE, notice))


async def judged(
    reader: ses_receipts.SesReader, notice: ses_receipts.Notice, now: datetime = NOW
) -> object:
    await reader.prepare(of(notice), now)
    said = reader.read(of(notice), now)
    return said.why if isinstance(said, Refusal) else said


async def test_a_certificate_is_fetched_once_over_https_and_its_signature_believed(
    authority: Certificate,
) -> None:
    client = trusting(authority)
    async with Sns(ses.certificate(), authority) as sns:
        reader = reader_of(sns, client)
        notice = delivery(sns)
        for _ in range(3):
            said = await judged(reader, notice)
            assert isinstance(said, Verified), said
            assert [each.event for each in said.receipts] == [ReceiptEvent.DELIVERED]
        assert sns.asked == ["/sns.pem"]
        for changes in (
            {"message": "{}"},
            {"message_id": "n-2"},
            {"timestamp": "x"},
            {"signature": "AAAA"},
            {"signature_version": "1"},
            {"signature_version": "3"},
            {"subject": "Other"},
            {"type": "UnsubscribeConfirmation"},
            {"topic_arn": "arn:aws:sns:eu-west-1:2:theirs"},
        ):
            forged = msgspec.structs.replace(notice, **changes)
            assert await judged(reader, forged) is RefusedFor.FORGED, changes
        # It is out of date.
        assert await judged(reader, notice, NOW + timedelta(days=999)) is RefusedFor.FORGED
    await client.close()


async def test_a_certificate_from_a_host_that_nobody_vouches_for_is_not_believed(
    authority: Certificate,
) -> None:
    client = HttpClient()
    async with Sns(ses.certificate(), authority) as sns:
        assert await judged(reader_of(sns, client), delivery(sns)) is RefusedFor.FORGED
        assert not sns.asked
    await client.close()


@pytest.mark.parametrize("served", [b"", b"<html>", b"-----BEGIN CERTIFICATE-----\n"])
async def test_what_is_no_certificate_proves_nothing(authority: Certificate, served: bytes) -> None:
    client = trusting(authority)
    async with Sns(served, authority) as sns:
        assert await judged(reader_of(sns, client), delivery(sns)) is RefusedFor.FORGED
        assert sns.asked
    await client.close()


async def test_another_topics_notices_make_us_fetch_nothing(authority: Certificate) -> None:
    """Anybody can have SNS post here, and name any certificate."""
    client = trusting(authority)
    async with Sns(ses.certificate(), authority) as sns:
        reader = reader_of(sns, client, topicArn="arn:aws:sns:eu-west-1:1:other")
        assert await judged(reader, delivery(sns)) is RefusedFor.FORGED
        assert not sns.asked
    await client.close()


@pytest.mark.parametrize(
    ("url", "is_theirs"),
    [
        ("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem", True),
        ("https://sns.cn-north-1.amazonaws.com.cn/x.pem", True),
        ("http://sns.eu-west-1.amazonaws.com/x.pem", False),
        ("https://sns.eu-west-1.amazonaws.com.evil.example/x.pem", False),
        ("https://evil.example/sns.eu-west-1.amazonaws.com/x.pem", False),
        ("https://sns.eu-west-1.amazonaws.com@evil.example/x.pem", False),
        ("https://user@sns.eu-west-1.amazonaws.com/x.pem", False),
        ("https://sns.eu-west-1.amazonaws.com:8443/x.pem", False),
        ("https://bucket.s3.amazonaws.com/x.pem", False),
        ("not a url", False),
        ("https://[", False),
    ],
)
async def test_only_sns_itself_has_sns_certificates(url: str, is_theirs: bool) -> None:
    client = HttpClient()
    settings = TargetSettings(options={"topicArn": TOPIC})
    target = Target("mine", "", settings, client, PlantedSecrets(), "")
    reader = ses_receipts.receipt_reader(target)
    assert reader is not None
    assert reader._is_of_sns(url) is is_theirs


async def test_a_subscription_to_our_topic_is_confirmed(authority: Certificate) -> None:
    client = trusting(authority)
    async with Sns(ses.certificate(), authority) as sns:
        link = f"{sns.url}/?Action=ConfirmSubscription&Token=t"
        plain = msgspec.structs.replace(
            delivery(sns), type=ses_receipts.SUBSCRIPTION, token="t", subscribe_url=link,
            subject=None, message="You have chosen to subscribe.",
        )  # fmt: skip
        reader = reader_of(sns, client)
        assert await judged(reader, plain) is RefusedFor.FORGED
        assert sns.asked == ["/sns.pem"]
        genuine = ses.signed(plain)
        assert await judged(reader, genuine) == Verified([])
        assert sns.asked[1:] == ["/?Action=ConfirmSubscription&Token=t"]
    await client.close()


def test_what_is_signed_is_what_sns_documents() -> None:
    """The example of the documentation's string to sign, field by field and line by line."""
    notice = ses_receipts.Notice(
        "Notification", "id", "arn", "my message", "2026-01-01T00:00:00Z", "", "1", "https://x"
    )
    assert notice.signed() == (
        b"Message\nmy message\nMessageId\nid\nTimestamp\n2026-01-01T00:00:00Z\n"
        b"TopicArn\narn\nType\nNotification\n"
    )
    key = rsa.generate_private_key(65537, 2048)
    signature = key.sign(notice.signed(), padding.PKCS1v15(), hashes.SHA1())
    pem = ses.self_signed(key)
    signed = msgspec.structs.replace(notice, signature=base64.b64encode(signature).decode())
    assert ses_receipts.is_signed(load_pem_x509_certificate(pem), signed, datetime.now(UTC))
