"""An e-mail's bytes: a letterhead and a rendered text become a message that is ready to send.

Headers hold nothing that could break out of them; the Message-ID is derived from the reference.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.header import Header
from email.utils import format_datetime
from urllib.parse import quote

from outrider.domain.addresses import needs_smtputf8
from outrider.domain.errors import InvalidInput
from outrider.domain.message_content import Enclosure
from outrider.gateways.mail_parts import Part, base64_lines, mixed
from outrider.gateways.mail_reports import RETURN_HEADER
from outrider.gateways.mailbox import mailbox
from outrider.gateways.one_click import unsubscribe_headers
from outrider.limits.gateways import MAIL_FROM_DEFAULT

LINE_MAX_CHARACTERS = 998
SUBJECT_LINE_MAX_CHARACTERS = 200

_UNSUBSCRIBE = re.compile(r"https://[!#-;=?-\[\]_a-z~]+\Z")
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_REFERENCE = "{reference}"


@dataclass(frozen=True, slots=True)
class Letterhead:
    """What all messages of a target have in common; `address` is the envelope sender."""

    sender: str = MAIL_FROM_DEFAULT
    reply_to: str | None = None
    list_unsubscribe: str | None = None
    envelope: Callable[[str], str] | None = None
    """The envelope sender for a reference, if bounces go to a separate address."""
    address: str = field(init=False)
    _senders: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sender = mailbox(self.sender)
        headers = f"From: {sender.header('From')}\n"
        if self.reply_to is not None:
            headers += f"Reply-To: {mailbox(self.reply_to).header('Reply-To')}\n"
        object.__setattr__(self, "address", sender.address)
        object.__setattr__(self, "_senders", headers)
        template = self.list_unsubscribe
        if template is not None and not _UNSUBSCRIBE.match(template.replace(_REFERENCE, "")):
            raise InvalidInput(
                "listUnsubscribe is not an https URL",
                hint="for example https://example.test/unsubscribe/{reference}",
            )

    def envelope_sender(self, reference: str) -> str:
        return self.address if self.envelope is None else self.envelope(reference)

    def headers(self, reference: str, unsubscribe_url: str | None = None) -> str:
        """A message's own unsubscribe link takes precedence over the target's."""
        headers = self._senders
        url = unsubscribe_url
        if url is None and self.list_unsubscribe is not None:
            url = self.list_unsubscribe.replace(_REFERENCE, quote(reference, safe=""))
        if url is not None:
            for name, value in unsubscribe_headers(url).items():
                headers += f"{name}: {value}\n"
        if self.envelope is not None:
            headers += f"{RETURN_HEADER}: {self.envelope(reference)}\n"
        return headers


def compose(
    letterhead: Letterhead,
    recipient: str,
    subject: str,
    body: str,
    reference: str,
    now: datetime,
    enclosures: Sequence[Enclosure] = (),
    unsubscribe_url: str | None = None,
    *,
    html: bool = False,
) -> bytes:
    """The message, ready to send. EmailMessage would take over a millisecond for each."""
    plain = (
        subject.isascii() and len(subject) <= SUBJECT_LINE_MAX_CHARACTERS and "=?" not in subject
    )
    folded = subject if plain else Header(subject, "utf-8", header_name="Subject").encode()
    content = _LINE_ENDS.sub(b"\r\n", body.encode())
    encoding = "7bit"
    # In base64 also beside files: then no part can contain the line that ends it.
    if (
        enclosures
        or not body.isascii()
        or max(map(len, content.split(b"\r\n"))) > LINE_MAX_CHARACTERS
    ):
        content, encoding = base64_lines(content), "base64"
    kind = "html" if html else "plain"
    described = f"Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: {encoding}\n"
    if enclosures:
        described, content = mixed(Part(described, content), reference, enclosures)
    headers = (
        f"{letterhead.headers(reference, unsubscribe_url)}"
        f"To: {recipient}\nSubject: {folded}\nDate: {format_datetime(now)}\n"
        f"Message-ID: <{reference}@outrider>\nX-Outrider-Reference: {reference}\n"
        f"MIME-Version: 1.0\n{described}\n"
    )
    # UTF-8 headers are only for servers that announced SMTPUTF8.
    charset = "utf-8" if needs_smtputf8(recipient) else "ascii"
    message = _LINE_ENDS.sub(b"\r\n", headers.encode(charset)) + content
    return message if message.endswith(b"\r\n") else message + b"\r\n"
