"""SendGrid, as its documentation describes it (families/sendgrid.py names the pages).

Its webhooks are signed with a private key that is derived from the simulator's secret.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.mail_provider import REFERENCE_NAME
from outrider.gateways.families.sendgrid import SIGNATURE_HEADER, TIMESTAMP_HEADER
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
from outrider.gateways.simulators.mail import is_refused, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec


def _error(field: str | None, message: str, status: int = 400) -> Reply:
    return Reply({"errors": [{"message": message, "field": field, "help": None}]}, status)


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = string(document, "personalizations", 0, "to", 0, "email"), None
    files = files_of(document.get("attachments", []), "filename", "content", "type")
    if is_refused(to):
        refusal = _error("personalizations.0.to.0.email", "Does not contain a valid address.")
    elif not string(document, "from", "email"):
        refusal = _error("from.email", "The from object must be provided.")
    elif not string(document, "content", 0, "value"):
        refusal = _error("content.0.value", "The content value must be a string of length > 0.")
    elif files is None:
        refusal = _error("attachments.0.content", "The attachment content must be base64.")
    return Received(string(document, "custom_args", REFERENCE_NAME), to, refusal, files or ())


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("subject", "The simulator is configured to fail.")
        case Outcome.THROTTLED:
            return _error(None, "too many requests", 429)
        case _:
            return Reply(None, 202, {"X-Message-Id": f"sandbox{number:015d}"})


def _message_id(reply: Reply) -> str:
    return (reply.headers or {}).get("X-Message-Id", "")


_WORDS: Final[Mapping[Event, Mapping[str, object]]] = {
    Event.DELIVERED: {"event": "delivered", "response": "250 OK"},
    Event.BOUNCED: {"event": "bounce", "type": "bounce", "reason": "550 5.1.1 unknown"},
    Event.FAILED: {"event": "deferred", "response": "400 try again later"},
    Event.COMPLAINED: {"event": "spamreport"},
    Event.READ: {"event": "open"},
    Event.OPTED_OUT: {"event": "unsubscribe"},
}


def private_key(secret: str) -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    seed = sha256(secret.split()[0].encode()).digest()
    # A number that is certainly within the curve's order.
    return ec.derive_private_key(int.from_bytes(seed[:31], "big") + 1, ec.SECP256R1())


def public_key(secret: str) -> str:
    """As SendGrid shows it, for the target's `webhookPublicKey`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = private_key(secret).public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(der).decode()


def signed_post(url: str, body: bytes, secret: str, at: datetime) -> Post:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    time = str(int(at.timestamp()))
    signature = private_key(secret).sign(time.encode() + body, ec.ECDSA(hashes.SHA256()))
    headers = {
        "content-type": "application/json",
        SIGNATURE_HEADER: base64.b64encode(signature).decode(),
        TIMESTAMP_HEADER: time,
    }
    return Post(url, body, headers)


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    events = [
        {
            **_WORDS[report.event],
            "email": report.to,
            "timestamp": int(report.at.timestamp()),
            "sg_event_id": report.report_id,
            "sg_message_id": f"{report.message_id}.filter0001.1.0",
            REFERENCE_NAME: report.reference,
        }
        for report in reports
    ]
    return signed_post(url, msgspec.json.encode(events), secret, at)


SIMULATOR = Simulator(
    Provider("sendgrid", "/v3/mail/send", False, _read, _reply, "Bearer", SANDBOX_MAIL_MAX_BYTES),
    _message_id,
    harmless=(Harmless("GET", "/v3/scopes", {"scopes": ["mail.send"]}, "Bearer"),),
    writer=Writer(_post, frozenset(_WORDS), batches=True),
)
