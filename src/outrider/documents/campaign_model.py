"""The head of a campaign document as pydantic models: phases, limits, rollout, time of launch."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from outrider.documents import Document, one_line, twice
from outrider.documents.campaign_messages import (
    AudienceDocument,
    CampaignContext,
    MessageDocument,
    Sender,
    Topic,
)
from outrider.documents.instants import instant, known_zone, local_time
from outrider.documents.message_texts import small_together
from outrider.documents.rollout import (
    ROLLOUT_LIMITS,
    RolloutStepDocument,
    check_channels,
    check_steps,
)
from outrider.documents.variants import WinnerDocument, check_winner
from outrider.domain.campaigns import (
    LAUNCH,
    RATED_FROM_MESSAGES,
    CampaignDefinition,
    PauseOn,
    StepRetries,
)
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.mailbox import MailHead
from outrider.domain.purposes import Purpose
from outrider.domain.screen_policies import TIME_ZONE_DEFAULT
from outrider.limits.campaigns import (
    BATCH_SIZE_DEFAULT,
    BATCH_SIZE_MAX,
    MESSAGES_MAX,
    NAME_MAX_CHARACTERS,
    RATED_FROM_MAX_MESSAGES,
    ROLLOUT_STEPS_MAX,
    STEP_ATTEMPTS_MAX,
    STEP_RETRY_DELAY_MAX_SECONDS,
)

Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(one_line)]


def _phase(name: str, info: ValidationInfo) -> str:
    known = CampaignContext.of(info).known_phases
    if name not in known:
        raise ValueError(f"is not a known phase; use one of {', '.join(known)}")
    return name


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


class CampaignModel(Document):
    name: Name
    phases: list[Annotated[str, AfterValidator(_phase)]] = Field(default=[LAUNCH])
    audience: AudienceDocument = Field(default=AudienceDocument(recipients=[]))
    messages: Annotated[
        list[MessageDocument],
        Field(min_length=1, max_length=MESSAGES_MAX),
        BeforeValidator(small_together),
    ]
    scheduled_for: Annotated[datetime | None, BeforeValidator(instant)] = None
    batch_size: Annotated[int, Field(ge=1, le=BATCH_SIZE_MAX)] = BATCH_SIZE_DEFAULT
    require_approval: bool = False
    topic: Topic | None = None
    transactional: bool = False
    sender: Annotated[Sender | None, Field(alias="from")] = None
    reply_to: Sender | None = None
    retry_policy: dict[str, _StepRetries] = Field(default={})
    rollout: Annotated[list[RolloutStepDocument], Field(max_length=ROLLOUT_STEPS_MAX)] = Field(
        default=[]
    )
    pause_on: _PauseOn | None = None
    winner: WinnerDocument | None = None

    @field_validator("winner")
    @classmethod
    def _has_a_test(
        cls, winner: WinnerDocument | None, info: ValidationInfo
    ) -> WinnerDocument | None:
        if winner is not None and {"messages", "rollout"} <= info.data.keys():
            varied = (message.variants for message in info.data["messages"])
            check_winner(winner, info.data["rollout"], varied)
        return winner

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
            tuple(
                message.message(purpose, MailHead(self.sender, self.reply_to))
                for message in self.messages
            ),
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
            None if self.winner is None else self.winner.rule(),
        )

    def _pause_on(self) -> PauseOn | None:
        if self.pause_on is not None:
            return PauseOn(**self.pause_on.model_dump())
        return ROLLOUT_LIMITS if self.rollout else None

    def _local_launch(self) -> LocalLaunch | None:
        return None


class LocalCampaignModel(CampaignModel):
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
