"""The senders that were there before rules: what they compose, from whatever an event tells."""

import base64
import hashlib
import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.addressees import addressees
from outrider.domain.message_content import ATTACHMENT_NAME_MAX_CHARACTERS, read_attachment
from outrider.domain.states import Channel
from outrider.domain.triggers import BUILT_IN_TRIGGERS, known_triggers
from outrider.domain.workflows import (
    AGENT,
    LEAD,
    DomainEvent,
    DomainEventId,
    RecipientConfig,
    RoutePlace,
)
from outrider.legacy.agent_email import AgentEmail
from outrider.legacy.proposal_email import ProposalEmail
from outrider.legacy.thank_you_email import ThankYouEmail
from outrider.limits.workflows import QUOTE_ITEMS_MAX
from outrider.ports.legacy import Composition, LegacySender
from outrider.rendering.child import RenderRequest, WindowRenderer
from outrider.rendering.renderer import default_limits

SENDERS: tuple[LegacySender, ...] = (ProposalEmail(), ThankYouEmail(), AgentEmail())
RENDERER = WindowRenderer(default_limits())

QUOTE = {
    "number": "Q-17",
    "title": "Solar roof",
    "url": "https://example.test/quotes/17",
    "currency": "EUR",
    "total": 12345.5,
    "acceptedAt": "2026-11-02T10:00:00Z",
    "items": [{"description": "Panel", "quantity": 12, "unitPrice": 199, "total": "2388.00"}],
}
SUBJECT = {
    "lead": {"firstName": "Ada", "lastName": "King", "email": "ada@example.test", "phone": "+44 1"},
    "agent": {"name": "Sam Hill", "firstName": "Sam", "email": "sam@example.test"},
    "quote": QUOTE,
}
PDF = b"%PDF-1.4 somebody's own"


def event(
    subject: dict[str, Any] | None = None, variables: dict[str, Any] | None = None
) -> DomainEvent:
    happened = datetime(2026, 11, 2, tzinfo=UTC)
    return DomainEvent(
        DomainEventId("d"), "e-1", "quote_sent", happened,
        SUBJECT if subject is None else subject, variables or {},
    )  # fmt: skip


def composed(sender: LegacySender, happened: DomainEvent) -> Composition:
    composition = sender.compose(happened)
    assert isinstance(composition, Composition), composition
    return composition


def rendered(sender: LegacySender, happened: DomainEvent) -> tuple[str, str]:
    composition = composed(sender, happened)
    known = {**happened.attributes(), **(composition.variables or {})}
    asked = RenderRequest(
        composition.subject, composition.body, False, [msgspec.json.encode(known).decode()]
    )
    answer = RENDERER.answer(asked)
    assert answer.problem is None
    [item] = answer.items
    assert not isinstance(item, str), item
    subject, body = item
    assert subject is not None
    return subject, body


def page_of(composition: Composition) -> str:
    [attachment] = composition.attachments
    assert read_attachment(attachment.as_document()) == attachment
    content = base64.b64decode(attachment.base64 or "")
    [page] = pypdf.PdfReader(io.BytesIO(content), strict=True).pages
    return page.extract_text()


def test_the_three_are_where_the_contract_has_them() -> None:
    assert {(each.name, each.trigger, each.place) for each in SENDERS} == {
        ("proposal_email", "quote_sent", RoutePlace(Channel.EMAIL, LEAD)),
        ("thank_you_email", "quote_accepted", RoutePlace(Channel.EMAIL, LEAD)),
        ("agent_email", "quote_accepted", RoutePlace(Channel.EMAIL, AGENT)),
    }


def test_the_proposal_goes_to_the_lead_and_describes_the_quote() -> None:
    subject, body = rendered(ProposalEmail(), event())
    assert subject == "Your proposal Q-17"
    assert body.startswith("Hello Ada,\n\n")
    for text in ("Solar roof", "12,345.50 EUR", "https://example.test/quotes/17", "Sam Hill"):
        assert text in body
    config = composed(ProposalEmail(), event()).recipients
    assert config == RecipientConfig(include_lead_contact=True)
    assert composed(ProposalEmail(), event()).attachments == ()


def test_the_thank_you_brings_the_quote_as_a_pdf_of_our_own() -> None:
    subject, body = rendered(ThankYouEmail(), event())
    assert subject == "Thank you for accepting quote Q-17"
    assert "You will find it attached." in body
    composition = composed(ThankYouEmail(), event())
    [attachment] = composition.attachments
    assert (attachment.name, attachment.content_type) == ("quote-Q-17.pdf", "application/pdf")
    page = page_of(composition)
    for text in ("Quote Q-17", "For: Ada King", "Panel 12 199.00 EUR 2388.00 EUR"):
        assert text in page
    assert composed(ThankYouEmail(), event()) == composition, "the same event, the same file"


@pytest.mark.parametrize(
    "document",
    [
        {"base64": base64.b64encode(PDF).decode()},
        {"artifact": "file:quotes/17.pdf", "sha256": hashlib.sha256(PDF).hexdigest()},
    ],
)
def test_the_thank_you_brings_the_pdf_of_the_event_where_it_has_one(
    document: dict[str, str],
) -> None:
    given = {"name": "Angebot 17.pdf", "contentType": "application/pdf", **document}
    composition = composed(ThankYouEmail(), event(variables={"quotePdf": given}))
    assert [each.as_document() for each in composition.attachments] == [given]
    assert composition.variables is not None
    assert composition.variables["quotePdf"] == "Angebot 17.pdf", "no template sees the file"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("quote.pdf", "is not an attachment: an attachment is not an object"),
        ({"name": "x.pdf"}, "is not an attachment: an attachment requires the strings"),
        ({"name": "x", "contentType": "application/pdf", "base64": "!"}, "is not in base64"),
        (
            {"name": "x.doc", "contentType": "application/msword", "base64": "eA=="},
            "should have the content type application/pdf",
        ),
        (
            {"name": "x.pdf", "contentType": "application/pdf", "base64": "eA=="},
            "contains a file that is not a PDF",
        ),
    ],
)
def test_an_attachment_that_is_not_a_pdf_is_reported_and_nothing_is_composed(
    given: Any, why: str
) -> None:
    problem = ThankYouEmail().compose(event(variables={"quotePdf": given}))
    assert isinstance(problem, str)
    assert problem.startswith("the variable 'quotePdf' ")
    assert why in problem


def test_the_agent_is_informed_who_accepted_and_how_to_reach_them() -> None:
    subject, body = rendered(AgentEmail(), event())
    assert subject == "Accepted: quote Q-17 by Ada King"
    assert body.startswith("Hello Sam,\n\nAda King has accepted quote Q-17.\n")
    for line in ("Total: 12,345.50 EUR", "E-mail: ada@example.test", "Phone: +44 1"):
        assert f"\n{line}\n" in body
    config = composed(AgentEmail(), event()).recipients
    assert [each.address for each in addressees(config, Channel.EMAIL, event())] == [
        "sam@example.test"
    ]


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_what_is_not_known_is_left_out_and_nothing_fails(sender: LegacySender) -> None:
    little: list[dict[str, Any]] = [
        {},
        {"lead": None, "agent": "Sam", "quote": []},
        {"lead": {"firstName": None}},
    ]
    for subject in little:
        headline, body = rendered(sender, event(subject))
        assert "  " not in headline
        assert body.startswith("Hello,\n\n")
        assert "None" not in body
        assert "\n\n\n\n" not in body


def test_a_quote_may_be_among_the_variables_which_come_first() -> None:
    told = event({"quote": {"number": "old", "title": "Roof"}}, {"quote": {"number": "new"}})
    assert "new" in rendered(ProposalEmail(), told)[0]
    assert "Roof" in rendered(ProposalEmail(), told)[1]
    flat = event({}, {"number": 17, "total": "on request", "currency": "EUR"})
    subject, body = rendered(ProposalEmail(), flat)
    assert subject == "Your proposal 17"
    assert "It comes to on request." in body


def test_a_line_break_in_a_number_does_not_reach_the_subject() -> None:
    hostile = event({"quote": {"number": "17\r\nBcc: eve@example.test"}})
    assert rendered(ProposalEmail(), hostile)[0] == "Your proposal 17 Bcc: eve@example.test"


def test_a_link_that_is_none_is_not_shown() -> None:
    for url in ("javascript:alert(1)", "https://example.test/a b", 5):
        assert "here:" not in rendered(ProposalEmail(), event({"quote": {"url": url}}))[1]


def test_at_most_the_limit_of_items_is_printed_and_the_page_says_so() -> None:
    items = [{"description": f"Item {number}"} for number in range(QUOTE_ITEMS_MAX + 3)]
    [attachment] = composed(ThankYouEmail(), event({"quote": {"items": items}})).attachments
    reader = pypdf.PdfReader(io.BytesIO(base64.b64decode(attachment.base64 or "")), strict=True)
    text = "\n".join(page.extract_text() for page in reader.pages)
    assert f"Item {QUOTE_ITEMS_MAX - 1}" in text
    assert f"Item {QUOTE_ITEMS_MAX}\n" not in text
    assert "and 3 more" in text


FIELD = st.sampled_from(
    ["lead", "agent", "quote", "number", "title", "items", "total", "currency", "url", "name",
     "firstName", "description", "quantity", "unitPrice", "acceptedAt", "email"]
)  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(FIELD, ANYTHING, max_size=5), st.dictionaries(FIELD, ANYTHING, max_size=5))
def test_each_mail_can_be_composed_whatever_the_event_contains(
    subject: dict[str, Any], variables: dict[str, Any]
) -> None:
    told = event(subject, variables)
    for sender in SENDERS:
        headline, _ = rendered(sender, told)
        assert headline.isprintable()
        for attachment in composed(sender, told).attachments:
            assert read_attachment(attachment.as_document()) == attachment
            assert len(attachment.name) <= ATTACHMENT_NAME_MAX_CHARACTERS


def test_a_trigger_is_known_if_it_is_built_in_or_has_a_sender_or_a_rule() -> None:
    assert {
        "lead_welcome", "quote_sent", "quote_accepted", "quote_rejected", "appointment",
    } == BUILT_IN_TRIGGERS  # fmt: skip
    assert known_triggers() == BUILT_IN_TRIGGERS
    assert known_triggers(["visit_booked"], ["order.paid"]) == BUILT_IN_TRIGGERS | {
        "visit_booked",
        "order.paid",
    }
