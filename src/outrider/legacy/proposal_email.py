"""The proposal: the message a lead got with a quote, before there were rules."""

from typing import Final

from outrider.domain.states import Channel
from outrider.domain.triggers import QUOTE_SENT
from outrider.domain.workflows import AGENT, LEAD, DomainEvent, RecipientConfig, RoutePlace
from outrider.legacy import event_fields
from outrider.ports.legacy import Composition

SUBJECT: Final = "Your proposal{% if quote.number is defined %} {{ quote.number }}{% endif %}"
BODY: Final = """\
Hello{% if lead.firstName is defined %} {{ lead.firstName }}{% endif %},

thank you for your interest. Here is our proposal\
{% if quote.title is defined %}: {{ quote.title }}{% endif %}.
{% if quote.total is defined %}
It comes to {{ quote.total }}.
{% endif %}{% if quote.url is defined %}
You can read and accept it here:
{{ quote.url }}
{% endif %}
If you have a question, simply answer this mail.

Kind regards{% if agent.name is defined %}
{{ agent.name }}{% endif %}
"""


class ProposalEmail:
    name = "proposal_email"
    trigger = QUOTE_SENT
    place = RoutePlace(Channel.EMAIL, LEAD)

    def compose(self, event: DomainEvent) -> Composition | str:
        return Composition(
            SUBJECT,
            BODY,
            RecipientConfig(include_lead_contact=True),
            variables={
                "lead": event_fields.person(event, LEAD),
                "agent": event_fields.person(event, AGENT),
                "quote": event_fields.quote(event).as_variables(),
            },
        )
