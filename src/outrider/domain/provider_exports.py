"""A provider's own export of what it received: which column says what, and what a status means.

For a message in doubt, it answers whether the provider accepted it. What happened to the message
later, a bounce for example, is reported by receipts.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple


class ExportField(StrEnum):
    REFERENCE = "reference"
    PROVIDER_MESSAGE_ID = "providerMessageId"
    RECIPIENT = "recipient"
    TIME = "time"
    STATUS = "status"


ColumnMapping = Mapping[ExportField, str]
"""The name of the column that holds each field; a field that the export lacks is left out."""


class Meaning(StrEnum):
    """What a row says about the call."""

    SENT = "sent"
    """The provider took the message."""
    FAILED = "failed"
    """The provider refused the message, or gave it up before it left."""
    NOT_RECEIVED = "not_received"
    """The row itself says that the message never arrived there."""
    UNCLEAR = "unclear"


class ExportRow(NamedTuple):
    line: int
    reference: str | None = None
    provider_message_id: str | None = None
    recipient: str | None = None
    time: datetime | None = None
    status: str | None = None

    @property
    def has_reference(self) -> bool:
        """One that looks like ours, and not a text of the provider's own."""
        return self.reference is not None and _REFERENCE.fullmatch(self.reference) is not None

    @property
    def may_be_unreferenced(self) -> bool:
        """A row with a reference of ours is about that message, and about no other."""
        return self.recipient is not None and self.time is not None and not self.has_reference


_NAMES: Mapping[ExportField, Sequence[str]] = {
    ExportField.REFERENCE: (
        "referenceid", "reference", "clientreference", "clientref", "customid", "messagereference",
        "externalid", "externalreference", "idempotencykey", "bizopaquecallbackdata",
        "callbackdata", "usermessageid", "ref",
    ),
    ExportField.PROVIDER_MESSAGE_ID: (
        "gatewaymessageid", "providermessageid", "messagesid", "callsid", "sid", "messageid",
        "emailid", "smsid", "msgid", "uuid", "id",
    ),
    ExportField.RECIPIENT: (
        "recipient", "to", "tonumber", "toaddress", "recipientaddress", "destination", "msisdn",
        "phone", "phonenumber", "mobile", "email", "emailaddress", "rcptto", "address",
    ),
    ExportField.TIME: (
        "senttime", "sentat", "datesent", "sentdate", "submittedat", "submitdate", "receivedat",
        "time", "timestamp", "at", "datetime", "date", "createdat", "datecreated", "created",
        "starttime",
    ),
    ExportField.STATUS: (
        "status", "messagestatus", "deliverystatus", "state", "result", "lastevent", "event",
        "delivered",
    ),
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MEANINGS: Mapping[Meaning, frozenset[str]] = {
    Meaning.SENT: _words(
        "accepted queued scheduled sending sent submitted processed processing enroute delivered"
        " deliveredtohandset deliveredtonetwork read opened open clicked click replied received"
        " undelivered undeliverable bounced bounce softbounce hardbounce complained complaint spam"
        " spamreport unsubscribed deferred delayed completed inprogress ringing busy noanswer ok"
        " success successful true yes 1 posted"
    ),
    Meaning.FAILED: _words(
        "failed failure rejected refused blocked dropped invalid canceled cancelled error"
        " suppressed"
    ),
    Meaning.NOT_RECEIVED: _words("notreceived notfound absent false no 0"),
}

_NOISE = re.compile(r"[\W_]+")
_REFERENCE = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_SPACED = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?\Z", re.ASCII)
_EPOCH = re.compile(r"1\d{9}(\d{3})?(\.\d+)?\Z", re.ASCII)
_PHONE_MARKS = re.compile(r"[\s().\-/]|^(?:whatsapp|sms|tel):|^\+|^00")
_MILLISECONDS_FROM = 10_000_000_000


def plain(name: str) -> str:
    """`Message SID`, `message_sid` and `messageSid` are the same name."""
    return _NOISE.sub("", name).lower()


def guessed(columns: Sequence[str], samples: Sequence[Mapping[str, str]]) -> ColumnMapping:
    """By the contents of the columns if they are unmistakable, otherwise by their names."""
    found: dict[ExportField, str] = {}
    referring = [
        column for column in columns if any(reference_in(row.get(column, "")) for row in samples)
    ]
    if referring:
        found[ExportField.REFERENCE] = referring[0]
    by_name = {plain(column.rpartition(".")[2]): column for column in reversed(columns)}
    by_name |= {plain(column): column for column in reversed(columns)}
    for field, names in _NAMES.items():
        for name in names:
            column = by_name.get(name)
            if field not in found and column is not None and column not in found.values():
                found[field] = column
    return found


def reference_in(text: str) -> str | None:
    """Providers wrap it: in a message ID, a URL, or a text of their own."""
    found = set(_REFERENCE.findall(text.lower()))
    return found.pop() if len(found) == 1 else None


def meaning_of(status: str | None, given: Mapping[str, Meaning]) -> Meaning:
    """`given` comes first, by the plain status. A row without a status says that it is there."""
    if status is None:
        return Meaning.SENT
    word = plain(status)
    if word in given:
        return given[word]
    return next((each for each, words in _MEANINGS.items() if word in words), Meaning.UNCLEAR)


def time_in(text: str) -> datetime | None:
    """RFC 3339, RFC 5322, `2026-12-01 09:00:00` (taken as UTC) or a Unix time; never a date whose
    day and month could be exchanged."""
    text = text.strip()
    try:
        if _EPOCH.match(text):
            number = float(text)
            seconds = number / 1000 if number >= _MILLISECONDS_FROM else number
            return datetime.fromtimestamp(seconds, UTC)
        if _SPACED.match(text):
            text = text.replace("/", "-")
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, IndexError):
            return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def same_recipient(address: str) -> str:
    """What two spellings of an address have in common: digits of a number, letters of the rest."""
    text = address.strip().lower()
    return text if "@" in text else _PHONE_MARKS.sub("", _PHONE_MARKS.sub("", text))


class DoubtedCall(NamedTuple):
    """A call in doubt, as far as a row could be about it."""

    outbox_id: str
    reference: str
    address: str | None
    opened_at: datetime
    doubted_at: datetime


def by_content(
    rows: Collection[ExportRow], calls: Collection[DoubtedCall], slack_seconds: float
) -> tuple[dict[str, ExportRow], int]:
    """The row of each call to the same recipient at the same time, where exactly one row fits
    exactly one call; and how many calls have several rows, or share theirs."""
    slack = timedelta(seconds=slack_seconds)
    of_recipient: dict[str, list[ExportRow]] = {}
    for row in rows:
        if row.recipient is not None and row.time is not None:
            of_recipient.setdefault(same_recipient(row.recipient), []).append(row)
    fitting: dict[str, list[ExportRow]] = {}
    claims: dict[int, int] = {}
    for call in calls:
        if call.address is None:
            continue
        found = [
            row
            for row in of_recipient.get(same_recipient(call.address), ())
            if row.time is not None
            and call.opened_at - slack <= row.time <= call.doubted_at + slack
        ]
        if found:
            fitting[call.outbox_id] = found
        for row in found:
            claims[row.line] = claims.get(row.line, 0) + 1
    matched = {
        outbox_id: found[0]
        for outbox_id, found in fitting.items()
        if len(found) == 1 and claims[found[0].line] == 1
    }
    return matched, len(fitting) - len(matched)
