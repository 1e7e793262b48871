"""Receipts of `ses`: events of a configuration set, which SNS posts and signs with a certificate.

The signature proves that SNS sent it, and the topic whose it is: anybody can subscribe our URL to a
topic of their own, so that the target names its topic. The certificate is fetched from SNS over
https and kept; a subscription to our topic is confirmed.

Sources: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html,
https://docs.aws.amazon.com/sns/latest/dg/http-subscription-confirmation-json.html,
https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cachetools import LRUCache
from yarl import URL

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.families.mail_provider import REFERENCE_NAME, kept_id
from outrider.gateways.family import Target
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.receipt_reading import (
    NOT_POSTED,
    REFUSALS,
    TOO_LARGE,
    derived_id,
    from_iso,
    one_line,
)
from outrider.limits.gateways import (
    RECEIPT_BODY_MAX_BYTES,
    SNS_CERTIFICATES_KEPT,
    SNS_FETCH_SECONDS,
)
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

RECEIPT_OPTIONS: Final = frozenset({"topicArn", "snsUrl"})
SNS_HOSTS: Final = re.compile(r"sns\.[a-z0-9-]+\.amazonaws\.com(\.cn)?\Z")
OF_NOTIFICATIONS: Final = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
OF_SUBSCRIPTIONS: Final = (
    "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip
"""The fields that are signed, in this order; a missing subject is left out."""
NOTIFICATION: Final = "Notification"
SUBSCRIPTION: Final = "SubscriptionConfirmation"


class Notice(msgspec.Struct, rename="pascal"):
    """What SNS posts."""

    type: str
    message_id: str
    topic_arn: str
    message: str
    timestamp: str
    signature: str
    signature_version: str
    signing_cert_url: str = msgspec.field(name="SigningCertURL")
    subject: str | None = None
    token: str | None = None
    subscribe_url: str | None = msgspec.field(default=None, name="SubscribeURL")

    def signed(self) -> bytes:
        names = OF_NOTIFICATIONS if self.type == NOTIFICATION else OF_SUBSCRIPTIONS
        values = msgspec.to_builtins(self)
        lines = [f"{name}\n{values[name]}\n" for name in names if values.get(name) is not None]
        return "".join(lines).encode()


_notices = msgspec.json.Decoder(Notice)


class _Mail(msgspec.Struct, rename="camel"):
    message_id: str = ""
    tags: dict[str, list[str]] = {}


class _Report(msgspec.Struct, rename="camel"):
    """The part of an event that is named after it."""

    bounce_type: str = ""
    bounce_sub_type: str = ""
    bounced_recipients: list[dict[str, Any]] = []
    complaint_feedback_type: str | None = None
    delay_type: str = ""
    reason: str = ""
    error_message: str = ""
    timestamp: str = ""

    @property
    def words(self) -> str:
        said = self.bounced_recipients[0].get("diagnosticCode") if self.bounced_recipients else ""
        known = (self.bounce_type, self.bounce_sub_type, self.complaint_feedback_type)
        others = (self.delay_type, self.reason, self.error_message)
        return " ".join(filter(None, (*known, *others, said if isinstance(said, str) else "")))


class _Event(msgspec.Struct, rename="camel"):
    event_type: str = ""
    mail: _Mail = msgspec.field(default_factory=_Mail)
    bounce: _Report | None = None
    complaint: _Report | None = None
    delivery: _Report | None = None
    reject: _Report | None = None
    failure: _Report | None = None
    delivery_delay: _Report | None = None
    open: _Report | None = None
    click: _Report | None = None

    @property
    def report(self) -> _Report:
        all_of_them = (
            self.bounce, self.complaint, self.delivery, self.reject, self.failure,
            self.delivery_delay, self.open, self.click,
        )  # fmt: skip
        return next(filter(None, all_of_them), _Report())


_events = msgspec.json.Decoder(_Event)

EVENTS: Final = {
    "Delivery": ReceiptEvent.DELIVERED,
    "Bounce": ReceiptEvent.BOUNCED,
    "Complaint": ReceiptEvent.COMPLAINED,
    "Open": ReceiptEvent.READ,
    "Click": ReceiptEvent.READ,
    "DeliveryDelay": ReceiptEvent.FAILED,
    "Reject": ReceiptEvent.FAILED,
    "Rendering Failure": ReceiptEvent.FAILED,
}
PERMANENT: Final = frozenset({"Complaint", "Reject", "Rendering Failure"})


class SesReader:
    def __init__(self, target: Target, topic_arn: str, sns_url: str | None) -> None:
        self._client, self._topic_arn, self._sns_url = target.client, topic_arn, sns_url
        self._certificates: LRUCache[str, Certificate] = LRUCache(SNS_CERTIFICATES_KEPT)

    async def prepare(self, callback: Callback, now: datetime) -> None:
        """Fetches a certificate that is not known yet, and confirms a subscription to our topic."""
        notice = self._notice(callback)
        if notice is None or notice.topic_arn != self._topic_arn:
            return
        if not self._is_of_sns(notice.signing_cert_url):
            return
        if notice.signing_cert_url not in self._certificates:
            answer = await self._get(notice.signing_cert_url)
            if answer is not None:
                self._keep(notice.signing_cert_url, answer.body)
        wanted = notice.subscribe_url if notice.type == SUBSCRIPTION else None
        if wanted is not None and self._is_of_sns(wanted) and self._is_genuine(notice, now):
            await self._get(wanted)

    def read(self, callback: Callback, now: datetime) -> Verified | Challenge | Refusal:
        if callback.method != "POST":
            return NOT_POSTED
        if len(callback.body) > RECEIPT_BODY_MAX_BYTES:
            return TOO_LARGE
        notice = self._notice(callback)
        if notice is None:
            return REFUSALS[SignatureState.UNSIGNED]
        if not self._is_genuine(notice, now):
            return REFUSALS[SignatureState.FORGED]
        if notice.type != NOTIFICATION:
            return Verified([])
        try:
            return Verified(list(_receipts(notice)))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return Refusal(RefusedFor.MALFORMED, one_line(str(error)))

    def _notice(self, callback: Callback) -> Notice | None:
        """Of our topic or not; None: nothing that SNS posts."""
        if len(callback.body) > RECEIPT_BODY_MAX_BYTES:
            return None
        try:
            return _notices.decode(callback.body)
        except (msgspec.DecodeError, RecursionError):
            return None

    def _is_of_sns(self, text: str) -> bool:
        try:
            url = URL(text)
            if self._sns_url is not None:
                return url.origin() == URL(self._sns_url).origin()
        except ValueError:
            return False
        is_theirs = SNS_HOSTS.match(url.host or "") is not None
        return is_theirs and url.scheme == "https" and url.port == 443 and url.user is None

    async def _get(self, text: str) -> ReceivedAnswer | None:
        answer = await self._client.ask("GET", URL(text), timeout_seconds=SNS_FETCH_SECONDS)
        if isinstance(answer, ReceivedAnswer) and answer.status == 200:
            return answer
        return None

    def _keep(self, url: str, pem: bytes) -> None:
        from cryptography.x509 import load_pem_x509_certificate

        with suppress(ValueError):
            self._certificates[url] = load_pem_x509_certificate(pem)

    def _is_genuine(self, notice: Notice, now: datetime) -> bool:
        certificate = self._certificates.get(notice.signing_cert_url)
        if certificate is None or notice.topic_arn != self._topic_arn:
            return False
        return is_signed(certificate, notice, now)


def is_signed(certificate: "Certificate", notice: Notice, now: datetime) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    algorithms: Mapping[str, hashes.HashAlgorithm] = {"1": hashes.SHA1(), "2": hashes.SHA256()}
    public, algorithm = certificate.public_key(), algorithms.get(notice.signature_version)
    is_valid = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    if algorithm is None or not is_valid or not isinstance(public, rsa.RSAPublicKey):
        return False
    try:
        signature = base64.b64decode(notice.signature.encode("ascii"), validate=True)
        public.verify(signature, notice.signed(), padding.PKCS1v15(), algorithm)
    except (InvalidSignature, ValueError):
        return False
    return True


def _receipts(notice: Notice) -> Iterator[Receipt]:
    event = _events.decode(notice.message)
    what = EVENTS.get(event.event_type)
    if what is None:
        return
    report, found = event.report, event.mail.tags.get(REFERENCE_NAME, [])
    yield Receipt(
        derived_id(notice.message_id),
        what,
        kept_id(found[0]) if found else None,
        kept_id(event.mail.message_id),
        event.event_type in PERMANENT or report.bounce_type == "Permanent",
        one_line(report.words),
        occurred_at=from_iso(report.timestamp or notice.timestamp),
    )


def receipt_reader(target: Target) -> SesReader | None:
    topic_arn = target.settings.options.get("topicArn")
    if not topic_arn:
        return None
    return SesReader(target, topic_arn, target.settings.options.get("snsUrl"))
