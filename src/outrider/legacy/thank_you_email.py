"""The thank-you: the message a lead got with the quote as a PDF, once it was accepted.

The event brings the PDF as `quotePdf`; otherwise one is made from the event's quote.
"""

import base64
import re
from typing import Any, Final

from outrider.domain.message_content import Attachment, decoded, read_attachment
from outrider.domain.states import Channel
from outrider.domain.triggers import QUOTE_ACCEPTED
from outrider.domain.workflows import AGENT, LEAD, DomainEvent, RecipientConfig, RoutePlace
from outrider.legacy import event_fields
from outrider.legacy.quote_pdf import quote_pdf
from outrider.ports.legacy import Composition

PDF: Final = "application/pdf"
PDF_BEGINS: Final = b"%PDF-"
VARIABLE: Final = "quotePdf"
NAME_MAX_CHARACTERS: Final = 80

SUBJECT: Final = (
    "Thank you for accepting"
    "{% if quote.number is defined %} quote {{ quote.number }}{% else %} our quote{% endif %}"
)
BODY: Final = """\
Hello{% if lead.firstName is defined %} {{ lead.firstName }}{% endif %},

thank you for accepting our quote\
{% if quote.title is defined %}: {{ quote.title }}{% endif %}. You will find it attached.
{% if quote.total is defined %}
It comes to {{ quote.total }}.
{% endif %}
We will be in touch about the next steps.

Kind regards{% if agent.name is defined %}
{{ agent.name }}{% endif %}
"""


class ThankYouEmail:
    name = "thank_you_email"
    trigger = QUOTE_ACCEPTED
    place = RoutePlace(Channel.EMAIL, LEAD)

    def compose(self, event: DomainEvent) -> Composition | str:
        quote, lead = event_fields.quote(event), event_fields.person(event, LEAD)
        given = event.variables.get(VARIABLE)
        attachment = _made(quote, lead.get("name", "")) if given is None else _brought(given)
        if isinstance(attachment, str):
            return attachment
        return Composition(
            SUBJECT,
            BODY,
            RecipientConfig(include_lead_contact=True),
            [attachment],
            {
                "lead": lead,
                "agent": event_fields.person(event, AGENT),
                "quote": quote.as_variables(),
                # Replaces the file itself, which no template should be rendered with.
                VARIABLE: attachment.name,
            },
        )


def _brought(given: Any) -> Attachment | str:
    attachment = read_attachment(given)
    if isinstance(attachment, str):
        return f"the variable '{VARIABLE}' is not an attachment: {attachment}"
    if attachment.content_type.partition(";")[0].strip().lower() != PDF:
        return f"the variable '{VARIABLE}' should have the content type {PDF}"
    inline = attachment.base64
    if inline is not None and not (decoded(inline) or b"").startswith(PDF_BEGINS):
        return f"the variable '{VARIABLE}' contains a file that is not a PDF"
    return attachment


def _made(quote: event_fields.Quote, customer: str) -> Attachment:
    content = base64.b64encode(quote_pdf(quote, customer)).decode("ascii")
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"quote-{quote.number}")[:NAME_MAX_CHARACTERS]
    return Attachment(f"{name.rstrip('-')}.pdf", PDF, base64=content)
