"""Connections to a mail server: opened to a judged address, encrypted, logged in, and reused.

The steps before the body (TLS, AUTH, MAIL, RCPT, DATA) can fail without harm. Once the body is
handed over only a reply tells what became of it.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic

from aiosmtplib import SMTP as Client
from aiosmtplib import (
    SMTPConnectResponseError,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from outrider.domain.addresses import needs_smtputf8
from outrider.domain.submission import (
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.gateways.address_guard import AddressRefused, connect
from outrider.settings import (
    ERROR_DETAIL_MAX_CHARACTERS,
    SMTP_IDLE_SECONDS,
    SMTP_TIMEOUT_SECONDS,
)

START_INPUT, CLOSING = 354, 421
MESSAGE_REFUSED, RECIPIENT_REFUSED = "message_refused", "invalid_recipient"
NO_SMTPUTF8 = "the address has letters beyond ASCII, and the mail server offers no SMTPUTF8"
SYSTEM_CODES = ("4.3.", "4.4.", "4.5.")
"""Enhanced codes (RFC 3463) of the system, the network and the protocol: of nobody's mailbox."""

_ENHANCED_CODE = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")


@dataclass(frozen=True, slots=True)
class Login:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where the server is and how much is asked of the line to it; no `tls` is never encrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    tls_from_start: bool = False
    tls_required: bool = False
    login: Login | None = None
    allow_private: bool = True
    timeout_seconds: float = SMTP_TIMEOUT_SECONDS


class Line:
    """One connection to the server, opened when first used and reused while it is sound."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._client = _client(server)
        self._is_spent = False
        self.messages = 0
        self.sound = True
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        return self.sound and self._client.is_connected

    async def deliver(
        self, sender: str, recipient: str, message: bytes, begin: Callable[[], bool]
    ) -> CallResult:
        was_used_before = self._client.is_connected
        result = await self._deliver(sender, recipient, message, begin)
        if was_used_before and self._is_spent:
            # The server had enough of that connection, which says nothing of a new one.
            self._client.close()
            self._client, self.messages = _client(self._server), 0
            result = await self._deliver(sender, recipient, message, begin)
        return result

    async def _deliver(
        self, sender: str, recipient: str, message: bytes, begin: Callable[[], bool]
    ) -> CallResult:
        self._is_spent = False
        # Unsound until the transaction has ended well, so a cancelled call leaves nothing to reuse.
        self.sound, self.messages = False, self.messages + 1
        client, body_left = self._client, False
        if not client.is_connected and (failure := await self._open()) is not None:
            return failure
        if not begin():
            self.sound = True
            return NotBegun("withheld")
        refused = MESSAGE_REFUSED
        try:
            if needs_smtputf8(recipient):
                if not await self._takes_smtputf8():
                    self.sound = True
                    return Rejected(RECIPIENT_REFUSED, NO_SMTPUTF8)
                await client.mail(sender, options=["SMTPUTF8"], encoding="utf-8")
            else:
                await client.mail(sender)
            refused = RECIPIENT_REFUSED
            await client.rcpt(recipient, encoding="utf-8")
            refused = MESSAGE_REFUSED
            reply = await client.execute_command(b"DATA")
            if reply.code == START_INPUT:
                if client.protocol is None:
                    raise SMTPServerDisconnected("Connection lost")
                if not begin():
                    # Frozen or stopped since: others may have dealt with the item meanwhile. The
                    # connection is not reused, and without its body there is no message.
                    return NotBegun("withheld")
                # A line that is a dot ends the message; the first one is a header.
                client.protocol.write(message.replace(b"\n.", b"\n..") + b".\r\n")
                body_left = True
                reply = await client.protocol.read_response(timeout=self._server.timeout_seconds)
            code, text = reply.code, reply.message
        except SMTPResponseException as error:
            code, text = error.code, error.message
        except (SMTPException, OSError) as error:
            self._is_spent = not body_left and not isinstance(error, TimeoutError)
            progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
            return AttemptError(progress, _code(error), short(error))
        self._is_spent = code == CLOSING and not body_left
        result = _interpret(code, self._redacted(text), refused, body_left=body_left)
        # After a reply that made no sense, the next ones could belong to anything: not reused.
        refusal = isinstance(result, Rejected | Throttled)
        self.sound = isinstance(result, Accepted) or (refusal and await self._reset(code))
        return result

    async def _takes_smtputf8(self) -> bool:
        if self._client.is_ehlo_or_helo_needed:
            with suppress(SMTPHeloError):
                await self._client.ehlo()
        return self._client.supports_extension("smtputf8")

    async def close(self) -> None:
        if self.alive:
            with suppress(SMTPException, OSError):
                await self._client.quit()
        self._client.close()

    async def _open(self) -> CallResult | None:
        """Connect, encrypt and log in; what fails here fails before any message."""
        server = self._server
        try:
            async with asyncio.timeout(server.timeout_seconds):
                line = await connect(server.host, server.port, allow_private=server.allow_private)
            await self._client.connect(sock=line)
            if server.tls_required and not self._encrypted:
                return _not_sent("tls_required", "the server does not offer STARTTLS")
            return await self._log_in(server.login) if server.login is not None else None
        except AddressRefused as error:
            return _not_sent("address_refused", short(error))
        except (SMTPConnectResponseError, SMTPHeloError) as error:
            # The server turned the whole connection away, and not this message.
            return _interpret(error.code, error.message, None, body_left=False)
        except SMTPResponseException as error:
            # Only STARTTLS is left: it was offered, and refused when it was asked for.
            return _not_sent("tls_failure", f"{error.code} {error.message}")
        except (SMTPException, OSError) as error:
            return _not_sent(_code(error), short(error))

    async def _log_in(self, login: Login) -> AttemptError | None:
        if not (self._encrypted or self._stays_on_this_host):
            return _not_sent("tls_required", "a password is not sent over a line without TLS")
        try:
            await self._client.login(login.username, login.password)
        except SMTPResponseException as error:
            # Only the numbers: some servers repeat what they were told.
            enhanced = _ENHANCED_CODE.match(error.message)
            return _not_sent("auth_failed", f"{error.code} {enhanced[0] if enhanced else ''}")
        except (SMTPServerDisconnected, TimeoutError):
            raise
        except SMTPException:
            return _not_sent("auth_failed", "the server offers no AUTH method known here")
        return None

    @property
    def _encrypted(self) -> bool:
        return self._client.get_transport_info("sslcontext") is not None

    @property
    def _stays_on_this_host(self) -> bool:
        peer: str = self._client.get_transport_info("peername")[0]
        return ipaddress.ip_address(peer.partition("%")[0]).is_loopback

    def _redacted(self, text: str) -> str:
        """What a server says is written down, so what it was told in confidence is cut out."""
        login = self._server.login
        return text if login is None else text.replace(login.password, "[redacted]")

    async def _reset(self, code: int) -> bool:
        """Clear the refused transaction, so that the next message can use this connection."""
        if code == CLOSING or not self._client.is_connected:
            return False
        with suppress(SMTPException, OSError):
            await self._client.rset()
            return True
        return False


def _client(server: MailServer) -> Client:
    return Client(
        hostname=server.host,
        # The library would look up its own name in DNS for every connection.
        local_hostname=socket.gethostname(),
        timeout=server.timeout_seconds,
        use_tls=server.tls_from_start,
        # Encrypts where the server offers it; afterwards we look whether it has.
        start_tls=False if server.tls is None or server.tls_from_start else None,
        tls_context=server.tls,
    )


class Lines:
    """The pool: at most so many connections, the latest used first, each for so many messages."""

    def __init__(self, server: MailServer, connections: int, messages: int) -> None:
        self._server = server
        self._messages = messages
        self._free = asyncio.Semaphore(connections)
        self._idle: list[Line] = []
        self._sweeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Line]:
        async with asyncio.timeout(self._server.timeout_seconds):
            await self._free.acquire()
        line = self._idle_line() or Line(self._server)
        try:
            yield line
        finally:
            try:
                if line.alive and line.messages < self._messages:
                    line.idle_since = monotonic()
                    self._idle.append(line)
                    self._sweep_later()
                else:
                    await line.close()
            finally:
                self._free.release()

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self.trim(0)

    def _sweep_later(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Nobody else can have a connection that idles here, where a server takes only so many."""
        while self._idle:
            await asyncio.sleep(SMTP_IDLE_SECONDS)
            while self._idle and monotonic() - self._idle[0].idle_since >= SMTP_IDLE_SECONDS:
                await self._idle.pop(0).close()

    async def trim(self, connections: int) -> None:
        """The server counts idle connections too."""
        while len(self._idle) > max(connections, 0):
            await self._idle.pop(0).close()

    def _idle_line(self) -> Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.alive:
                return line
        return None


def short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:ERROR_DETAIL_MAX_CHARACTERS]


def _not_sent(code: str, detail: str) -> AttemptError:
    return AttemptError(Progress.NOT_SENT, code, detail.strip()[:ERROR_DETAIL_MAX_CHARACTERS])


def _code(error: Exception) -> str:
    # The library wraps what went wrong with an encrypted connection from the start.
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "tls_failure"
    if isinstance(error, socket.gaierror):
        return "dns_failure"
    return "timeout" if isinstance(error, TimeoutError) else "connection_lost"


def _throttled(code: int, text: str, detail: str, refused: str | None) -> Throttled:
    """The server took nothing and says to come back later. What it says of one recipient, as a
    greylist does, is about that recipient: the others may go on."""
    about_the_recipient = refused == RECIPIENT_REFUSED and code != CLOSING
    if about_the_recipient and not text.startswith(SYSTEM_CODES):
        return Throttled(detail, closes=Closes.THE_ITEM)
    return Throttled(detail)


def _interpret(code: int, text: str, refused: str | None, *, body_left: bool) -> CallResult:
    detail = f"{code} {text}"[:ERROR_DETAIL_MAX_CHARACTERS]
    match code // 100:
        case 2 if body_left:
            return Accepted(text[:ERROR_DETAIL_MAX_CHARACTERS] or None)
        case 4:
            return _throttled(code, text, detail, refused)
        case 5 if refused is not None:
            return Rejected(refused, detail)
        case _:
            # Such a reply does not say what became of the message.
            progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
            return AttemptError(progress, "invalid_answer", detail)
