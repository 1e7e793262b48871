"""The `smtp` gateway type: one message per transaction, over a bounded pool of reused connections.

A reservation is validated and composed here, then handed to a connection. SMTP does not dedupe and
remembers no reference: silence after the body is doubt.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

from cachetools import LRUCache

from outrider.domain.addresses import normalise_email
from outrider.domain.call_results import POOL_TIMEOUT, AttemptError, CallResult, Progress, Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence, LookedUp, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.mailbox import MailHead
from outrider.domain.reference_memory import NEVER
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.domain.texts import breaks_header
from outrider.domain.webhook_signatures import signing_keys
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.dkim_settings import DKIM_CREDENTIALS, DKIM_OPTIONS, DkimSigners
from outrider.gateways.family import Family, Target
from outrider.gateways.helo_name import checked as checked_helo
from outrider.gateways.json_receipts import CREDENTIAL
from outrider.gateways.look_ups import DeclaredLookUp, declared_look_up
from outrider.gateways.mail_sender import SENDS_FROM_OPTION, MailSender, read_addresses
from outrider.gateways.mail_server import Login, Mail, MailServer, Waits
from outrider.gateways.receipt_reading import ReceiptSecret
from outrider.gateways.smtp_check import MailCheck
from outrider.gateways.smtp_connection import short
from outrider.gateways.smtp_connections import SmtpConnections
from outrider.gateways.smtp_message import Letterhead, compose
from outrider.gateways.smtp_receipts import RETURN_PATH_OPTION, receipt_reader, return_path_of
from outrider.gateways.system_trust import trust_of
from outrider.limits.gateways import (
    MAIL_COMPOSED_IN_LOOP_CHARACTERS,
    SMTP_CONNECTIONS,
    SMTP_MESSAGES_PER_CONNECTION,
)
from outrider.ports.gateway import LookUpQuestion, Reservation
from outrider.ports.target_check import CheckFinding

SMTP = GatewayType(
    "smtp",
    Channel.EMAIL,
    frozenset(
        {
            "invalid_recipient",
            "invalid_header",
            "invalid_message",
            "message_refused",
            "temporary_failure",
        }
    ),
    # Most delivered mail is never reported on, so nothing is waited for.
    evidence=Evidence(
        receipts=Receipts("return path, `X-Outrider-Reference`", within_seconds=0.0),
        declared_look_up=True,
    ),
)

PORTS = {"smtp": 25, "smtps": 465}
STARTTLS = ("auto", "required", "off")
OPTIONS = frozenset(
    {
        "from",
        "replyTo",
        "listUnsubscribe",
        "listId",
        "precedence",
        "starttls",
        "caFile",
        "username",
        "helo",
        RETURN_PATH_OPTION,
        SENDS_FROM_OPTION,
        *DKIM_OPTIONS,
    }
)
OTHER_CREDENTIALS = frozenset({CREDENTIAL, *DKIM_CREDENTIALS})
"""Any other one is half a login, or misspelt."""
PLAIN = Letterhead()
LETTERHEADS_KNOWN = 100
"""Of campaigns with a sender of their own."""


class SmtpGateway:
    """One mail server; the letterhead is what all its messages have in common."""

    type = SMTP
    memory = NEVER
    recipe = ""

    def __init__(
        self,
        server: MailServer,
        *,
        letterhead: Letterhead = PLAIN,
        connections: int = SMTP_CONNECTIONS,
        messages_per_connection: int = SMTP_MESSAGES_PER_CONNECTION,
        record: DeclaredLookUp | None = None,
        dkim: DkimSigners | None = None,
        sends_from: Sequence[str] = (),
        refused_sender: Callable[[MailHead], Rejected | None] = lambda _: None,
    ) -> None:
        self._refused_sender = refused_sender
        self._headed: LRUCache[MailHead, Letterhead] = LRUCache(LETTERHEADS_KNOWN)
        self._dkim, self._sends_from = dkim, tuple(sends_from)
        self._record = record
        self.looks_up = None if record is None else record.evidence
        self.records = "" if record is None else record.records
        self.window_items = self.concurrency = connections
        self._letterhead = letterhead
        self._server = server
        self._lines = SmtpConnections(server, connections, messages_per_connection)

    async def call(self, reservation: Reservation) -> CallResult:
        given = content(reservation)
        if given is None:
            return Rejected("invalid_message", INCOMPLETE)
        # Validated first: a line break in an address would become a separate SMTP command.
        recipient = normalise_email(given.to)
        if recipient is None:
            return Rejected("invalid_recipient", "not an email address")
        headed = (given.subject or "") + reservation.reference + (given.unsubscribe_url or "")
        if breaks_header(headed):
            return Rejected("invalid_header", "a header contains a control character")
        if refused := self._refused_sender(given.head):
            return refused
        letterhead = self._letterhead_of(given.head)
        try:
            message = await self._composed(letterhead, given, recipient, reservation.reference)
        except UnicodeError as error:
            return Rejected("invalid_message", short(error))
        try:
            async with self._lines.borrow() as line:
                sender = letterhead.envelope_sender(reservation.reference)
                mail = Mail(sender, recipient, message, reservation.reference)
                return await line.deliver(mail, reservation.begin)
        except TimeoutError:
            return AttemptError(Progress.NOT_SENT, POOL_TIMEOUT, "no connection became free")

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        return {} if self._record is None else await self._record.look_up(questions)

    async def trim(self, connections: int) -> None:
        await self._lines.trim(connections)

    async def close(self) -> None:
        await self._lines.close()

    def _letterhead_of(self, head: MailHead) -> Letterhead:
        known = self._headed.get(head)
        if known is None:
            known = self._headed[head] = self._letterhead.headed(head)
        return known

    async def _composed(
        self, letterhead: Letterhead, given: Content, recipient: str, reference: str
    ) -> bytes:
        now, text = datetime.now(UTC), given.payload.get("text")

        def composed() -> bytes:
            message = compose(
                letterhead, recipient, given.subject or "", given.body, reference,
                now, given.enclosures, given.unsubscribe_url, html=given.html,
                text=text if isinstance(text, str) else None,
            )  # fmt: skip
            return message if self._dkim is None else self._dkim.signed(message, now)

        # Megabytes of base64 take a while; other calls continue meanwhile.
        if given.enclosures or len(given.body) > MAIL_COMPOSED_IN_LOOP_CHARACTERS:
            return await asyncio.to_thread(composed)
        return composed()

    @property
    def sender(self) -> MailSender:
        """What receivers can check of its mail."""
        server, letterhead = self._server, self._letterhead
        return MailSender(
            letterhead.domain,
            letterhead.envelope_sender("").rpartition("@")[2],
            () if self._dkim is None else self._dkim.signers,
            letterhead.list_unsubscribe is not None,
            server.tls is not None,
            server.host,
            self._sends_from,
        )

    async def check(self, seconds: float) -> CheckFinding | None:
        sender = self._letterhead.envelope_sender("")
        return await MailCheck(self._server).check(sender, seconds)


def mail_server(
    gateway_url: str,
    *,
    starttls: str = "auto",
    ca_file: str | None = None,
    login: Login | None = None,
    allow_private: bool = True,
    timeout_seconds: float | None = None,
    helo: str | None = None,
) -> MailServer:
    """The server behind `smtp://host[:25]`, or `smtps://host[:465]`, encrypted from the start."""
    try:
        url = urlsplit(gateway_url)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise InvalidInput(f"'{gateway_url}' is not a URL: {error}") from error
    if url.scheme not in PORTS or not host:
        raise InvalidInput(
            f"'{gateway_url}' is not an SMTP URL", hint="use smtp://host:port or smtps://host:port"
        )
    if starttls not in STARTTLS:
        raise InvalidInput(f"starttls cannot be '{starttls}'", hint=f"use {', '.join(STARTTLS)}")
    from_start = url.scheme == "smtps"
    return MailServer(
        host,
        port or PORTS[url.scheme],
        trust_of(ca_file) if from_start or starttls != "off" else None,
        tls_from_start=from_start,
        tls_required=from_start or starttls == "required",
        login=login,
        allow_private=allow_private,
        waits=Waits.of(timeout_seconds),
        helo=None if helo is None else checked_helo(helo),
    )


def _make(target: Target) -> SmtpGateway:
    settings = target.settings
    target.refuse_options_but(SMTP.name, OPTIONS)
    login = None
    if "username" in settings.options or settings.credentials.keys() - OTHER_CREDENTIALS:
        password = partial(target.credential, "password")
        login = Login(target.option("username"), password(), password)
    server = mail_server(
        target.url,
        starttls=target.option("starttls", "auto"),
        ca_file=settings.options.get("caFile"),
        login=login,
        allow_private=target.allow_private,
        timeout_seconds=settings.timeout_seconds,
        helo=settings.options.get("helo"),
    )
    letterhead = Letterhead(
        target.option("from", target.mail_from),
        settings.options.get("replyTo"),
        settings.options.get("listUnsubscribe"),
        _envelope(target),
        settings.options.get("listId"),
        target.option("precedence", "bulk"),
    )
    return SmtpGateway(
        server,
        letterhead=letterhead,
        connections=settings.concurrency or SMTP_CONNECTIONS,
        record=declared_look_up(target.client, settings),
        dkim=DkimSigners(target, letterhead.domain),
        sends_from=read_addresses(settings.options.get(SENDS_FROM_OPTION)),
        refused_sender=target.refused_sender,
    )


def _envelope(target: Target) -> Callable[[str], str] | None:
    return_path = return_path_of(target)
    if return_path is None:
        return None
    secret = ReceiptSecret(target, CREDENTIAL, signing_keys)
    return lambda reference: return_path.address(secret.keys()[0], reference)


FAMILY = Family(SMTP, _make, receipt_reader)
