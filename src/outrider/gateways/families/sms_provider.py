"""What the families of SMS providers share: the recipient's number, and where a message's reports
go."""

from abc import abstractmethod
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from outrider.domain.addresses import normalise_phone
from outrider.domain.call_results import Rejected
from outrider.domain.ids import IdempotencyKey
from outrider.gateways.content import Content
from outrider.gateways.provider import ProviderGateway, Request
from outrider.gateways.receipt_reading import one_line
from outrider.limits.gateways import RECEIPT_FIELDS_MAX, RECEIPT_ID_MAX_CHARACTERS

SMS_REASONS: Final = frozenset(
    {"invalid_request", "invalid_recipient", "invalid_message", "suppressed", "unauthorized"}
)
REFERENCE_FIELD: Final = "reference"
# None of these providers documents how late its records are: a minute is ours.
LOOK_UP_DELAY_SECONDS: Final = 60.0


class SmsProviderGateway(ProviderGateway):
    """An SMS provider; its family writes the request."""

    @abstractmethod
    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        """The request that sends this to an E.164 number."""

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        number = normalise_phone(content.to)
        if number is None:
            return Rejected("invalid_recipient", "not an E.164 phone number")
        if not content.body.strip():
            return Rejected("invalid_message", "nothing to say")
        return self.text(reference, number, content.body)


def callback_url(receipts_url: str, reference: str) -> str:
    """A message's own URL for its reports."""
    return f"{receipts_url}?{urlencode({REFERENCE_FIELD: reference})}"


def reference_in(url: str) -> str | None:
    """Our reference in such a URL. The caller sees to it that the URL is signed."""
    query = parse_qs(urlsplit(url).query, max_num_fields=RECEIPT_FIELDS_MAX)
    return kept_id(query.get(REFERENCE_FIELD, [""])[0])


def kept_id(text: str | None) -> str | None:
    """A reference or a message's id from a report."""
    return one_line(text or "", RECEIPT_ID_MAX_CHARACTERS) or None


def with_plus(number: str) -> str:
    """Some providers leave it out of E.164 numbers; names of senders have none."""
    number = one_line(number)
    return f"+{number}" if number.isdecimal() else number
