"""What all responses share: camelCase, exact fields, pages with a cursor."""

from dataclasses import asdict
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from outrider.documents import one_line, storable
from outrider.domain.outbox import Accounting
from outrider.domain.purposes import TOPIC_PATTERN

Item = TypeVar("Item")


class Answer(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
    )


class Page(Answer, Generic[Item]):
    items: list[Item]
    next: str | None = Field(description="The `after` of the next page; null on the last page.")


class Success(Answer):
    success: Literal[True] = True


class DeliveryCountsAnswer(Answer):
    """What receipts say about the messages that were sent; adds up to `sent`."""

    delivered: int
    bounced: int
    complained: int
    read: int
    replied: int
    opted_out: int
    failed: int = Field(description="Reported as not delivered, after they were sent.")
    unknown: int = Field(description="Sent, and no receipt has arrived.")


class LedgerAccounting(Answer):
    """intended = waiting + inDoubt + sent + failed + skipped, always."""

    intended: int
    waiting: int
    in_doubt: int
    sent: int = Field(description="Sent, called and posted.")
    failed: int
    skipped: int


class AccountingAnswer(LedgerAccounting):
    """intended = waiting + inDoubt + sent + failed + skipped, always."""

    delivery: DeliveryCountsAnswer | None = Field(
        description="What receipts say about the messages that were sent; null for phases other"
        " than a launch."
    )

    @classmethod
    def of(cls, accounting: Accounting) -> "AccountingAnswer":
        counts = accounting.delivery
        return cls(
            intended=accounting.intended,
            waiting=accounting.waiting,
            in_doubt=accounting.in_doubt,
            sent=accounting.sent,
            failed=accounting.failed,
            skipped=accounting.skipped,
            delivery=DeliveryCountsAnswer(**asdict(counts)) if counts else None,
        )


Line = Annotated[str, AfterValidator(one_line)]
Text = Annotated[str, AfterValidator(storable)]
TopicName = Annotated[str, Field(pattern=TOPIC_PATTERN, examples=["newsletter"])]
