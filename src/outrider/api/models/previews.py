"""Previews and dry runs on the wire: what a message would say, and to whom a launch would go."""

from typing import Annotated

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer, Line
from outrider.api.models.rollouts import PlannedStepAnswer
from outrider.documents import Document
from outrider.domain.states import Channel
from outrider.kernel.transactions.phase_controls import RerunScope
from outrider.limits.campaigns import (
    NAME_MAX_CHARACTERS,
    RECIPIENT_ID_MAX_CHARACTERS,
)


class PreviewBody(Document):
    recipient_id: Annotated[
        Annotated[Line, Field(min_length=1, max_length=RECIPIENT_ID_MAX_CHARACTERS)] | None,
        Field(description="Defaults to the first recipient."),
    ] = None
    message_id: Annotated[
        Annotated[Line, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)] | None,
        Field(description="Defaults to the first message."),
    ] = None
    variant: Annotated[
        Annotated[Line, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)] | None,
        Field(description="Of a message with variants; defaults to the first."),
    ] = None


class DryRunBody(Document):
    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": "remainder"}]})

    scope: Annotated[RerunScope | None, Field(strict=False)] = None


class Preview(Answer):
    campaign_id: str
    message_id: str
    variant: str | None = None
    channel: Channel
    recipient_id: str
    address: str | None
    sender: Annotated[
        str | None,
        Field(alias="from", description="As the campaign says; otherwise the target's own."),
    ]
    reply_to: str | None
    subject: str | None
    body: str | None
    html: bool
    problem: str | None = Field(
        description="Why the message cannot be rendered for this recipient."
    )
    skipped_because: str | None


class MessageDryRun(Answer):
    message_id: str
    variant: str | None = Field(
        default=None, description="Set for a retry, in which everybody keeps their variant."
    )
    channel: Channel
    would_send: int
    would_fail: int = Field(
        description="Among the rendered messages; of several variants, with the one that fails"
        " most often."
    )
    skipped: dict[str, int]


class DryRunFailure(Answer):
    message_id: str
    variant: str | None = None
    reason: str
    detail: str
    recipients: int = Field(description="How many of the rendered messages would fail this way.")
    examples: list[str] = Field(description="The first few of them.")


class DryRunStep(PlannedStepAnswer):
    step: int
    recipients: int


class DryRun(Answer):
    campaign_id: str
    scope: RerunScope
    messages: list[MessageDryRun]
    would_send: int
    would_fail: int = Field(description="Recipients for whom the message cannot be rendered.")
    failures: list[DryRunFailure]
    rendered: int = Field(
        description="How many messages were rendered; a large audience is only sampled."
    )
    skipped: dict[str, int] = Field(description="How many, by reason.")
    already_sent: int = Field(description="Sent by the last launch.")
    rollout: list[DryRunStep] = Field(default=[], description="The steps of the launch.")
