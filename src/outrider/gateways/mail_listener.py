"""A mail server for bounces alone, speaking SMTP or LMTP: `250` only when a receipt is durable.

Its clients are mail servers, which retry when deferred, so nothing is lost while the inbox cannot
be written. Unknown addresses are refused at RCPT, before any of the message is read.
"""

import asyncio
from types import TracebackType
from typing import Self

import structlog
from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from outrider.gateways.mail_receiver import MailOutcome, MailReceiver
from outrider.gateways.smtp_sessions import TrackedSession
from outrider.limits.gateways import (
    MAIL_RECEIVED_MAX_BYTES,
    MAIL_RECIPIENTS_MAX,
    MAIL_SESSION_IDLE_SECONDS,
    MAIL_SESSIONS_MAX,
)

log = structlog.get_logger()

TAKEN = "250 2.0.0 taken"
NOT_OURS = "550 5.7.1 nothing in this message shows that it is about one of ours"
NOBODY = "550 5.1.1 no such mailbox"
TOO_MANY = "452 4.5.3 too many recipients"
LATER = "451 4.3.0 not now, please try again"
BUSY = b"421 4.3.2 too many connections, please try again\r\n"


class MailListener:
    """`async with MailListener(receiver) as listener:` serves `listener.host` and `.port`."""

    def __init__(
        self,
        receiver: MailReceiver,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        lmtp: bool = False,
        sessions: int = MAIL_SESSIONS_MAX,
    ) -> None:
        self.host, self.port = host, port
        self.receiver = receiver
        self.open_sessions: set[_ListenerSession] = set()
        self._kind: type[_ListenerSession] = _LmtpSession if lmtp else _SmtpSession
        self._sessions = sessions
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def session() -> asyncio.BaseProtocol:
            if len(self.open_sessions) >= self._sessions:
                return _Busy()
            return self._kind(self, loop)

        self._server = await loop.create_server(session, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await asyncio.gather(*(session.hang_up() for session in list(self.open_sessions)))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class _Busy(asyncio.Protocol):
    """The only reply to a client beyond the connection limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(BUSY)
        transport.close()


class _ListenerSession(TrackedSession):
    """One connection, which ends when the listener stops."""

    answers_each_recipient = False

    def __init__(self, listener: MailListener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            listener.open_sessions,
            _Mailroom(listener.receiver, self.answers_each_recipient),
            hostname="outrider",
            ident="Outrider",
            data_size_limit=MAIL_RECEIVED_MAX_BYTES,
            timeout=MAIL_SESSION_IDLE_SECONDS,
            enable_SMTPUTF8=True,
            loop=loop,
        )


class _SmtpSession(_ListenerSession):
    pass


class _LmtpSession(_ListenerSession, LMTP):
    """RFC 2033: after the message there is a reply for each recipient."""

    answers_each_recipient = True


class _Mailroom:
    """What is answered to RCPT and to a whole mail."""

    def __init__(self, receiver: MailReceiver, answers_each_recipient: bool) -> None:
        self._receiver = receiver
        self._answers_each_recipient = answers_each_recipient

    async def handle_RCPT(
        self,
        _server: SMTP,
        _session: Session,
        envelope: Envelope,
        address: str,
        _options: list[str],
    ) -> str:
        if len(envelope.rcpt_tos) >= MAIL_RECIPIENTS_MAX:
            return TOO_MANY
        if not self._receiver.knows(address):
            return NOBODY
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        raw = envelope.original_content or b""
        replies = [await self._reply(address, raw) for address in envelope.rcpt_tos]
        if self._answers_each_recipient:
            return "\r\n".join(replies)
        # One reply for all: if any part must be retried, the whole mail is, and receipts already
        # taken are then recognised by their id.
        for worst in (LATER, TAKEN):
            if worst in replies:
                return worst
        return NOT_OURS

    async def _reply(self, address: str, raw: bytes) -> str:
        try:
            outcome = await self._receiver.take([address], raw)
        except Exception as error:
            # Whatever it is, the sender keeps the mail and retries.
            log.warning("bounce_not_taken", error=type(error).__name__, detail=str(error)[:300])
            return LATER
        return TAKEN if outcome is MailOutcome.TAKEN else NOT_OURS
