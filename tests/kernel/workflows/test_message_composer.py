"""The message composer: a rule's steps become messages, addressed, rendered and in their order."""

from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from tests.support.workflows import AGENT, Office, email

ADA = "Ada@example.test"
"""Of the lead's address, only what counts the same either way is written small."""


async def test_each_step_is_a_message_to_each_address_in_the_order_of_the_steps(
    an_office: Office,
) -> None:
    both = RecipientConfig(include_lead_contact=True, include_agent=True)
    await an_office.rule(
        "visit_booked",
        Channel.EMAIL,
        email(2, "Then {{ price }}"),
        email(1, "First {{ lead.firstName }}", recipients=both),
    )
    await an_office.routed("visit_booked", price=3)
    rows = await an_office.notifications()
    texts = [(row.recipient, row.payload["body"]) for row in rows]
    assert sorted(texts[:2]) == sorted([(ADA, "First Ada"), (AGENT["email"], "First Ada")])
    assert texts[2:] == [(ADA, "Then 3")]


async def test_a_step_that_cannot_be_rendered_leaves_no_message_of_its_rule(
    an_office: Office,
) -> None:
    await an_office.rule("visit_booked", Channel.EMAIL, email(1), email(2, "{{ missing.field }}"))
    (route,) = await an_office.routed("visit_booked")
    assert route["decision"] == "failed"
    assert await an_office.notifications() == []
