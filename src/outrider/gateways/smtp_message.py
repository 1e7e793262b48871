"""An e-mail's bytes: a letterhead and a rendered text become a message that is ready to send.

Headers hold nothing that could break out of them. The Message-ID is derived from the reference, so
that every attempt has the same; HTML is accompanied by its text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.header import Header
from email.utils import format_datetime
from urllib.parse import quote

from outrider.domain.addresses import needs_smtputf8
from outrider.domain.errors import InvalidInput
from outrider.domain.mailbox import USUAL_HEAD, Mailbox, MailHead, mailbox
from outrider.domain.message_content import Enclosure
from outrider.domain.texts import breaks_header
from outrider.gateways.html_text import text_of
from outrider.gateways.mail_parts import Part, alternative, mixed
from outrider.gateways.mail_reports import RETURN_HEADER
from outrider.gateways.mail_text import LINE_MAX_BYTES, mail_lines, text_part
from outrider.gateways.one_click import unsubscribe_headers
from outrider.limits.gateways import MAIL_FROM_DEFAULT

LINE_MAX_CHARACTERS = LINE_MAX_BYTES
SUBJECT_LINE_MAX_CHARACTERS = 200
PRECEDENCES = ("bulk", "list", "none")

_UNSUBSCRIBE = re.compile(r"https://[!#-;=?-\[\]_a-z~]+\Z")
_LIST_ID = re.compile(r"(?:(?P<name>[^<>]*?)\s*<)?(?P<id>[A-Za-z0-9._-]+\.[A-Za-z0-9-]+)>?\Z")
_REFERENCE = "{reference}"


@dataclass(frozen=True, slots=True)
class Letterhead:
    """What all messages of a target have in common; `address` is the envelope sender."""

    sender: str = MAIL_FROM_DEFAULT
    reply_to: str | None = None
    list_unsubscribe: str | None = None
    envelope: Callable[[str], str] | None = None
    """The envelope sender for a reference, if bounces go to a separate address."""
    list_id: str | None = None
    """Which list its messages belong to (RFC 2919): `News <news.example.test>`."""
    precedence: str = "bulk"
    """Of messages that one can unsubscribe from; others are not marked."""
    address: str = field(init=False)
    _senders: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sender = mailbox(self.sender)
        headers = f"From: {sender.header('From')}\n"
        if self.reply_to is not None:
            headers += f"Reply-To: {mailbox(self.reply_to).header('Reply-To')}\n"
        if self.list_id is not None:
            headers += f"List-Id: {_list_id(self.list_id)}\n"
        if self.precedence not in PRECEDENCES:
            raise InvalidInput(
                f"precedence cannot be '{self.precedence}'", hint=f"use {', '.join(PRECEDENCES)}"
            )
        object.__setattr__(self, "address", sender.address)
        object.__setattr__(self, "_senders", headers)
        template = self.list_unsubscribe
        if template is not None and not _UNSUBSCRIBE.match(template.replace(_REFERENCE, "")):
            raise InvalidInput(
                "listUnsubscribe is not an https URL",
                hint="for example https://example.test/unsubscribe/{reference}",
            )

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]

    def headed(self, head: MailHead) -> "Letterhead":
        """The same, from whom a campaign says."""
        if head == USUAL_HEAD:
            return self
        return replace(
            self, sender=head.sender or self.sender, reply_to=head.reply_to or self.reply_to
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
            if self.precedence != "none":
                headers += f"Precedence: {self.precedence}\n"
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
    text: str | None = None,
) -> bytes:
    """The message, ready to send; `text` is the text of an HTML body, if its author wrote one.

    EmailMessage would take over a millisecond for each.
    """
    part = _body(body, reference, html=html, text=text)
    if enclosures:
        part = mixed(part, reference, enclosures)
    headers = (
        f"{letterhead.headers(reference, unsubscribe_url)}"
        f"To: {recipient}\nSubject: {_subject(subject)}\nDate: {format_datetime(now)}\n"
        f"Message-ID: <{reference}@{letterhead.domain}>\nX-Outrider-Reference: {reference}\n"
        f"MIME-Version: 1.0\n{part.headers}\n"
    )
    # UTF-8 headers are only for servers that announced SMTPUTF8.
    charset = "utf-8" if needs_smtputf8(recipient) else "ascii"
    message = mail_lines(headers.encode(charset)) + part.content
    return message if message.endswith(b"\r\n") else message + b"\r\n"


def _body(body: str, reference: str, *, html: bool, text: str | None) -> Part:
    if not html:
        return text_part(body, "plain")
    plain = text_of(body) if text is None else text
    rich = text_part(body, "html")
    return alternative(text_part(plain, "plain"), rich, reference) if plain.strip() else rich


def _subject(subject: str) -> str:
    plain = (
        subject.isascii()
        and len(subject) <= SUBJECT_LINE_MAX_CHARACTERS
        and "=?" not in subject
        # Readers strip what is around a header.
        and subject == subject.strip()
    )
    return subject if plain else Header(subject, "utf-8", header_name="Subject").encode()


def _list_id(text: str) -> str:
    found = None if breaks_header(text) else _LIST_ID.match(text.strip())
    if found is None:
        raise InvalidInput(
            f"'{text}' is not a List-Id", hint="use news.example.test or News <news.example.test>"
        )
    return Mailbox(found["name"] or "", found["id"]).header("List-Id", always_in_brackets=True)
