"""Amazon SES and SNS, as their documentation describes them (families/ses.py names the pages).

SNS signs with a key of its own, made when it is first needed; its certificate is at
`/sandbox/sns.pem`. The simulator's secret is the topic's ARN and, after a blank, that URL.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.mail_provider import REFERENCE_NAME
from outrider.gateways.families.ses_receipts import NOTIFICATION, Notice
from outrider.gateways.sandbox_files import files_of
from outrider.gateways.sandbox_protocol import (
    Harmless,
    Headers,
    Outcome,
    Post,
    Provider,
    ProviderReport,
    Received,
    Reply,
    Simulator,
    Writer,
    decoded,
)
from outrider.gateways.sigv4 import ALGORITHM
from outrider.gateways.simulators.mail import is_refused, nested, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import rsa

CERTIFICATE_PATH: Final = "/sandbox/sns.pem"


def _error(name: str, message: str, status: int = 400) -> Reply:
    return Reply({"message": message}, status, {"x-amzn-ErrorType": f"{name}:"})


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    simple = nested(document, "Content", "Simple") or {}
    to, refusal = string(document, "Destination", "ToAddresses", 0), None
    files = files_of(simple.get("Attachments", []), "FileName", "RawContent", "ContentType")
    is_empty = not any(string(simple, "Body", kind, "Data") for kind in ("Text", "Html"))
    if is_refused(to):
        refusal = _error("BadRequestException", "Missing final '@domain'")
    elif not string(document, "FromEmailAddress"):
        refusal = _error("BadRequestException", "FromEmailAddress is required")
    elif is_empty or files is None:
        refusal = _error("BadRequestException", "The message has no valid content")
    tag = nested(document, "EmailTags", 0) or {}
    reference = tag.get("Value", "") if tag.get("Name") == REFERENCE_NAME else ""
    return Received(reference, to, refusal, files or ())


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("MessageRejected", "The simulator is configured to fail.")
        case Outcome.THROTTLED:
            return _error("TooManyRequestsException", "Maximum sending rate exceeded.", 429)
        case _:
            return Reply({"MessageId": f"0102{number:012x}-sandbox-000000"})


def _message_id(reply: Reply) -> str:
    return string(reply.document, "MessageId")


_WORDS: Final[Mapping[Event, tuple[str, str, Mapping[str, object]]]] = {
    Event.DELIVERED: ("Delivery", "delivery", {"smtpResponse": "250 2.0.0 OK"}),
    Event.BOUNCED: (
        "Bounce", "bounce",
        {
            "bounceType": "Permanent", "bounceSubType": "General",
            "bouncedRecipients": [{"diagnosticCode": "smtp; 550 5.1.1 user unknown"}],
        },
    ),
    Event.COMPLAINED: ("Complaint", "complaint", {"complaintFeedbackType": "abuse"}),
    Event.READ: ("Open", "open", {}),
    Event.FAILED: ("DeliveryDelay", "deliveryDelay", {"delayType": "MailboxFull"}),
}  # fmt: skip


@lru_cache(1)
def _key() -> "rsa.RSAPrivateKey":
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(65537, 2048)


@lru_cache(1)
def certificate() -> bytes:
    return self_signed(_key())


def self_signed(key: "rsa.RSAPrivateKey") -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM)


def notice(message: str, message_id: str, topic: str, certificate_url: str, at: datetime) -> Notice:
    """A signed notification."""
    made = Notice(
        NOTIFICATION, message_id, topic, message, at.isoformat(), "", "2", certificate_url,
        "Amazon SES Email Event Notification",
    )  # fmt: skip
    return signed(made)


def signed(made: Notice) -> Notice:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    signature = _key().sign(made.signed(), padding.PKCS1v15(), hashes.SHA256())
    return msgspec.structs.replace(made, signature=base64.b64encode(signature).decode())


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    kind, name, words = _WORDS[report.event]
    event = {
        "eventType": kind,
        "mail": {"messageId": report.message_id, "tags": {REFERENCE_NAME: [report.reference]}},
        name: {**words, "timestamp": report.at.isoformat()},
    }
    message = msgspec.json.encode(event).decode()
    topic, _, certificate_url = secret.partition(" ")
    return posted(url, notice(message, report.report_id, topic, certificate_url, at))


def posted(url: str, made: Notice) -> Post:
    kind = {"content-type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": made.type}
    return Post(url, msgspec.json.encode(made), kind)


SIMULATOR = Simulator(
    Provider(
        "ses", "/v2/email/outbound-emails", False, _read, _reply, ALGORITHM, SANDBOX_MAIL_MAX_BYTES
    ),
    _message_id,
    harmless=(Harmless("GET", "/v2/email/account", {"SendingEnabled": True}, ALGORITHM),),
    writer=Writer(_post, frozenset(_WORDS)),
)
