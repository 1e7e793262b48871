"""Dry runs of domain events on the wire."""

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer
from outrider.documents.emission import EXAMPLE, EmissionDocument
from outrider.domain.emissions import EVENT_ID_MAX_CHARACTERS
from outrider.domain.states import Channel
from outrider.domain.workflows import Decision, EventStatus
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.workflows.event_dry_run import Rehearsal, RehearsedMessage

DRY_RUN = "dry-run"


class RehearsalBody(EmissionDocument):
    """A domain event as it would be emitted; its id does not matter."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{name: each for name, each in EXAMPLE.items() if name != "eventId"}]
        }
    )

    event_id: Annotated[str, Field(min_length=1, max_length=EVENT_ID_MAX_CHARACTERS)] = DRY_RUN


class RehearsedRoute(Answer):
    channel: Channel
    audience: str
    decision: Decision
    rule_id: str | None = None
    sender: str | None = None
    why: str | None = None
    items: int = 0
    collected: int = Field(default=0, description="How many would be collected in digests.")
    without_address: list[str] = Field(
        default=[], description="Recipients without an address in the event."
    )


class RehearsedMessageAnswer(Answer):
    channel: Channel
    audience: str
    step_id: str | None
    template: str
    submission_target: str
    recipient_id: str
    address: str | None
    due_at: datetime
    waits_for: str | None
    skipped_because: str | None = Field(description="Why nothing would be sent.")
    subject: str | None
    body: str | None
    html: bool

    @classmethod
    def of(cls, message: RehearsedMessage) -> "RehearsedMessageAnswer":
        row, letter = message.row, message.letter
        return cls(
            channel=row.channel,
            audience=message.place.audience,
            step_id=row.step_id,
            template=row.template,
            submission_target=row.submission_target,
            recipient_id=row.recipient_id,
            address=row.address,
            due_at=row.due_at,
            waits_for=row.waits_for,
            skipped_because=message.skipped_because,
            subject=letter.subject if letter else None,
            body=letter.body if letter else None,
            html=letter.html if letter else False,
        )


class RehearsedDigest(Answer):
    step_id: str
    audience: str
    recipient_id: str
    address: str
    due_at: datetime = Field(description="If the recipient has no open digest yet.")

    @classmethod
    def of(cls, entry: DigestEntry, now: datetime) -> "RehearsedDigest":
        return cls(
            step_id=entry.step_id,
            audience=entry.audience,
            recipient_id=entry.recipient_id,
            address=entry.address,
            due_at=now + timedelta(seconds=entry.digest_seconds),
        )


class RehearsalAnswer(Answer):
    """What would follow from an event; nothing was written or sent."""

    trigger: str
    status: EventStatus
    problem: str | None
    routes: list[RehearsedRoute]
    messages: list[RehearsedMessageAnswer]
    digests: list[RehearsedDigest]
    not_shown: int = Field(description="Messages and digest entries beyond those shown.")
    sentences: list[str]

    @classmethod
    def of(cls, rehearsal: Rehearsal) -> "RehearsalAnswer":
        return cls(
            trigger=rehearsal.trigger,
            status=rehearsal.status,
            problem=rehearsal.problem,
            routes=[RehearsedRoute.model_validate(route) for route in rehearsal.routes],
            messages=[RehearsedMessageAnswer.of(each) for each in rehearsal.messages],
            digests=[RehearsedDigest.of(each, rehearsal.now) for each in rehearsal.entries],
            not_shown=rehearsal.not_shown,
            sentences=rehearsal.sentences,
        )
