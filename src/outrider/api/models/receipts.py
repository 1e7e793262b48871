"""Receipts on the wire: as they were reported, and which item they are about."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.api.models.items import ID_CHARACTERS
from outrider.documents import Document
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import ReceiptEvent
from outrider.kernel.transactions.receipts import MatchedBy, StoredReceipt


class ReceiptAnswer(Answer):
    id: str
    submission_target: str
    receipt_id: str = Field(description="The provider's own id of the report.")
    event: ReceiptEvent
    reference_id: str | None = Field(description="Our reference, if the provider returned it.")
    gateway_message_id: str | None
    permanent: bool
    reason: str
    sender: str | None = Field(alias="from")
    text: str | None
    keyword: OptOutWord | None = Field(description="What the reply asks for.")
    occurred_at: datetime | None
    received_at: datetime
    matched: bool
    matched_by: MatchedBy | None
    outbox_id: str | None
    next_look_at: datetime | None = Field(
        description="When it is matched again; null once it is given up."
    )

    @classmethod
    def of(cls, receipt: StoredReceipt) -> "ReceiptAnswer":
        return cls(
            id=receipt.id,
            submission_target=receipt.submission_target,
            receipt_id=receipt.receipt_id,
            event=receipt.event,
            reference_id=receipt.reference,
            gateway_message_id=receipt.provider_message_id,
            permanent=receipt.permanent,
            reason=receipt.reason,
            **{"from": receipt.sender},
            text=receipt.text,
            keyword=receipt.keyword,
            occurred_at=receipt.occurred_at,
            received_at=receipt.received_at,
            matched=receipt.outbox_id is not None,
            matched_by=receipt.matched_by,
            outbox_id=receipt.outbox_id,
            next_look_at=receipt.look_at,
        )


class MatchBody(Document):
    outbox_id: Annotated[str, Field(min_length=ID_CHARACTERS, max_length=ID_CHARACTERS)]


class Matched(Success):
    receipt_id: str
    outbox_id: str


class Taken(Success):
    """`taken` counts those that were not known before."""

    taken: int
