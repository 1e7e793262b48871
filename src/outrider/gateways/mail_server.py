"""A mail server and what is asked of the line to it: address, TLS, login, patience; and a mail."""

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
    """One message for one recipient; `sender` is the envelope's."""

    sender: str
    recipient: str
    message: bytes
    reference: str


class Login:
    """A name and its password, which may be another one by the next connection."""

    def __init__(self, username: str, password: str, read: Callable[[], str] | None = None) -> None:
        """`read` is where the password comes from, if it can be asked again."""
        self.username = username
        self.password = password
        self._read = read

    def is_new_since(self, refused: str | None) -> bool:
        """Whether the password, read again, is another one than what was refused."""
        if self._read is not None:
            # A file caught in the middle of its rotation: the next refusal asks again.
            with suppress(OutriderError, ValueError):
                self.password = self._read()
        return self.password != refused


@dataclass(frozen=True, slots=True)
class Waits:
    """How long each step of a delivery may take, as RFC 5321 (4.5.3.2) has it."""

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
        """A target's own timeout is for every step."""
        return cls() if seconds is None else cls(*(seconds,) * 9)


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
    waits: Waits = Waits()
    helo: str | None = None
    suspicions: Suspicions = field(default_factory=Suspicions, compare=False)
