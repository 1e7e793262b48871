"""What one provider is to the simulator: how it reads a request, words its answers, reports on a
message and shows it later.

Each new provider is one file in `simulators/` with a `SIMULATOR`; the table is in its `__init__`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec

from outrider.domain.call_results import DUPLICATE_REFERENCE
from outrider.domain.receipts import ReceiptEvent
from outrider.gateways.sandbox_files import ReceivedFile
from outrider.limits.gateways import SANDBOX_BODY_MAX_BYTES

Headers = Mapping[str, str]
Query = Mapping[str, str]
AUTHORIZATION = "Authorization"
Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DUPLICATE_REFERENCE = DUPLICATE_REFERENCE
    OTHER_REQUEST = "other_request"
    """Under a reference that belongs to a request with another body."""
    DROPPED = "dropped"
    THROTTLED = "throttled"


class Reply(NamedTuple):
    document: object
    """None: an empty body."""
    status: int = 200
    headers: Headers | None = None


class Received(NamedTuple):
    """A request as the provider understood it; `refusal` if it is refused."""

    reference: str
    to: str
    refusal: Reply | None = None
    files: Sequence[ReceivedFile] = ()


@dataclass(frozen=True, slots=True)
class Provider:
    protocol: str
    path: str
    dedupes: bool
    read: Callable[[Headers, bytes], Received]
    reply: Callable[[Outcome, str, int], Reply]
    """The answer for an outcome, given the reference and the number of the request."""
    scheme: str = ""
    """The authorisation it requires."""
    body_max_bytes: int = SANDBOX_BODY_MAX_BYTES
    credential: str = AUTHORIZATION
    """The header that carries it."""
    compares: bool = False
    """A repeat under a known reference is refused unless its body is the same to the byte."""


@dataclass(frozen=True, slots=True)
class Harmless:
    """A call of `outrider check` that is not a message: it is answered and not counted."""

    method: str
    path: str
    document: object = None
    scheme: str = ""
    credential: str = AUTHORIZATION


@dataclass(frozen=True, slots=True)
class Kept:
    """A message as its provider keeps it."""

    protocol: str
    reference: str
    message_id: str
    to: str
    at: datetime
    sender: str = ""
    subject: str = ""
    text: str = ""
    html: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """A provider's report on one message; its family decides the format."""

    report_id: str
    event: ReceiptEvent
    reference: str
    message_id: str
    to: str
    at: datetime
    sender: str = ""
    """For a mail, the envelope sender: where its bounces go."""
    text: str = "STOP"


@dataclass(frozen=True, slots=True)
class Post:
    """A request that is ready to be sent."""

    url: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Writer:
    post: Callable[[Sequence[ProviderReport], str, str, datetime], Post]
    """Reports, URL and secret, and when it is signed."""
    events: frozenset[ReceiptEvent]
    batches: bool = False


@dataclass(frozen=True, slots=True)
class Simulator:
    """Everything that the simulator knows of one provider."""

    provider: Provider
    message_id: Callable[[Reply], str]
    """The message's id in the provider's answer."""
    harmless: Sequence[Harmless] = ()
    writer: Writer | None = None
    """None: it reports nothing."""
    keep: Callable[[Kept, bytes], Kept] | None = None
    """Adds what its records show of a message, from the request."""
    listed: Callable[[str, str, Query, bytes, Sequence[Kept]], object | None] | None = None
    """Its answer to a question about what it received, by method, path, query and body, from its
    own messages, newest first; None: this is not such a question."""


def decoded(body: bytes) -> dict[str, Any]:
    """A JSON object; empty if it is none."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def text_of(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
