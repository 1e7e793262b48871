"""Receipts of `sms` and `push` gateways: our own JSON, signed per Standard Webhooks.

Outrider itself defines the protocol: docs/reference/provider-receipts.md, and
https://github.com/standard-webhooks/standard-webhooks for the signature.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState, checked, signing_keys
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    Malformed,
    ReceiptSecret,
    SignedReader,
    kept_text,
    one_line,
)
from outrider.limits.gateways import (
    RECEIPT_ADDRESS_MAX_CHARACTERS,
    RECEIPT_ID_MAX_CHARACTERS,
    RECEIPT_TEXT_MAX_CHARACTERS,
    RECEIPTS_PER_CALLBACK_MAX,
)
from outrider.ports.receipts import Callback

CREDENTIAL = "receiptsSecret"

_ID_PATTERN = r"^[^\x00-\x1f\x7f]+\Z"
Identifier = Annotated[
    str, msgspec.Meta(min_length=1, max_length=RECEIPT_ID_MAX_CHARACTERS, pattern=_ID_PATTERN)
]
Address = Annotated[str, msgspec.Meta(min_length=1, max_length=RECEIPT_ADDRESS_MAX_CHARACTERS)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class ReceiptDocument(msgspec.Struct, rename="camel", omit_defaults=True):
    """One receipt, as gateways write it."""

    receipt_id: Identifier
    event: ReceiptEvent
    reference_id: Identifier | None = None
    gateway_message_id: Identifier | int | None = None
    permanent: bool = False
    reason: str = ""
    sender: Address | None = msgspec.field(default=None, name="from")
    text: str | None = None
    occurred_at: Instant | None = None

    @classmethod
    def of(cls, receipt: Receipt) -> "ReceiptDocument":
        return cls(
            receipt.receipt_id,
            receipt.event,
            receipt.reference,
            receipt.provider_message_id,
            receipt.permanent,
            receipt.reason,
            receipt.sender,
            receipt.text,
            receipt.occurred_at,
        )


class ReceiptsDocument(msgspec.Struct):
    receipts: Annotated[list[ReceiptDocument], msgspec.Meta(max_length=RECEIPTS_PER_CALLBACK_MAX)]


_decoder = msgspec.json.Decoder(ReceiptsDocument)


def read_document(body: bytes) -> Iterator[Receipt]:
    for number, each in enumerate(_decoder.decode(body).receipts):
        if each.reference_id is None and each.gateway_message_id is None and each.sender is None:
            raise Malformed(f"receipts[{number}] needs referenceId, gatewayMessageId or from")
        message_id = each.gateway_message_id
        yield Receipt(
            each.receipt_id,
            each.event,
            each.reference_id,
            None if message_id is None else str(message_id),
            each.permanent,
            one_line(each.reason),
            None if each.sender is None else one_line(each.sender),
            None if each.text is None else kept_text(each.text, RECEIPT_TEXT_MAX_CHARACTERS),
            each.occurred_at,
        )


class StandardReader(SignedReader):
    """Standard Webhooks, with our own document."""

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        return checked(keys, callback.headers, callback.body, now.timestamp())

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        return read_document(callback.body)


def receipt_reader(target: Target) -> StandardReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return StandardReader(ReceiptSecret(target, CREDENTIAL, signing_keys))
