"""What a team wants sent: a campaign's definition, as plain values the deployer can plan from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from outrider.domain.ids import AssetId, CampaignId
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.mailbox import USUAL_HEAD, MailHead
from outrider.domain.markup import is_html
from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.rollouts import RolloutStep
from outrider.domain.states import Channel
from outrider.domain.variants import Variant, WinnerRule

LAUNCH = "launch"

JOB_TYPES = {
    Channel.EMAIL: "email_send_batch",
    Channel.SMS: "sms_send_batch",
    Channel.PUSH: "push_send_batch",
    Channel.WHATSAPP: "whatsapp_send_batch",
    Channel.VOICE: "voice_call_batch",
    Channel.SOCIAL: "social_post_batch",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a campaign, before it becomes an immutable asset."""

    id: str
    channel: Channel
    submission_target: str
    body: str
    subject: str | None = None
    script_version: str | None = None
    purpose: Purpose = UNSTATED
    """Defaults to its campaign's."""
    head: MailHead = USUAL_HEAD
    variants: tuple[Variant, ...] = ()
    """Then one of these texts is sent instead of its own."""
    variant: str | None = None
    """Which of them this is."""

    @property
    def is_html(self) -> bool:
        return self.channel is Channel.EMAIL and is_html(self.body)

    @property
    def texts(self) -> "tuple[Message, ...]":
        """What is sent of it: itself, or each of its variants, under the same id."""
        if not self.variants:
            return (self,)
        return tuple(
            replace(
                self, subject=each.subject, body=each.body, script_version=each.script_version,
                variants=(), variant=each.id,
            )
            for each in self.variants
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asset:
    """An immutable version of a message; the ledger refers to it instead of keeping bodies."""

    id: AssetId
    version: int
    message: Message


@dataclass(frozen=True, slots=True)
class StepRetries:
    """How often the plan itself restarts a phase's step after its job is dead."""

    max_attempts: int = 1
    delay_seconds: int = 0


NO_RETRIES = StepRetries()


RATED_FROM_MESSAGES = 100
"""Two bounces among ten messages would be 20 %."""


@dataclass(frozen=True, slots=True)
class PauseOn:
    """Shares of a launch's messages; with a higher rate it is paused. Failures and silence are
    judged in a rollout only."""

    bounce_rate: float | None = None
    complaint_rate: float | None = None
    failure_rate: float | None = None
    silence_rate: float | None = None
    minimum_messages: int = RATED_FROM_MESSAGES
    """From how many messages on they are judged, unless a rate is too high for the launch as a
    whole, however the rest of it ends."""


@dataclass(frozen=True, slots=True)
class CampaignDefinition:
    name: str
    phases: tuple[str, ...]
    messages: tuple[Message, ...]
    batch_size: int
    scheduled_for: datetime | None = None
    require_approval: bool = False
    purpose: Purpose = UNSTATED
    retry_policy: Mapping[str, StepRetries] = field(default_factory=dict)
    """By phase."""
    pause_on: PauseOn | None = None
    local_launch: LocalLaunch | None = None
    """Then `scheduled_for` is when that time comes somewhere for the first time."""
    rollout: tuple[RolloutStep, ...] = ()
    """Empty: everybody is sent to at once."""
    winner: WinnerRule | None = None
    """Who chooses the variant of the rollout's last step. None: every step has all variants."""

    @property
    def texts(self) -> tuple[Message, ...]:
        """Of all messages, with their variants."""
        return tuple(text for message in self.messages for text in message.texts)

    @property
    def awaiting_step(self) -> int | None:
        """The step of the rollout that waits for a winner."""
        return len(self.rollout) if self.winner is not None else None


@dataclass(frozen=True, slots=True)
class Campaign:
    id: CampaignId
    definition: CampaignDefinition


def run_channel(messages: tuple[Message, ...]) -> str:
    """The channel a run is filed under: its own where it has one, else `mixed`."""
    channels = {message.channel.value for message in messages}
    return channels.pop() if len(channels) == 1 else "mixed"
