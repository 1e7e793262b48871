"""What all readers of receipts share: a rotatable secret, the order of the checks, and how
untrusted text is stored.

A callback is trusted only after its signature: size, signature, age, and then its content.
"""

import hashlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from outrider.domain.errors import InvalidInput, OutriderError
from outrider.domain.receipts import Receipt
from outrider.domain.texts import storable
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.family import Target
from outrider.limits.gateways import (
    CREDENTIAL_REREAD_SECONDS,
    RECEIPT_BODY_MAX_BYTES,
    RECEIPT_ID_MAX_CHARACTERS,
    RECEIPT_REASON_MAX_CHARACTERS,
    RECEIPT_SECRET_REREAD_SECONDS,
    RECEIPTS_PER_CALLBACK_MAX,
)
from outrider.ports.receipts import Callback, Challenge, Refusal, RefusedFor, Verified

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

REFUSALS = {
    SignatureState.UNSIGNED: Refusal(RefusedFor.UNSIGNED, "the request is not signed"),
    SignatureState.FORGED: Refusal(
        RefusedFor.FORGED, "the signature does not match this target's secret"
    ),
    SignatureState.STALE: Refusal(
        RefusedFor.STALE, "the timestamp is more than 5 minutes from this server's clock"
    ),
}
TOO_LARGE = Refusal(RefusedFor.MALFORMED, f"the body has more than {RECEIPT_BODY_MAX_BYTES} bytes")
NOT_POSTED = Refusal(RefusedFor.MALFORMED, "receipts are posted")
TOO_MANY = Refusal(
    RefusedFor.MALFORMED, f"the body has more than {RECEIPTS_PER_CALLBACK_MAX} receipts"
)


class Malformed(Exception):
    """A correctly signed callback whose content is not what its provider documents."""


class ReceiptSecret:
    """A target's secret: re-read every minute, and when a signature fails, since it may have been
    rotated. If it lists several, separated by blanks, each is valid."""

    def __init__(
        self,
        target: Target,
        name: str,
        keys: Callable[[str], Sequence[bytes]],
        *,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._name, self._parse, self._seconds = target, name, keys, seconds
        self._keys = list(keys(target.credential(name)))
        self._read_at = seconds()

    def keys(self) -> Sequence[bytes]:
        if self._seconds() - self._read_at >= CREDENTIAL_REREAD_SECONDS:
            self._read_again()
        return self._keys

    def judge(self, check: Callable[[Sequence[bytes]], SignatureState]) -> SignatureState:
        state = check(self.keys())
        if state is not SignatureState.FORGED:
            return state
        if self._seconds() - self._read_at < RECEIPT_SECRET_REREAD_SECONDS:
            return state
        return check(self._keys) if self._read_again() else state

    def _read_again(self) -> bool:
        """Whether it has changed."""
        self._read_at = self._seconds()
        # The file is being rotated: the old one stays valid a little longer.
        with suppress(OutriderError, ValueError):
            keys = list(self._parse(self._target.credential(self._name)))
            if keys != self._keys:
                self._keys = keys
                return True
        return False


def plain_keys(secret: str) -> Sequence[bytes]:
    """A provider's token, used verbatim."""
    keys = [text.encode() for text in secret.split()]
    if not keys:
        raise InvalidInput("a secret that checks receipts is empty")
    return keys


class SignedReader(ABC):
    """Ordered so that nothing costly is done for unauthenticated requests."""

    def __init__(self, secret: ReceiptSecret) -> None:
        self._secret = secret

    @abstractmethod
    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        """Whether these keys verify the request."""

    @abstractmethod
    def receipts(self, callback: Callback) -> Iterable[Receipt]:
        """For a verified request. Malformed, ValueError and msgspec's errors: invalid content."""

    async def prepare(self, callback: Callback, now: datetime) -> None:  # noqa: B027
        """Nothing has to be fetched."""

    def read(self, callback: Callback, now: datetime) -> Verified | Challenge | Refusal:
        if callback.method != "POST":
            return NOT_POSTED
        if len(callback.body) > RECEIPT_BODY_MAX_BYTES:
            return TOO_LARGE
        state = self._secret.judge(lambda keys: self.state(keys, callback, now))
        if state is not SignatureState.GENUINE:
            return REFUSALS[state]
        try:
            found = list(self.receipts(callback))
        except Malformed as error:
            return Refusal(RefusedFor.MALFORMED, str(error))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return Refusal(RefusedFor.MALFORMED, one_line(str(error)))
        if len(found) > RECEIPTS_PER_CALLBACK_MAX:
            return TOO_MANY
        return self.answered(found)

    def answered(self, receipts: Sequence[Receipt]) -> Verified:
        return Verified(receipts)


def one_line(text: str, most: int = RECEIPT_REASON_MAX_CHARACTERS) -> str:
    """Untrusted text on one line, storable in any database."""
    if text.isprintable():
        return text.strip()[:most]
    return (storable(_CONTROL.sub(" ", text).strip()) or "")[:most]


def kept_text(text: str, most: int) -> str:
    """The same for text that may have several lines."""
    if text.isprintable():
        return text.strip()[:most]
    return (storable(text.replace("\r\n", "\n").strip()) or "")[:most]


def derived_id(*parts: str) -> str:
    """An id for a report that has none: a repeated report gets the same one."""
    text = ":".join(parts)
    if len(text) <= RECEIPT_ID_MAX_CHARACTERS and text.isascii() and text.isprintable():
        return text
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def from_unix(seconds: str | float) -> datetime | None:
    """None if it is not a time: a bad timestamp is no reason to lose the report."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def from_iso(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def from_mail_date(text: str) -> datetime | None:
    """RFC 5322's form, which Twilio and mail servers use."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
