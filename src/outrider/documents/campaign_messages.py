"""The messages and the audience of a campaign document, and what their checks need to know."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from outrider.documents import Document, key_field, one_line
from outrider.documents.audience import source_problem
from outrider.documents.templates import Body, Subject, TemplateContext
from outrider.documents.variants import Variants, check_variants
from outrider.domain.campaigns import Message
from outrider.domain.errors import InvalidInput
from outrider.domain.mailbox import USUAL_HEAD, MailHead, mailbox
from outrider.domain.purposes import Purpose, checked_topic
from outrider.domain.states import Channel
from outrider.limits.campaigns import NAME_MAX_CHARACTERS

CHANNELS_WITH_SUBJECT = frozenset({Channel.EMAIL, Channel.PUSH})

Identifier = Annotated[
    str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(key_field)
]
Topic = Annotated[str, AfterValidator(checked_topic)]


@dataclass(frozen=True, slots=True)
class CampaignContext(TemplateContext):
    """What the models need besides the document; pydantic passes it to the validators."""

    source_root: Path | None
    known_phases: Collection[str]

    @classmethod
    def of(cls, info: ValidationInfo) -> "CampaignContext":
        assert isinstance(info.context, cls)
        return info.context


def _mailbox(text: str) -> str:
    try:
        mailbox(text)
    except InvalidInput as error:
        raise ValueError(f"is not a mailbox; {error.hint or error.message}") from None
    return text


Sender = Annotated[str, AfterValidator(one_line), AfterValidator(_mailbox)]


class MessageDocument(Document):
    """Fields that depend on the channel come after it, and are checked even if absent."""

    id: Identifier
    channel: Annotated[Channel, Field(strict=False)]
    submission_target: Identifier
    subject: Annotated[Subject | None, Field(validate_default=True)] = None
    body: Body
    script_version: Annotated[Identifier | None, Field(validate_default=True)] = None
    topic: Topic | None = None
    transactional: bool | None = None
    sender: Annotated[Sender | None, Field(alias="from")] = None
    reply_to: Sender | None = None
    variants: Variants = Field(default=[])

    @field_validator("sender", "reply_to")
    @classmethod
    def _is_mail(cls, sender: str | None, info: ValidationInfo) -> str | None:
        if sender is not None and info.data.get("channel") not in (Channel.EMAIL, None):
            raise ValueError("is only allowed for the channel email")
        return sender

    @field_validator("variants")
    @classmethod
    def _can_be_told_apart(cls, variants: Variants, info: ValidationInfo) -> Variants:
        if variants:
            own = (info.data.get(name) for name in ("channel", "subject", "body", "script_version"))
            check_variants(variants, *own)
        return variants

    @field_validator("subject")
    @classmethod
    def _subject_fits_channel(cls, subject: str | None, info: ValidationInfo) -> str | None:
        channel = info.data.get("channel")
        if subject is None and channel in CHANNELS_WITH_SUBJECT:
            raise ValueError(f"is required where the channel is {channel}")
        return subject

    @field_validator("script_version")
    @classmethod
    def _script_fits_channel(cls, version: str | None, info: ValidationInfo) -> str | None:
        channel = info.data.get("channel")
        if version is not None and channel not in (Channel.VOICE, None):
            raise ValueError("is only allowed for the channel voice")
        return version

    def message(self, purpose: Purpose, head: MailHead) -> Message:
        """Where a message does not state its purpose or sender, the campaign's apply."""
        if self.channel is Channel.EMAIL:
            head = MailHead(self.sender or head.sender, self.reply_to or head.reply_to)
        else:
            head = USUAL_HEAD
        if self.topic is not None:
            purpose = purpose._replace(topic=self.topic)
        if self.transactional is not None:
            purpose = purpose._replace(transactional=self.transactional)
        return Message(
            self.id,
            self.channel,
            self.submission_target,
            self.body,
            self.subject,
            self.script_version,
            purpose,
            head,
            tuple(each.variant(self.subject, self.body) for each in self.variants),
        )


class AudienceDocument(Document):
    recipients: list[Any] | None = None
    source: Annotated[
        Annotated[str, AfterValidator(one_line)] | None, Field(validate_default=True)
    ] = None

    @field_validator("source")
    @classmethod
    def _one_audience(cls, source: str | None, info: ValidationInfo) -> str | None:
        if "recipients" not in info.data:
            return source
        if (source is None) == (info.data["recipients"] is None):
            raise ValueError("exactly one of recipients and source is required")
        if source is None:
            return None
        root = CampaignContext.of(info).source_root
        if root is None:
            raise ValueError("files cannot be read here; give recipients instead")
        if wrong := source_problem(root / source):
            raise ValueError(wrong)
        return source
