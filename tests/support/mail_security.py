"""A real mail server with TLS and AUTH (aiosmtpd), and a throw-away certificate for it."""

import asyncio
import base64
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USERNAME = "courier"


@dataclass(slots=True)
class Mailroom:
    """Remembers what arrived and how; `password` is the one it lets in."""

    password: str = "open sesame"
    messages: list[Message] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    connections: int = 0

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        self.messages.append(BytesParser().parsebytes(envelope.original_content or b""))
        self.envelopes.append(envelope)
        self.encrypted.append(session.ssl is not None)
        return "250 queued"

    def let_in(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        if data.password.decode() == self.password:
            return AuthResult(success=True)
        # As unkind as a server can be: it repeats the password, plain and as it was sent.
        shown = f"{data.password.decode()} {base64.b64encode(data.password).decode()}"
        return AuthResult(success=False, handled=False, message=f"535 5.7.8 not {shown}")


@asynccontextmanager
async def mail_serving(
    mailroom: Mailroom,
    tls: ssl.SSLContext | None = None,
    *,
    from_start: bool = False,
    auth_needs_tls: bool = True,
    smtputf8: bool = False,
) -> AsyncIterator[int]:
    """The port of a server that offers STARTTLS where it has a context, or TLS from the start."""
    sessions: set[SMTP] = set()

    def accept() -> SMTP:
        mailroom.connections += 1
        session = SMTP(
            mailroom,
            hostname="mail.test",
            tls_context=None if from_start else tls,
            authenticator=mailroom.let_in,
            auth_require_tls=auth_needs_tls and not from_start,
            enable_SMTPUTF8=smtputf8,
        )
        sessions.add(session)
        return session

    server = await asyncio.get_running_loop().create_server(
        accept, "127.0.0.1", 0, ssl=tls if from_start else None
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for session in sessions:
            conversation = session._handler_coroutine
            if session.transport is not None:
                session.transport.close()
            if conversation is not None:
                await asyncio.wait([conversation], timeout=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Self-signed: the certificate is its own authority."""

    file: Path
    context: ssl.SSLContext


def certificate(folder: Path, names: str = "IP:127.0.0.1,DNS:localhost") -> Certificate:
    key, file = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=outrider-test"
    subprocess.run(
        [*command.split(), "-addext", f"subjectAltName={names}", "-keyout", key, "-out", file],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return Certificate(file, context)
