"""Domain events in user input: one JSON object from a request, a file or a line of one."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from outrider.documents import Document, Problems, load_json
from outrider.documents.instants import instant
from outrider.domain.emissions import EVENT_ID_MAX_CHARACTERS, TRIGGER, Emission

TRIGGER_PATTERN = f"^{TRIGGER.pattern}$"
EXAMPLE: dict[str, Any] = {
    "eventId": "quote-4711-sent",
    "trigger": "quote_sent",
    "occurredAt": "2026-12-01T09:00:00Z",
    "subject": {"lead": {"id": "lead-1", "email": "ada@example.test", "timeZone": "Europe/Berlin"}},
    "variables": {"quote": {"number": "4711", "total": "1,200.00"}},
}


class EmissionDocument(Document):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    event_id: Annotated[
        str,
        Field(min_length=1, max_length=EVENT_ID_MAX_CHARACTERS, description="A repeat is safe."),
    ]
    trigger: Annotated[
        str, Field(pattern=TRIGGER_PATTERN, description="What happened: a known name.")
    ]
    occurred_at: Annotated[
        datetime | None,
        BeforeValidator(instant),
        Field(description="When it happened; when it was received, if left out."),
    ] = None
    subject: dict[str, dict[str, Any]] = Field(
        default={}, description="Whom it concerns: lead, partner, agent, each with its addresses."
    )
    variables: dict[str, Any] = Field(default={}, description="What templates may name.")

    def emission(self) -> Emission:
        return Emission(self.event_id, self.trigger, self.subject, self.variables, self.occurred_at)


def read_emission(given: object) -> Emission:
    """From a parsed value; raises InvalidInput with every problem at once."""
    try:
        return EmissionDocument.model_validate(given).emission()
    except ValidationError as error:
        problems = Problems("event")
        problems.add_all(error)
        raise problems.error() from None


def parse_emission(raw: bytes) -> Emission:
    problems = Problems("event")
    given = load_json(raw, problems)
    if problems:
        raise problems.error()
    return read_emission(given)
