"""The `smtp` gateway type: one message a transaction, over a bounded pool of reused connections.

The three steps before the body (MAIL, RCPT, DATA) can fail without harm. Once the body is handed
over only a reply tells what became of it, and SMTP dedupes nothing: silence there is doubt.
"""

import asyncio
import base64
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.header import Header
from email.utils import format_datetime
from urllib.parse import urlsplit

from aiosmtplib import SMTP as Client
from aiosmtplib import (
    SMTPConnectResponseError,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import IdempotencyKey
from outrider.domain.recipients import normalise_email
from outrider.domain.states import Channel
from outrider.domain.submission import (
    Accepted,
    AttemptError,
    CallResult,
    GatewayType,
    Progress,
    Rejected,
)
from outrider.gateways.family import Family
from outrider.ports.gateway import Reservation
from outrider.settings import (
    ERROR_DETAIL_MAX_CHARACTERS,
    MAIL_FROM_DEFAULT,
    SMTP_CONNECTIONS,
    SMTP_MESSAGES_PER_CONNECTION,
    SMTP_TIMEOUT_SECONDS,
)

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
    dedupes_by_reference=False,
)

SMTP_PORT = 25
LINE_MAX_CHARACTERS = 998
SUBJECT_LINE_MAX_CHARACTERS = 200
START_INPUT, CLOSING = 354, 421

_SENDER = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9.-]+\Z")
_HEADER_BREAKERS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_LINE_STARTING_WITH_DOT = re.compile(rb"(?m)^\.")


class SmtpGateway:
    """One mail server; `sender` is both the envelope's and the From header's."""

    type = SMTP

    def __init__(
        self,
        gateway_url: str,
        *,
        sender: str = MAIL_FROM_DEFAULT,
        connections: int = SMTP_CONNECTIONS,
        messages_per_connection: int = SMTP_MESSAGES_PER_CONNECTION,
        timeout_seconds: float = SMTP_TIMEOUT_SECONDS,
    ) -> None:
        host, port = _parse(gateway_url)
        self.window_items = self.concurrency = connections
        self._sender = sender
        if not _SENDER.match(self._sender):
            raise InvalidInput(f"'{self._sender}' cannot be the sender of an e-mail")
        self._lines = _Lines(host, port, connections, messages_per_connection, timeout_seconds)

    async def call(self, reservation: Reservation) -> CallResult:
        # Validated first: a line break in an address would become an SMTP command of its own.
        recipient = normalise_email(reservation.address)
        if recipient is None:
            return Rejected("invalid_recipient", "not an e-mail address")
        subject = reservation.subject or ""
        if _HEADER_BREAKERS.search(subject + reservation.reference):
            return Rejected("invalid_header", "a header holds a control character")
        try:
            message = compose(
                self._sender, recipient, subject, reservation.body, reservation.reference,
                datetime.now(UTC),
            )  # fmt: skip
        except UnicodeError as error:
            return Rejected("invalid_message", _short(error))
        try:
            async with self._lines.borrow() as line:
                return await line.deliver(self._sender, recipient, message)
        except TimeoutError:
            return AttemptError(Progress.NOT_SENT, "pool_timeout", "no connection became free")

    async def look_up(self, references: Sequence[IdempotencyKey]) -> dict[IdempotencyKey, bool]:  # noqa: ARG002
        return {}

    async def close(self) -> None:
        await self._lines.close()


def compose(
    sender: str, recipient: str, subject: str, body: str, reference: str, now: datetime
) -> bytes:
    """The message, ready for the line. EmailMessage would take over a millisecond for each."""
    plain = (
        subject.isascii() and len(subject) <= SUBJECT_LINE_MAX_CHARACTERS and "=?" not in subject
    )
    folded = subject if plain else Header(subject, "utf-8", header_name="Subject").encode()
    content = _LINE_ENDS.sub(b"\r\n", body.encode())
    encoding = "7bit"
    if not body.isascii() or max(map(len, content.split(b"\r\n"))) > LINE_MAX_CHARACTERS:
        content, encoding = base64.encodebytes(content), "base64"
    kind = "html" if body.lstrip().startswith("<") else "plain"
    headers = (
        f"From: {sender}\nTo: {recipient}\nSubject: {folded}\nDate: {format_datetime(now)}\n"
        f"Message-ID: <{reference}@outrider>\nX-Outrider-Reference: {reference}\n"
        f"MIME-Version: 1.0\nContent-Type: text/{kind}; charset=utf-8\n"
        f"Content-Transfer-Encoding: {encoding}\n\n"
    )
    message = _LINE_ENDS.sub(b"\r\n", headers.encode("ascii") + content)
    return message if message.endswith(b"\r\n") else message + b"\r\n"


class _Line:
    """One connection to the server, opened when first used and reused while it is sound."""

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        self._client = Client(
            hostname=host,
            port=port,
            # The library would look up its own name in DNS for every connection.
            local_hostname=socket.gethostname(),
            timeout=timeout_seconds,
            start_tls=False,
        )
        self._timeout_seconds = timeout_seconds
        self.messages = 0
        self.sound = True

    @property
    def alive(self) -> bool:
        return self.sound and self._client.is_connected

    async def deliver(self, sender: str, recipient: str, message: bytes) -> CallResult:
        # Unsound until the transaction has ended well, so a cancelled call leaves nothing to reuse.
        self.sound, self.messages = False, self.messages + 1
        client, body_left = self._client, False
        refused: str | None = "message_refused"
        try:
            if not client.is_connected:
                await client.connect()
            await client.mail(sender)
            refused = "invalid_recipient"
            await client.rcpt(recipient)
            refused = "message_refused"
            reply = await client.execute_command(b"DATA")
            if reply.code == START_INPUT:
                if client.protocol is None:
                    raise SMTPServerDisconnected("Connection lost")
                client.protocol.write(_LINE_STARTING_WITH_DOT.sub(b"..", message) + b".\r\n")
                body_left = True
                reply = await client.protocol.read_response(timeout=self._timeout_seconds)
            code, text = reply.code, reply.message
        except (SMTPConnectResponseError, SMTPHeloError) as error:
            # The server turned the whole connection away, and not this message.
            code, text, refused = error.code, error.message, None
        except SMTPResponseException as error:
            code, text = error.code, error.message
        except (SMTPException, OSError) as error:
            progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
            timed_out = isinstance(error, TimeoutError)
            return AttemptError(
                progress, "timeout" if timed_out else "connection_lost", _short(error)
            )
        result = _interpret(code, text, refused, body_left=body_left)
        # After a reply that made no sense, the next ones could belong to anything: not reused.
        refusal = isinstance(result, Rejected)
        self.sound = isinstance(result, Accepted) or (refusal and await self._reset(code))
        return result

    async def _reset(self, code: int) -> bool:
        """Clear the refused transaction, so that the next message can use this connection."""
        if code == CLOSING or not self._client.is_connected:
            return False
        with suppress(SMTPException, OSError):
            await self._client.rset()
            return True
        return False

    async def close(self) -> None:
        if self.alive:
            with suppress(SMTPException, OSError):
                await self._client.quit()
        self._client.close()


class _Lines:
    """The pool: at most so many connections, the latest used first, each for so many messages."""

    def __init__(
        self, host: str, port: int, connections: int, messages: int, timeout_seconds: float
    ) -> None:
        self._host, self._port = host, port
        self._messages, self._timeout_seconds = messages, timeout_seconds
        self._free = asyncio.Semaphore(connections)
        self._idle: list[_Line] = []

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[_Line]:
        async with asyncio.timeout(self._timeout_seconds):
            await self._free.acquire()
        line = self._idle_line() or _Line(self._host, self._port, self._timeout_seconds)
        try:
            yield line
        finally:
            try:
                if line.alive and line.messages < self._messages:
                    self._idle.append(line)
                else:
                    await line.close()
            finally:
                self._free.release()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for line in idle:
            await line.close()

    def _idle_line(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.alive:
                return line
        return None


def _interpret(code: int, text: str, refused: str | None, *, body_left: bool) -> CallResult:
    detail = f"{code} {text}"[:ERROR_DETAIL_MAX_CHARACTERS]
    match code // 100:
        case 2 if body_left:
            return Accepted(text[:ERROR_DETAIL_MAX_CHARACTERS] or None)
        case 4:
            return Rejected("temporary_failure", detail)
        case 5 if refused is not None:
            return Rejected(refused, detail)
        case _:
            # Such a reply does not say what became of the message.
            progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
            return AttemptError(progress, "invalid_answer", detail)


def _parse(gateway_url: str) -> tuple[str, int]:
    try:
        url = urlsplit(gateway_url)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise InvalidInput(f"'{gateway_url}' is not a URL: {error}") from error
    if url.scheme != "smtp" or not host:
        raise InvalidInput(f"'{gateway_url}' is not an SMTP URL", hint="use smtp://host:port")
    return host, port or SMTP_PORT


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:ERROR_DETAIL_MAX_CHARACTERS]


FAMILY = Family(SMTP, lambda target: SmtpGateway(target.url, sender=target.mail_from))
