"""Every family that reports runs the one suite, with the simulator as its provider."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

import pytest

from outrider.domain.receipts import ReceiptEvent
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.gateways.directory import FAMILIES
from outrider.gateways.families import twilio_receipts, whatsapp_receipts
from outrider.gateways.sandbox_receipts import (
    WRITERS,
    Post,
    ProviderReport,
    signed_post,
    standard_post,
)
from outrider.gateways.smtp_receipts import MAIL_TYPE
from outrider.testing.receipt_suite import ReceiptBench, ReceiptConformance
from tests.support.receipt_targets import PUBLIC_URL, SECRET, gateways_of

URL = f"{PUBLIC_URL}/receipts/mine"
STANDARD = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
SVIX = frozenset({"svix-id", "svix-timestamp", "svix-signature"})
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
    for name in ("fcm", "mastodon", "noop", "unknown"):
        assert gateways_of(name).receipt_reader("mine", name) is None


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_target_without_a_secret_takes_no_receipts(name: str) -> None:
    assert gateways_of(name).receipt_reader("elsewhere", name) is None
