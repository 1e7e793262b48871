"""Screens of single messages: each lets an item pass or says why not; the first refusal counts."""

from dataclasses import dataclass

from outrider.domain.ids import OutboxId
from outrider.kernel.delivery.screens import (
    Fail,
    ReadableContent,
    SupportedTemplate,
    first_refusal,
    readable,
    supported_templates,
)
from outrider.legacy.proposal_email import ProposalEmail

LETTER = '{"subject": "News", "body": "Hi"}'
FIRST, SECOND = OutboxId("item-1"), OutboxId("item-2")


@dataclass(frozen=True)
class Item:
    id: OutboxId = FIRST
    channel: str = "email"
    address: str | None = "a@example.test"
    kind: str | None = "email"
    template: str | None = "email_send"
    urgent: bool = False
    payload: str = LETTER
    maybe_received: bool = False
    is_open: bool = False
    topic: str | None = None
    transactional: bool = False
    time_zone: str | None = None


def test_kinds_and_templates_that_are_not_known_here_fail() -> None:
    known = SupportedTemplate(supported_templates([ProposalEmail()]))
    assert known(Item()) is None
    assert known(Item(template=ProposalEmail().name)) is None
    assert known(Item(kind="fax")) == Fail("unsupported_kind", "'fax' is not a known kind")
    refused = known(Item(template="invoice"))
    assert refused is not None
    assert refused.reason == "unsupported_template"


def test_a_payload_that_is_not_a_message_fails_and_the_others_are_kept() -> None:
    screen = ReadableContent()
    assert screen(Item()) is None
    assert screen.contents[FIRST].body == "Hi"
    assert readable("{") == "the payload is not JSON"
    refused = screen(Item(id=SECOND, payload="[]"))
    assert isinstance(refused, Fail)
    assert set(screen.contents) == {FIRST}


def test_the_first_refusal_counts_and_the_rest_are_not_asked() -> None:
    asked = []

    def passes(item: object) -> None:
        asked.append(item)

    def refuses(_: object) -> Fail:
        return Fail("first", "")

    item = Item()
    assert first_refusal(item, [passes, refuses, passes]) == Fail("first", "")
    assert asked == [item]
