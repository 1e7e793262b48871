"""The content of a message, however it was submitted: rendered here, or a direct intent's payload.

The `sms` and `push` types forward a payload unchanged; every other type reads `to`, `subject` and
`body` from it, and refuses it before any traffic if they are missing. Some read more of it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from outrider.domain.call_results import Rejected
from outrider.domain.mailbox import USUAL_HEAD, MailHead
from outrider.domain.markup import is_html
from outrider.domain.message_content import Enclosure
from outrider.domain.submission import GatewayType

INCOMPLETE = "a direct payload requires the strings 'to' and 'body'; 'subject' must be a string"
NOTHING_ELSE: Mapping[str, Any] = MappingProxyType({})


class Content(NamedTuple):
    to: str
    subject: str | None
    body: str
    enclosures: Sequence[Enclosure] = ()
    unsubscribe_url: str | None = None
    html: bool = False
    payload: Mapping[str, Any] = NOTHING_ELSE
    """A direct intent's whole payload: some families read more of it, such as a template."""
    head: MailHead = USUAL_HEAD


class Carried(Protocol):
    """A message as its reservation has it, or the question about it."""

    @property
    def address(self) -> str: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def body(self) -> str: ...
    @property
    def payload(self) -> Mapping[str, Any] | None: ...
    @property
    def is_html(self) -> bool: ...
    @property
    def enclosures(self) -> Sequence[Enclosure]: ...
    @property
    def unsubscribe_url(self) -> str | None: ...
    @property
    def head(self) -> MailHead: ...


def content(reservation: Carried, *, addressed: bool = True) -> Content | None:
    """None if a payload is incomplete. A public post is not `addressed`."""
    payload = reservation.payload
    if payload is None:
        return Content(
            reservation.address,
            reservation.subject,
            reservation.body,
            reservation.enclosures,
            reservation.unsubscribe_url,
            reservation.is_html,
            head=reservation.head,
        )
    to, subject, body = payload.get("to"), payload.get("subject"), payload.get("body")
    if to is None and not addressed:
        to = ""
    if not isinstance(to, str) or not isinstance(body, str):
        return None
    if subject is not None and not isinstance(subject, str):
        return None
    return Content(
        to, subject, body, reservation.enclosures, reservation.unsubscribe_url, is_html(body),
        payload,
    )  # fmt: skip


def refuse_enclosures(gateway: GatewayType) -> Rejected:
    """A message with files that its family cannot carry is not sent without them."""
    reason = "invalid_message"
    if reason not in gateway.rejection_reasons:
        reason = "invalid_request"
    return Rejected(reason, f"{gateway.name} does not support attachments")
