"""A mail server's settings: address, TLS, login, timeouts; and a mail."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.domain.errors import OutriderError
from outrider.gateways.smtp_suspicions import Suspicions
from outrider.limits.gateways import (
    SMTP_BLOCK_SECONDS,
    SMTP_CONNECT_SECONDS,
    SMTP_DATA_SECONDS,
    SMTP_END_SECONDS,
    SMTP_GREETING_SECONDS,
    SMTP_HELLO_SECONDS,
    SMTP_MAIL_SECONDS,
    SMTP_POOL_SECONDS,
    SMTP_RCPT_SECONDS,
)


class Mail(NamedTuple):
    """One message for one recipient; `sender` is the envelope sender."""

    sender: str
    recipient: str
    message: bytes
    reference: str


class Login:
    """A user name and its password, which may change between connections."""

    def __init__(self, username: str, password: str, read: Callable[[], str] | None = None) -> None:
        """`read` re-reads the password from its source, if it has one."""
        self.username = username
        self.password = password
        self._read = read

    def is_new_since(self, refused: str | None) -> bool:
        """Whether the password, read again, differs from the refused one."""
        if self._read is not None:
            # The file is being rotated: the next refusal reads it again.
            with suppress(OutriderError, ValueError):
                self.password = self._read()
        return self.password != refused


@dataclass(frozen=True, slots=True)
class Waits:
    """How long each step of a delivery may take, per RFC 5321 (4.5.3.2)."""

    connect: float = SMTP_CONNECT_SECONDS
    greeting: float = SMTP_GREETING_SECONDS
    hello: float = SMTP_HELLO_SECONDS
    mail: float = SMTP_MAIL_SECONDS
    rcpt: float = SMTP_RCPT_SECONDS
    data: float = SMTP_DATA_SECONDS
    block: float = SMTP_BLOCK_SECONDS
    end: float = SMTP_END_SECONDS
    pool: float = SMTP_POOL_SECONDS

    @classmethod
    def of(cls, seconds: float | None) -> "Waits":
        """A target's own timeout applies to every step."""
        return cls() if seconds is None else cls(*(seconds,) * 9)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server's address and the security required of the connection; no `tls` means
    unencrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    tls_from_start: bool = False
    tls_required: bool = False
    login: Login | None = None
    allow_private: bool = True
    waits: Waits = Waits()
    helo: str | None = None
    suspicions: Suspicions = field(default_factory=Suspicions, compare=False)
