"""The note to an agent: whose quote was accepted, and how to reach them."""

from typing import Final

from outrider.domain.states import Channel
from outrider.domain.triggers import QUOTE_ACCEPTED
from outrider.domain.workflows import AGENT, LEAD, DomainEvent, RecipientConfig, RoutePlace
from outrider.legacy import event_fields
from outrider.ports.legacy import Composition

SUBJECT: Final = (
    "Accepted:"
    "{% if quote.number is defined %} quote {{ quote.number }}{% else %} a quote{% endif %}"
    "{% if lead.name is defined %} by {{ lead.name }}{% endif %}"
)
BODY: Final = """\
Hello{% if agent.firstName is defined %} {{ agent.firstName }}{% endif %},

{% if lead.name is defined %}{{ lead.name }}{% else %}your customer{% endif %} has accepted\
{% if quote.number is defined %} quote {{ quote.number }}{% else %} a quote{% endif %}.
{% if quote.title is defined %}
Title: {{ quote.title }}{% endif %}{% if quote.total is defined %}
Total: {{ quote.total }}{% endif %}{% if quote.acceptedAt is defined %}
Accepted: {{ quote.acceptedAt }}{% endif %}{% if lead.email is defined %}
E-mail: {{ lead.email }}{% endif %}{% if lead.phone is defined %}
Phone: {{ lead.phone }}{% endif %}
"""


class AgentEmail:
    name = "agent_email"
    trigger = QUOTE_ACCEPTED
    place = RoutePlace(Channel.EMAIL, AGENT)

    def compose(self, event: DomainEvent) -> Composition | str:
        return Composition(
            SUBJECT,
            BODY,
            RecipientConfig(include_agent=True),
            variables={
                "lead": event_fields.person(event, LEAD),
                "agent": event_fields.person(event, AGENT),
                "quote": event_fields.quote(event).as_variables(),
            },
        )
