"""One connection to a mail server: opened to a checked address, encrypted, logged in, and reused.

The steps before the body (TLS, AUTH, MAIL, RCPT, DATA) can fail without harm. Once the body is
handed over, only a reply says what happened to it.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiosmtplib import SMTP as Client
from aiosmtplib import (
    SMTPConnectResponseError,
    SMTPException,
    SMTPHeloError,
    SMTPResponse,
    SMTPResponseException,
    SMTPServerDisconnected,
)
from aiosmtplib.protocol import SMTPProtocol

from outrider.domain.addresses import needs_smtputf8
from outrider.domain.call_results import (
    UNAUTHORIZED,
    Accepted,
    AttemptError,
    CallResult,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.own_limits import OWN_LIMIT, is_own_limit
from outrider.gateways.address_guard import AddressRefused, connect
from outrider.gateways.failure_words import why
from outrider.gateways.helo_name import own_name
from outrider.gateways.mail_server import Login, Mail, MailServer
from outrider.gateways.smtp_answers import (
    CLOSING,
    ENHANCED_CODE,
    START_INPUT,
    TLS_FAILURE,
    Step,
    judged,
)
from outrider.gateways.smtp_pipeline import Introduced, introduce
from outrider.limits.gateways import (
    ERROR_DETAIL_MAX_CHARACTERS,
    SMTP_FAREWELL_SECONDS,
)

RECIPIENT_REFUSED = "invalid_recipient"
NO_SMTPUTF8 = "the address has non-ASCII characters, and the mail server does not offer SMTPUTF8"


class SmtpConnection:
    """One connection to the server, opened on first use and reused while it is sound."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._client = _client(server)
        self._is_spent = False
        self._password_used: str | None = None
        self.messages = 0
        self.sound = True
        self.idle_since = 0.0

    @property
    def alive(self) -> bool:
        return self.sound and self._client.is_connected

    async def deliver(self, mail: Mail, begin: Callable[[], bool]) -> CallResult:
        was_used_before = self._client.is_connected
        result = await self._deliver(mail, begin)
        # The server ended that connection, which says nothing about a new one; or our password has
        # changed since.
        is_worth_another = was_used_before and self._is_spent
        if is_worth_another or (_is_unauthorized(result) and self._has_new_password()):
            self._client.close()
            self._client, self.messages = _client(self._server), 0
            result = await self._deliver(mail, begin)
        return result

    async def _deliver(self, mail: Mail, begin: Callable[[], bool]) -> CallResult:
        self._is_spent = False
        # Unsound until the transaction has ended well, so a cancelled call leaves nothing to reuse.
        self.sound, self.messages = False, self.messages + 1
        client, body_left = self._client, False
        if not client.is_connected and (failure := await self._open()) is not None:
            return failure
        if not begin():
            self.sound = True
            return NotBegun("withheld")
        try:
            options = await self._mail_options(mail)
            if options is None:
                self.sound = True
                return Rejected(RECIPIENT_REFUSED, NO_SMTPUTF8)
            step, reply, in_step = await self._introduce(mail, options)
            if step is Step.DATA and reply.code == START_INPUT:
                if client.protocol is None or not in_step:
                    raise SMTPServerDisconnected("Connection lost")
                if not begin():
                    # Frozen or stopped since: another worker may have handled the item. The
                    # connection is not reused, and without its body there is no message.
                    return NotBegun("withheld")
                # A line with only a dot ends the message; the first line is a header.
                client.protocol.write(mail.message.replace(b"\n.", b"\n..") + b".\r\n")
                body_left, step = True, Step.END
                reply = await self._end_of_data(client.protocol)
            code, text = reply.code, reply.message
        except SMTPResponseException as error:
            # Not a reply at all; what is refused has been returned.
            step = Step.END if body_left else Step.MAIL
            code, text, in_step = error.code, error.message, False
        except (SMTPException, OSError) as error:
            self._is_spent = not body_left and not isinstance(error, TimeoutError)
            progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
            return AttemptError(progress, _code(error), short(error))
        self._is_spent = code == CLOSING and not body_left
        result = judged(
            step, code, self._redacted(text), mail.reference, self._server.suspicions,
            body_left=body_left,
        )  # fmt: skip
        # After a nonsensical reply, later ones could belong to anything: not reused.
        refusal = isinstance(result, Rejected | Throttled | Held)
        self.sound = isinstance(result, Accepted) or (
            refusal and in_step and await self._reset(code)
        )
        return result

    async def _introduce(self, mail: Mail, options: list[str]) -> Introduced:
        """Sender, recipient and DATA: in one write if the server offers that."""
        client = self._client
        transport, protocol = client.transport, client.protocol
        if client.supports_extension("pipelining") and transport and protocol:
            sender = " ".join((f"MAIL FROM:<{mail.sender}>", *options))
            group = f"{sender}\r\nRCPT TO:<{mail.recipient}>\r\nDATA\r\n".encode()
            return await introduce(
                cast(asyncio.Transport, transport), protocol, group, self._server.waits
            )
        return await self._introduce_step_by_step(mail, options)

    async def _introduce_step_by_step(self, mail: Mail, options: list[str]) -> Introduced:
        client, waits, step = self._client, self._server.waits, Step.MAIL
        try:
            await client.mail(mail.sender, options=options, encoding="utf-8", timeout=waits.mail)
            step = Step.RCPT
            await client.rcpt(mail.recipient, encoding="utf-8", timeout=waits.rcpt)
        except SMTPResponseException as error:
            return Introduced(step, SMTPResponse(error.code, error.message))
        return Introduced(Step.DATA, await client.execute_command(b"DATA", timeout=waits.data))

    async def _mail_options(self, mail: Mail) -> list[str] | None:
        """None if only a server with another extension could take this message."""
        options = []
        if self._client.supports_extension("size"):
            # Too large is then said before the message is sent.
            options.append(f"SIZE={len(mail.message)}")
        if needs_smtputf8(mail.recipient):
            if not await self._takes_smtputf8():
                return None
            options += ["SMTPUTF8", "BODY=8BITMIME"]
        return options

    async def _end_of_data(self, protocol: SMTPProtocol) -> SMTPResponse:
        """A large message is sent as fast as its server reads; then the server has a long time to
        answer."""
        waits = self._server.waits
        async with asyncio.timeout(waits.block):
            await protocol._drain_helper()
        return await protocol.read_response(timeout=waits.end)

    async def _takes_smtputf8(self) -> bool:
        if self._client.is_ehlo_or_helo_needed:
            with suppress(SMTPHeloError):
                await self._client.ehlo()
        return self._client.supports_extension("smtputf8")

    async def close(self) -> None:
        if self.alive:
            with suppress(SMTPException, OSError):
                await self._client.quit(timeout=SMTP_FAREWELL_SECONDS)
        self._client.close()

    async def _open(self) -> CallResult | None:
        """Connect, say hello, encrypt and log in; a failure here comes before any message."""
        server, client = self._server, self._client
        try:
            async with asyncio.timeout(server.waits.connect):
                line = await connect(server.host, server.port, allow_private=server.allow_private)
            client.local_hostname = server.helo or await own_name(line)
            await client.connect(sock=line, timeout=server.waits.greeting)
            if server.tls_required and not self._encrypted:
                return Held("tls_required", "the server does not offer STARTTLS")
            await self._say_hello()
            return await self._log_in(server.login) if server.login is not None else None
        except AddressRefused as error:
            return _not_sent("address_refused", short(error))
        except SMTPConnectResponseError as error:
            return self._turned_away(Step.GREETING, error)
        except SMTPHeloError as error:
            return self._turned_away(Step.HELLO, error)
        except SMTPResponseException as error:
            # Only STARTTLS is left: it was offered, then refused.
            return self._turned_away(Step.TLS, error)
        except (SMTPException, OSError) as error:
            if _is_certificate(error):
                return Held(TLS_FAILURE, short(error))
            return _not_sent(_code(error), short(error))

    def _turned_away(self, step: Step, error: SMTPResponseException) -> CallResult:
        """The server turned away the whole connection, not this message."""
        self._client.close()
        return judged(step, error.code, error.message, "", self._server.suspicions, body_left=False)

    async def _say_hello(self) -> None:
        if not self._client.is_ehlo_or_helo_needed:
            return
        try:
            await self._client.ehlo()
        except SMTPHeloError:
            if not self._client.is_connected:
                raise
            await self._client.helo()

    async def _log_in(self, login: Login) -> CallResult | None:
        if not (self._encrypted or self._stays_on_this_host):
            return Held("tls_required", "a password is not sent over a connection without TLS")
        self._password_used = login.password
        try:
            await self._client.login(login.username, login.password)
        except SMTPResponseException as error:
            # Only the numbers: some servers repeat what they received.
            enhanced = ENHANCED_CODE.match(error.message)
            self._client.close()
            return judged(
                Step.AUTH, error.code, enhanced[0] if enhanced else "", "",
                self._server.suspicions, body_left=False,
            )  # fmt: skip
        except (SMTPServerDisconnected, TimeoutError):
            raise
        except SMTPException:
            return Held(UNAUTHORIZED, "the server offers no supported AUTH method")
        return None

    def _has_new_password(self) -> bool:
        login = self._server.login
        return login is not None and login.is_new_since(self._password_used)

    @property
    def _encrypted(self) -> bool:
        return self._client.get_transport_info("sslcontext") is not None

    @property
    def _stays_on_this_host(self) -> bool:
        peer: str = self._client.get_transport_info("peername")[0]
        return ipaddress.ip_address(peer.partition("%")[0]).is_loopback

    def _redacted(self, text: str) -> str:
        """A server's reply is recorded, so any credentials it repeats are removed."""
        login = self._server.login
        return text if login is None else text.replace(login.password, "[redacted]")

    async def _reset(self, code: int) -> bool:
        """Clear the refused transaction, so that the next message can use this connection."""
        if code == CLOSING or not self._client.is_connected:
            return False
        with suppress(SMTPException, OSError):
            await self._client.rset(timeout=SMTP_FAREWELL_SECONDS)
            return True
        return False


def _client(server: MailServer) -> Client:
    return Client(
        hostname=server.host,
        # Known once connected; the library would look it up in DNS for every connection.
        local_hostname=server.helo or "[127.0.0.1]",
        timeout=server.waits.hello,
        use_tls=server.tls_from_start,
        # Encrypts if the server offers it; afterwards we check whether it did.
        start_tls=False if server.tls is None or server.tls_from_start else None,
        tls_context=server.tls,
    )


def short(error: Exception) -> str:
    return why(error)


def _not_sent(code: str, detail: str) -> AttemptError:
    return AttemptError(Progress.NOT_SENT, code, detail.strip()[:ERROR_DETAIL_MAX_CHARACTERS])


def _code(error: Exception) -> str:
    if is_own_limit(error):
        return OWN_LIMIT
    # The library wraps the errors of a connection that is encrypted from the start.
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "tls_failure"
    if isinstance(error, socket.gaierror):
        return "dns_failure"
    return "timeout" if isinstance(error, TimeoutError) else "connection_lost"


def _is_certificate(error: Exception) -> bool:
    """Whether the server failed certificate verification: a matter of set-up."""
    return any(
        isinstance(each, ssl.SSLCertVerificationError)
        for each in (error, error.__cause__, error.__context__)
    )


def _is_unauthorized(result: CallResult) -> bool:
    return isinstance(result, Held) and result.reason == UNAUTHORIZED
