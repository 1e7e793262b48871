"""What the families of e-mail providers share: recipient, sender, files, and how reports are
authenticated where a provider does not sign them.
"""

import base64
import hmac
import re
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from outrider.domain.addresses import normalise_email
from outrider.domain.call_results import Rejected
from outrider.domain.ids import IdempotencyKey
from outrider.domain.mailbox import Mailbox, mailbox
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.content import Content
from outrider.gateways.family import Target
from outrider.gateways.mail_parts import safe_kind, safe_name
from outrider.gateways.one_click import unsubscribe_headers
from outrider.gateways.provider import REFERENCE_HEADER, ProviderGateway, Request
from outrider.gateways.receipt_reading import ReceiptSecret, SignedReader, one_line, plain_keys
from outrider.limits.gateways import RECEIPT_ID_MAX_CHARACTERS
from outrider.ports.receipts import Callback

MAIL_REASONS: Final = frozenset(
    {"invalid_request", "invalid_recipient", "invalid_message", "unauthorized"}
)
PASSWORD: Final = "webhookSecret"
"""`user:password` as in the webhook's URL, or a bearer token."""
REFERENCE_NAME: Final = "outrider_reference"
"""How our reference is called in providers' tags, metadata and variables."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")


class MailProviderGateway(ProviderGateway):
    """An e-mail provider; its family writes the request."""

    carries_enclosures = True

    def __init__(self, target: Target, *credentials: str) -> None:
        super().__init__(target, *credentials)
        self.sender = target.usual_sender
        self._refused_sender = target.refused_sender

    @abstractmethod
    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        """The request that sends this."""

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        recipient = normalise_email(content.to)
        if recipient is None:
            return Rejected("invalid_recipient", "not an email address")
        refused = self._refused_sender(content.head)
        return refused or self.mail(reference, recipient, content)

    def sender_of(self, content: Content) -> Mailbox:
        """The campaign's own, or the target's."""
        named = content.head.sender
        return self.sender if named is None else mailbox(named)


def own_headers(reference: str, content: Content) -> dict[str, str]:
    """The mail's headers that are ours: people find the message by them, and unsubscribe."""
    headers = {REFERENCE_HEADER: reference}
    if content.unsubscribe_url is not None:
        headers |= unsubscribe_headers(content.unsubscribe_url)
    return headers


def reply_to(content: Content) -> Mailbox | None:
    named = content.head.reply_to
    return None if named is None else mailbox(named)


def named(found: Mailbox, address: str = "email", name: str = "name") -> dict[str, str]:
    """A mailbox as JSON, under the names that the provider gives its fields."""
    return {address: found.address, **({name: found.name} if found.name else {})}


def is_plain(reference: str, most: int) -> bool:
    """Whether a provider can carry it: letters, digits, `-` and `_`. Only then can the provider be
    asked for it, and report it."""
    return len(reference) <= most and _PLAIN.match(reference) is not None


def attached(
    content: Content, name: str, data: str, kind: str | None = None
) -> list[dict[str, str]]:
    """The files as JSON, under the names that the provider gives their fields."""
    files = []
    for each in content.enclosures:
        file = {name: safe_name(each.name), data: base64.b64encode(each.content).decode("ascii")}
        files.append(file if kind is None else file | {kind: safe_kind(each.content_type)})
    return files


def kept_id(value: object) -> str | None:
    """A reference or a message's id from a report; None if there is none."""
    text = str(value) if isinstance(value, str | int) else ""
    return one_line(text, RECEIPT_ID_MAX_CHARACTERS) or None


def basic(user_and_password: str) -> str:
    return f"Basic {base64.b64encode(user_and_password.encode()).decode()}"


def password_keys(target: Target) -> ReceiptSecret | None:
    """None: the target takes no reports."""
    if not target.has_credential(PASSWORD):
        return None
    return ReceiptSecret(target, PASSWORD, plain_keys)


class PasswordReader(SignedReader):
    """For providers that sign nothing: they send the user and password of the webhook's URL, or a
    bearer token. The body is not covered, so such a webhook needs https."""

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:  # noqa: ARG002 - nothing says when it was sent
        given = callback.headers.get("authorization", "")
        if not given:
            return SignatureState.UNSIGNED
        text = given.encode(errors="replace")
        secrets = [key.decode() for key in keys]
        expected = [form for each in secrets for form in (basic(each), f"Bearer {each}")]
        matches = [hmac.compare_digest(each.encode(), text) for each in expected]
        return SignatureState.GENUINE if any(matches) else SignatureState.FORGED
