"""A campaign document: JSON bytes go in, a definition and its recipients come out.

Its head is validated by pydantic models, its recipients by hand, because there may be a million.
The mistakes of both are raised together. A bad address is not one: it is skipped at launch.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel

from outrider.documents import Document, Problems, key_field, load_json, one_line, twice
from outrider.documents.audience import AudienceReader, read_audience, source_problem
from outrider.documents.instants import instant, known_zone, local_time
from outrider.documents.rollout import (
    ROLLOUT_LIMITS,
    RolloutStepDocument,
    check_channels,
    check_steps,
)
from outrider.documents.templates import Body, Subject, TemplateCheck, TemplateContext
from outrider.domain.campaigns import (
    LAUNCH,
    RATED_FROM_MESSAGES,
    CampaignDefinition,
    Message,
    PauseOn,
    StepRetries,
)
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.purposes import Purpose, checked_topic
from outrider.domain.recipients import Recipient
from outrider.domain.screen_policies import TIME_ZONE_DEFAULT
from outrider.domain.states import Channel
from outrider.limits.campaigns import (
    BATCH_SIZE_DEFAULT,
    BATCH_SIZE_MAX,
    DOCUMENT_MAX_BYTES,
    MESSAGES_MAX,
    MESSAGES_MAX_BYTES,
    NAME_MAX_CHARACTERS,
    RATED_FROM_MAX_MESSAGES,
    ROLLOUT_STEPS_MAX,
    STEP_ATTEMPTS_MAX,
    STEP_RETRY_DELAY_MAX_SECONDS,
)

PHASES = (
    "audience_import",
    "dns_validation",
    "http_validation",
    "sender_validation",
    LAUNCH,
    "report",
)
CHANNELS_WITH_SUBJECT = frozenset({Channel.EMAIL, Channel.PUSH})


@dataclass(frozen=True, slots=True)
class CampaignDocument:
    """The validated document. Each call of `recipients` reads the audience from its start.

    A file is read as it is iterated, so that a mistake in it is raised only then.
    """

    definition: CampaignDefinition
    recipients: Callable[[], Iterable[Recipient]]


def parse_campaign(
    raw: bytes,
    *,
    check_template: TemplateCheck,
    source_root: Path | None,
    known_phases: Collection[str] = PHASES,
) -> CampaignDocument:
    """The campaign, or InvalidInput with all its problems.

    `source_root` is the folder that `audience.source` is relative to; without one, as in the API,
    where files are not the caller's own, a source is refused.
    """
    problems = Problems("campaign")
    if len(raw) > DOCUMENT_MAX_BYTES:
        problems.add("", f"is larger than {DOCUMENT_MAX_BYTES} bytes; use audience.source")
        raise problems.error()
    given = load_json(raw, problems)
    document = None
    try:
        document = _model(given).model_validate(
            given, context=_Context(check_template, source_root, known_phases)
        )
    except ValidationError as error:
        problems.add_all(error)
    message_ids = _message_ids(given, problems)
    _note_shared_scripts(given, problems)
    recipients = _inline_recipients(given, message_ids, problems)
    if problems or document is None:
        raise problems.error()
    definition = document.definition()
    if document.audience.source is None:
        return CampaignDocument(definition, lambda: recipients)
    path = (source_root or Path()) / document.audience.source
    return CampaignDocument(definition, lambda: read_audience(path, message_ids))


@dataclass(frozen=True, slots=True)
class _Context(TemplateContext):
    """What the models need besides the document; pydantic passes it to the validators."""

    source_root: Path | None
    known_phases: Collection[str]

    @classmethod
    def of(cls, info: ValidationInfo) -> "_Context":
        assert isinstance(info.context, cls)
        return info.context


def _phase(name: str, info: ValidationInfo) -> str:
    known = _Context.of(info).known_phases
    if name not in known:
        raise ValueError(f"is not a known phase; use one of {', '.join(known)}")
    return name


Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(one_line)]
Identifier = Annotated[
    str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(key_field)
]


Topic = Annotated[str, AfterValidator(checked_topic)]


class _Message(Document):
    """Fields that depend on the channel come after it, and are checked even if absent."""

    id: Identifier
    channel: Annotated[Channel, Field(strict=False)]
    submission_target: Identifier
    subject: Annotated[Subject | None, Field(validate_default=True)] = None
    body: Body
    script_version: Annotated[Identifier | None, Field(validate_default=True)] = None
    topic: Topic | None = None
    transactional: bool | None = None

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

    def message(self, purpose: Purpose) -> Message:
        """Where a message does not state its purpose, the campaign's applies."""
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
        )


class _Audience(Document):
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
        root = _Context.of(info).source_root
        if root is None:
            raise ValueError("files cannot be read here; give recipients instead")
        if wrong := source_problem(root / source):
            raise ValueError(wrong)
        return source


def _small_together(given: object) -> object:
    """Before any of them is compiled."""
    messages = given if isinstance(given, list) else []
    bodies = [each.get("body") for each in messages if isinstance(each, dict)]
    size = sum(len(body.encode(errors="surrogatepass")) for body in bodies if isinstance(body, str))
    if size > MESSAGES_MAX_BYTES:
        raise ValueError(
            f"must have bodies of at most {MESSAGES_MAX_BYTES:,} bytes together, not {size:,};"
            " split the campaign"
        )
    return given


class _StepRetries(Document):
    max_attempts: Annotated[int, Field(ge=1, le=STEP_ATTEMPTS_MAX)]
    delay_seconds: Annotated[int, Field(ge=0, le=STEP_RETRY_DELAY_MAX_SECONDS)] = 0


Rate = Annotated[float, Field(gt=0, lt=1)]


class _PauseOn(Document):
    bounce_rate: Rate | None = None
    complaint_rate: Rate | None = None
    failure_rate: Rate | None = None
    silence_rate: Rate | None = None
    minimum_messages: Annotated[int, Field(ge=1, le=RATED_FROM_MAX_MESSAGES)] = RATED_FROM_MESSAGES


class _LocalTime(Document):
    """Each recipient's own clock."""

    local: Annotated[str, AfterValidator(local_time)]
    fallback_zone: Annotated[str, AfterValidator(known_zone)] = TIME_ZONE_DEFAULT


class _Campaign(Document):
    name: Name
    phases: list[Annotated[str, AfterValidator(_phase)]] = Field(default=[LAUNCH])
    audience: _Audience = Field(default=_Audience(recipients=[]))
    messages: Annotated[
        list[_Message],
        Field(min_length=1, max_length=MESSAGES_MAX),
        BeforeValidator(_small_together),
    ]
    scheduled_for: Annotated[datetime | None, BeforeValidator(instant)] = None
    batch_size: Annotated[int, Field(ge=1, le=BATCH_SIZE_MAX)] = BATCH_SIZE_DEFAULT
    require_approval: bool = False
    topic: Topic | None = None
    transactional: bool = False
    retry_policy: dict[str, _StepRetries] = Field(default={})
    rollout: Annotated[list[RolloutStepDocument], Field(max_length=ROLLOUT_STEPS_MAX)] = Field(
        default=[]
    )
    pause_on: _PauseOn | None = None

    @field_validator("rollout")
    @classmethod
    def _rolls_out(
        cls, steps: list[RolloutStepDocument], info: ValidationInfo
    ) -> list[RolloutStepDocument]:
        if steps:
            check_steps(steps)
            check_channels(message.channel for message in info.data.get("messages", ()))
        return steps

    @field_validator("pause_on")
    @classmethod
    def _judged(cls, limits: _PauseOn | None, info: ValidationInfo) -> _PauseOn | None:
        if limits is not None and "rollout" in info.data and not info.data["rollout"]:
            for name in ("failure_rate", "silence_rate"):
                if getattr(limits, name) is not None:
                    raise ValueError(
                        f"{to_camel(name)} is judged at the steps of a rollout; add a rollout, or"
                        " leave it out"
                    )
        return limits

    @field_validator("retry_policy")
    @classmethod
    def _of_its_phases(
        cls, policy: dict[str, _StepRetries], info: ValidationInfo
    ) -> dict[str, _StepRetries]:
        phases = info.data.get("phases")
        for phase in policy:
            if phases is not None and phase not in phases:
                raise ValueError(f"names '{phase}', which is not a phase of this campaign")
        return policy

    @field_validator("phases")
    @classmethod
    def _launches_once(cls, phases: list[str]) -> list[str]:
        if repeated := twice(phases):
            raise ValueError(f"names {', '.join(repeated)} more than once")
        if LAUNCH not in phases:
            raise ValueError(f"should contain {LAUNCH}")
        return phases

    def definition(self) -> CampaignDefinition:
        purpose = Purpose(self.topic, self.transactional)
        local = self._local_launch()
        return CampaignDefinition(
            self.name,
            tuple(self.phases),
            tuple(message.message(purpose) for message in self.messages),
            self.batch_size,
            self.scheduled_for if local is None else local.begins_at,
            self.require_approval,
            purpose,
            {
                phase: StepRetries(each.max_attempts, each.delay_seconds)
                for phase, each in self.retry_policy.items()
            },
            self._pause_on(),
            local,
            tuple(step.step() for step in self.rollout),
        )

    def _pause_on(self) -> PauseOn | None:
        if self.pause_on is not None:
            return PauseOn(**self.pause_on.model_dump())
        return ROLLOUT_LIMITS if self.rollout else None

    def _local_launch(self) -> LocalLaunch | None:
        return None


class _LocalCampaign(_Campaign):
    """Launched at local time; a class of its own, so that each problem is shown in its place."""

    scheduled_for: _LocalTime  # type: ignore[assignment]

    @field_validator("rollout")
    @classmethod
    def _not_in_steps(cls, steps: list[RolloutStepDocument]) -> list[RolloutStepDocument]:
        if steps:
            raise ValueError(
                "cannot be combined with a launch at local time: when a later step is released,"
                " that time has passed; give scheduledFor as a time, or leave out the rollout"
            )
        return steps

    def _local_launch(self) -> LocalLaunch:
        given = self.scheduled_for
        return LocalLaunch(datetime.fromisoformat(given.local), given.fallback_zone)


def _model(given: object) -> type[_Campaign]:
    is_local = isinstance(given, dict) and isinstance(given.get("scheduledFor"), dict)
    return _LocalCampaign if is_local else _Campaign


def _message_ids(given: object, problems: Problems) -> frozenset[str]:
    """The ids as far as they are known, even if a message has other mistakes."""
    messages = given.get("messages") if isinstance(given, dict) else None
    first: dict[str, int] = {}
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        message_id = message.get("id") if isinstance(message, dict) else None
        if not isinstance(message_id, str):
            continue
        if first.setdefault(message_id, index) != index:
            same = f"messages[{first[message_id]}].id"
            problems.add(f"messages[{index}].id", f"is the same as {same}")
    return frozenset(first)


def _note_shared_scripts(given: object, problems: Problems) -> None:
    """Calls are identified by their script's version: of two messages with the same one, the second
    would never be delivered."""
    messages = given.get("messages") if isinstance(given, dict) else None
    first: dict[str, tuple[int, object]] = {}
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict) or message.get("channel") != Channel.VOICE:
            continue
        version, message_id = message.get("scriptVersion"), message.get("id")
        if not isinstance(version, str):
            continue
        earlier, other_id = first.setdefault(version, (index, message_id))
        if earlier != index:
            problems.add(
                f"messages[{index}].scriptVersion",
                f"is the same as messages[{earlier}].scriptVersion, so that the calls of"
                f" '{other_id}' and '{message_id}' could not be distinguished; give each its own,"
                " or none",
            )


def _inline_recipients(
    given: object, message_ids: frozenset[str], problems: Problems
) -> list[Recipient]:
    audience = given.get("audience") if isinstance(given, dict) else None
    raws = audience.get("recipients") if isinstance(audience, dict) else None
    if not isinstance(raws, list):
        return []
    reader = AudienceReader(problems, message_ids)
    read = (reader.read(raw, f"audience.recipients[{index}]") for index, raw in enumerate(raws))
    return [recipient for recipient in read if recipient is not None]
