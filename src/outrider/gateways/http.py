"""What all HTTP families read: a gateway's URL, an answer, and when to retry.

The client itself is in another file, so that listing the families' names loads no HTTP library.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType

from yarl import URL

from outrider.domain.call_results import AttemptError
from outrider.domain.errors import InvalidInput
from outrider.domain.retry import RETRY_AFTER_CAP_SECONDS

QUOTED_MAX_BYTES = 240
HEADERS_KEPT = frozenset({b"x-message-id", b"x-amzn-errortype"})
"""Where a family's provider says in a header what others say in the body."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """A whole HTTP answer, whatever its status says."""

    status: int
    body: bytes
    retry_after_seconds: float | None = None
    location: str | None = None
    date: str | None = None
    """The server's own time, as it says it."""
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """Those of `HEADERS_KEPT` that it has, by their lower-case names."""


def words_of(answer: ReceivedAnswer, *, quoted: bool) -> str:
    """An answer in a few words: its status and, on request, the start of its body."""
    body = " ".join(answer.body[:QUOTED_MAX_BYTES].decode("utf-8", "replace").split())
    if not quoted or not body:
        return f"HTTP {answer.status}"
    return f"HTTP {answer.status}: {body}"


def is_about_certificates(error: AttemptError) -> bool:
    """Whether the server failed certificate verification: a matter of set-up."""
    return error.code == "tls_failure" and "CERTIFICATE" in error.detail.upper()


def base_url(text: str) -> URL:
    """A gateway's URL, or every reason why it is unusable, before any call is made."""
    try:
        url = URL(text)
    except ValueError as error:
        raise InvalidInput(f"'{text}' is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidInput(f"'{text}' is not an HTTP URL", hint="use http://host or https://host")
    return url


def retry_after_seconds(header: str, now: datetime) -> float | None:
    """Seconds, or the seconds until an HTTP date; None if it is neither."""
    header = header.strip()
    if header.isascii() and header.isdecimal():
        return min(float(header), RETRY_AFTER_CAP_SECONDS)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_CAP_SECONDS)
