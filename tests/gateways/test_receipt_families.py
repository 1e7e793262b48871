"""Every family that reports runs the one suite, with the simulator as its provider."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

import pytest

from outrider.domain.receipts import ReceiptEvent
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.gateways.directory import FAMILIES
from outrider.gateways.families import sendgrid, twilio_receipts, whatsapp_receipts
from outrider.gateways.sandbox import Sandbox
from outrider.gateways.sandbox_receipts import (
    WRITERS,
    Post,
    ProviderReport,
    signed_post,
    standard_post,
)
from outrider.gateways.simulators import mailgun, plivo, ses, sinch, telnyx, vonage
from outrider.gateways.simulators.mail import password_post
from outrider.gateways.simulators.sendgrid import signed_post as sendgrid_signed_post
from outrider.gateways.smtp_receipts import MAIL_TYPE
from outrider.testing.receipt_suite import NOW, ReceiptBench, ReceiptConformance, callback
from tests.support.receipt_targets import PUBLIC_URL, SECRET, gateways_of

URL = f"{PUBLIC_URL}/receipts/mine"
STANDARD = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
SVIX = frozenset({"svix-id", "svix-timestamp", "svix-signature"})
TOPIC = "arn:aws:sns:eu-west-1:1:mine"
PLANTED_TOKEN = "no secret of its own"
Event = ReceiptEvent


class _Family(ReceiptConformance):
    signature_headers: ClassVar[frozenset[str]] = STANDARD
    content_type: ClassVar[str] = "application/json"
    header_prefix: ClassVar[str] = "webhook"

    def url(self, _report: ProviderReport) -> str:
        return URL

    def post(self, reports: Sequence[ProviderReport], at: datetime) -> Post:
        return signed_post(self.gateway_type, reports, self.url(reports[0]), SECRET, at)

    def post_body(self, body: bytes, at: datetime) -> Post:
        return standard_post(URL, body, self.content_type, SECRET, at, self.header_prefix)

    @pytest.fixture
    def bench(self) -> ReceiptBench:
        gateways = gateways_of(self.gateway_type)
        mine, other = (
            gateways.receipt_reader(name, self.gateway_type) for name in ("mine", "other")
        )
        assert mine is not None
        assert other is not None
        return ReceiptBench(
            mine, other, self.post, self.post_body, self.signature_headers, (SECRET, SECRET[6:])
        )


class TestSms(_Family):
    gateway_type, batches = "sms", True
    events = frozenset(Event)


class TestPush(_Family):
    gateway_type, batches = "push", True
    events = frozenset(Event)
    recipient = "token-1"


class TestSmtp(_Family):
    gateway_type, content_type = "smtp", MAIL_TYPE
    events = WRITERS["smtp"].events
    recipient = "ada@example.test"

    def post(self, reports: Sequence[ProviderReport], at: datetime) -> Post:
        report = reports[0]
        sender = ReturnPath("bounces", "mail.example").address(
            signing_keys(SECRET)[0], report.reference
        )
        return super().post([replace(report, sender=sender)], at)


class TestResend(_Family):
    gateway_type, header_prefix, signature_headers = "resend", "svix", SVIX
    events = WRITERS["resend"].events
    recipient = "ada@example.test"


class _MailProvider(_Family):
    recipient = "ada@example.test"


class _Password(_MailProvider):
    """Its provider sends a password and signs nothing."""

    dated = covers_body = False
    signature_headers = frozenset({"authorization"})

    def post_body(self, body: bytes, at: datetime) -> Post:  # noqa: ARG002 - it signs no time
        return password_post(URL, body, SECRET)


class TestPostmark(_Password):
    gateway_type = "postmark"
    events = WRITERS["postmark"].events


class TestBrevo(_Password):
    gateway_type = "brevo"
    events = WRITERS["brevo"].events


class TestMailjet(_Password):
    gateway_type, batches = "mailjet", True
    events = WRITERS["mailjet"].events


class TestSendGrid(_MailProvider):
    gateway_type, batches = "sendgrid", True
    events = WRITERS["sendgrid"].events
    signature_headers = frozenset({sendgrid.SIGNATURE_HEADER, sendgrid.TIMESTAMP_HEADER})

    def post_body(self, body: bytes, at: datetime) -> Post:
        return sendgrid_signed_post(URL, body, SECRET, at)


class TestMailgun(_MailProvider):
    gateway_type, covers_body, signs_in_headers = "mailgun", False, False
    events = WRITERS["mailgun"].events
    signature_headers: ClassVar[frozenset[str]] = frozenset()

    def post_body(self, body: bytes, at: datetime) -> Post:
        signed = mailgun.signed(SECRET, at, "here").replace(b'"here"', body or b'""')
        return Post(URL, signed, {})


class TestSes(_MailProvider):
    """With its certificate from the simulator, over a real connection."""

    gateway_type, dated, signs_in_headers = "ses", False, False
    events = WRITERS["ses"].events
    signature_headers: ClassVar[frozenset[str]] = frozenset()
    secret = ""

    def post(self, reports: Sequence[ProviderReport], at: datetime) -> Post:
        return signed_post("ses", reports, URL, self.secret, at)

    def post_body(self, body: bytes, at: datetime) -> Post:
        topic, _, certificate_url = self.secret.partition(" ")
        text = body.decode("latin-1")
        return ses.posted(URL, ses.notice(text, "m-1", topic, certificate_url, at))

    @pytest.fixture
    async def bench(self) -> AsyncIterator[ReceiptBench]:
        async with Sandbox() as sandbox:
            type(self).secret = f"{TOPIC} {sandbox.http_url}{ses.CERTIFICATE_PATH}"
            gateways = gateways_of("ses", sns_url=sandbox.http_url)
            mine, other = (gateways.receipt_reader(name, "ses") for name in ("mine", "other"))
            assert mine is not None
            assert other is not None
            genuine = callback(self.post([self.report()], NOW))
            for reader in (mine, other):
                await reader.prepare(genuine, NOW)
            yield ReceiptBench(
                mine, other, self.post, self.post_body, self.signature_headers, (PLANTED_TOKEN,)
            )
            await gateways.close()


class TestTelnyx(_Family):
    gateway_type = "telnyx"
    events = WRITERS["telnyx"].events
    signature_headers = frozenset({"telnyx-signature-ed25519", "telnyx-timestamp"})

    def post_body(self, body: bytes, at: datetime) -> Post:
        return telnyx.signed_post(URL, body, SECRET, at)


class TestVonage(_Family):
    gateway_type = "vonage"
    events = WRITERS["vonage"].events
    signature_headers = frozenset({"authorization"})

    def post_body(self, body: bytes, at: datetime) -> Post:
        return vonage.signed_post(URL, body, SECRET, at)


class TestSinch(_Family):
    gateway_type = "sinch"
    events = WRITERS["sinch"].events
    signature_headers = frozenset(
        {
            "x-sinch-webhook-signature",
            "x-sinch-webhook-signature-nonce",
            "x-sinch-webhook-signature-timestamp",
        }
    )

    def post_body(self, body: bytes, at: datetime) -> Post:
        return sinch.signed_post(URL, body, SECRET, at)

    def _signing(self, _bench: ReceiptBench, _headers: Mapping[str, str]) -> list[str]:
        return ["x-sinch-webhook-signature"]


class TestInfobip(_Password):
    gateway_type, batches, recipient = "infobip", True, "+447700900123"
    events = WRITERS["infobip"].events


class TestPlivo(_Family):
    gateway_type, dated = "plivo", False
    events = WRITERS["plivo"].events
    signature_headers = frozenset({"x-plivo-signature-v3", "x-plivo-signature-v3-nonce"})

    def url(self, report: ProviderReport) -> str:
        return twilio_receipts.callback_url(URL, report.reference)

    def post_body(self, body: bytes, at: datetime) -> Post:
        return plivo.signed_post(URL, body, SECRET, at)

    def _signing(self, _bench: ReceiptBench, _headers: Mapping[str, str]) -> list[str]:
        return ["x-plivo-signature-v3"]


class _Twilio(_Family):
    dated = False
    signature_headers = frozenset({twilio_receipts.SIGNATURE_HEADER})

    def url(self, report: ProviderReport) -> str:
        return twilio_receipts.callback_url(URL, report.reference)

    def post_body(self, body: bytes, at: datetime) -> Post:  # noqa: ARG002 - it signs no time
        try:
            fields = twilio_receipts._fields(body)
        except ValueError:
            fields = []
        signature = twilio_receipts.signature(SECRET.encode(), URL, fields)
        return Post(URL, body, {twilio_receipts.SIGNATURE_HEADER: signature})


class TestTwilioSms(_Twilio):
    gateway_type = "twilio_sms"
    events = WRITERS["twilio_sms"].events


class TestTwilioVoice(_Twilio):
    gateway_type = "twilio_voice"
    events = WRITERS["twilio_voice"].events


class TestWhatsAppCloud(_Family):
    gateway_type, batches, dated = "whatsapp_cloud", True, False
    signature_headers = frozenset({whatsapp_receipts.SIGNATURE_HEADER})
    events = WRITERS["whatsapp_cloud"].events - {Event.FAILED}
    """Meta has one status for a message that failed and one that bounced."""

    def post_body(self, body: bytes, at: datetime) -> Post:  # noqa: ARG002 - it signs no time
        signature = whatsapp_receipts.signature(SECRET.encode(), body)
        return Post(URL, body, {whatsapp_receipts.SIGNATURE_HEADER: signature})


def test_every_family_that_reports_runs_the_suite() -> None:
    def suites(of: type[_Family]) -> set[type[_Family]]:
        return {of} | {found for each in of.__subclasses__() for found in suites(each)}

    bound = {suite.gateway_type for suite in suites(_Family) if hasattr(suite, "gateway_type")}
    assert bound == {name for name, family in FAMILIES.items() if family.receipts is not None}
    assert bound == WRITERS.keys()


def test_a_provider_that_reports_nothing_has_no_reader() -> None:
    reporting_nothing = (
        "fcm", "apns", "web_push", "expo", "slack", "telegram", "mastodon", "bluesky", "noop",
        "unknown",
    )  # fmt: skip
    for name in reporting_nothing:
        assert gateways_of(name).receipt_reader("mine", name) is None


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_target_without_a_secret_takes_no_receipts(name: str) -> None:
    assert gateways_of(name).receipt_reader("elsewhere", name) is None
