"""The receipts port: a provider's callback goes in, receipts in our own terms come out.

A reader belongs to one submission target of one workspace. It checks the provider's signature with
that target's credential and trusts nothing that it has not verified.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from outrider.domain.receipts import Receipt


@dataclass(frozen=True, slots=True)
class Callback:
    """A request as received, before any of it is trusted."""

    method: str
    url: str
    """As the provider called it: public address, path and query, since some providers sign it."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class RefusedFor(StrEnum):
    UNSIGNED = "unsigned"
    FORGED = "forged"
    STALE = "stale"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """MALFORMED is 400 and the others 401. The detail is for the provider's operator: it never
    reveals the correct signature."""

    why: RefusedFor
    detail: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """A subscription handshake, to be answered with this text; nothing is written."""

    answer: str


@dataclass(frozen=True, slots=True)
class Verified:
    receipts: Sequence[Receipt]
    """May be empty: an event that is not about a message, such as a webhook's own test."""
    answer: str = ""
    """What the provider expects as the body of its 200, if anything."""
    content_type: str = "application/json"


class ReceiptReader(Protocol):
    async def prepare(self, callback: Callback, now: datetime) -> None:
        """Fetches what the provider's signature needs, such as a certificate, before it is read.

        Never raises; what is missing is refused by `read`.
        """
        ...

    def read(self, callback: Callback, now: datetime) -> Verified | Challenge | Refusal:
        """Never raises for what a callback contains."""
        ...


class ReceiptReaders(Protocol):
    """Finds the reader of a target; a family without reports has none."""

    def reader(self, workspace: str, submission_target: str) -> ReceiptReader | None: ...


class ReceiptInbox(Protocol):
    """Accepts receipts that did not come through the server, such as a mail server's bounces."""

    async def take(
        self, workspace: str, submission_target: str, receipts: Sequence[Receipt]
    ) -> None:
        """Returns when they are durable; acknowledge them to their source only then.

        `workspace` is TENANT/PROJECT/ENVIRONMENT. A known receipt changes nothing.
        """
        ...
