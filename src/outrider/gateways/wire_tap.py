"""One message's request and answer as they went over the wire, with everything secret masked: for
the first contact with a provider.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from outrider.domain.call_results import AttemptError
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_connection import Raw
from outrider.limits.gateways import WIRE_TAP_MAX_CHARACTERS

MASK: Final = "****"
SHOWN: Final = frozenset(
    {
        "accept", "accept-encoding", "apns-collapse-id", "apns-expiration", "apns-id",
        "apns-priority", "apns-push-type", "apns-topic", "content-length", "content-type", "host",
        "idempotency-key", "user-agent", "x-amz-date", "x-outrider-reference",
    }
)  # fmt: skip
"""Headers that hold nothing secret; of all others only the names are shown."""


@dataclass(frozen=True, slots=True)
class Exchange:
    line: str
    headers: dict[str, str]
    body: str
    status: int | None
    """None: nothing came back that is HTTP."""
    answer: str


@dataclass(slots=True)
class WireTap:
    """Keeps the last exchange about one message."""

    marks: tuple[str, ...]
    """Any of these in a request means that it is the one: our reference, or words of the text."""
    secrets: Callable[[], Iterable[str]] = field(repr=False)
    """Asked for every exchange: some are only known once the gateway has signed in."""
    seen: Exchange | None = None

    def __call__(self, request: bytes, answer: Raw | ReceivedAnswer | AttemptError) -> None:
        if not any(mark.encode() in request for mark in self.marks):
            return
        head, _, body = request.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(each.split(": ", 1) for each in lines)
        if isinstance(answer, AttemptError):
            status, said = None, f"{answer.code}: {answer.detail}".encode()
        else:
            status, said = answer.status, answer.body
        self.seen = Exchange(
            self._masked(line),
            {name: self._shown(name, value) for name, value in headers.items()},
            self._text(body),
            status,
            self._text(said),
        )

    def _shown(self, name: str, value: str) -> str:
        if name.lower() in SHOWN:
            return self._masked(value)
        scheme, blank, _ = value.partition(" ")
        return f"{scheme} {MASK}" if name.lower() == "authorization" and blank else MASK

    def _text(self, content: bytes) -> str:
        text = self._masked(content.decode("utf-8", "replace"))
        if len(text) > WIRE_TAP_MAX_CHARACTERS:
            return f"{text[:WIRE_TAP_MAX_CHARACTERS]}…"
        return text

    def _masked(self, text: str) -> str:
        for secret in self.secrets():
            for form in (secret, quote(secret, safe="")):
                text = text.replace(form, MASK)
        return text
