"""Rules and steps as people write them: without ids and times, which the system assigns.

A file, a request and the database all produce the same values, so that they can be compared; as
documents they have the names and units that answers, diffs and exported files show.
"""

from dataclasses import dataclass
from typing import NamedTuple

from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.states import Channel
from outrider.domain.workflow_documents import config_document
from outrider.domain.workflows import (
    Delay,
    RecipientConfig,
    Rule,
    Timing,
    WorkflowStep,
)

SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3_600
UNITS = ((SECONDS_PER_HOUR, "Hours"), (SECONDS_PER_MINUTE, "Minutes"), (1, "Seconds"))

AT_ONCE = Delay()
NOBODY = RecipientConfig()

StepDocument = dict[str, object]


class RulePlace(NamedTuple):
    """The key of a rule: a workspace has at most one rule per key."""

    trigger: str
    channel: Channel
    audience: str

    def __str__(self) -> str:
        return f"{self.trigger}/{self.channel.value}/{self.audience}"


@dataclass(frozen=True, slots=True)
class WrittenStep:
    step_order: int
    channel: Channel
    body: str
    enabled: bool = True
    subject: str | None = None
    submission_target: str | None = None
    timing: Timing = AT_ONCE
    recipients: RecipientConfig = NOBODY
    digest_seconds: int | None = None
    topic: str | None = None

    @classmethod
    def of(cls, step: WorkflowStep) -> "WrittenStep":
        return cls(
            step.step_order,
            step.channel,
            step.body,
            step.enabled,
            step.subject,
            step.submission_target,
            step.timing,
            step.recipients,
            step.digest_seconds,
            step.topic,
        )

    def document(self) -> StepDocument:
        """Every field, times in seconds; null where unset."""
        timing = self.timing
        delay: int | float | None = None
        relative: dict[str, object] | None = None
        if isinstance(timing, Delay):
            delay = plain_number(timing.seconds)
        else:
            relative = {
                "path": timing.path,
                "offsetSeconds": plain_number(timing.offset_seconds),
                "ifPast": timing.if_past.value,
            }
        return {
            "stepOrder": self.step_order,
            "enabled": self.enabled,
            "channel": self.channel.value,
            "submissionTarget": self.submission_target,
            "subject": self.subject,
            "body": self.body,
            "delaySeconds": delay,
            "relativeTo": relative,
            "recipientConfig": config_document(self.recipients),
            "digestMinutes": digest_minutes(self.digest_seconds),
            "topic": self.topic,
        }


@dataclass(frozen=True, slots=True)
class WrittenRule:
    trigger: str
    channel: Channel
    audience: str
    enabled: bool = True
    urgent: bool = False
    steps: tuple[WrittenStep, ...] = ()
    purpose: Purpose = UNSTATED

    @classmethod
    def of(cls, rule: Rule, steps: tuple[WrittenStep, ...] = ()) -> "WrittenRule":
        return cls(
            rule.trigger,
            rule.channel,
            rule.audience,
            rule.enabled,
            rule.urgent,
            steps,
            rule.purpose,
        )

    @property
    def place(self) -> RulePlace:
        return RulePlace(self.trigger, self.channel, self.audience)

    def document(self) -> dict[str, object]:
        """Without its steps, which are compared separately."""
        return {
            "trigger": self.trigger,
            "channel": self.channel.value,
            "audience": self.audience,
            "enabled": self.enabled,
            "urgent": self.urgent,
            "topic": self.purpose.topic,
            "transactional": self.purpose.transactional,
        }


def file_document(rule: WrittenRule) -> dict[str, object]:
    """A rule as a file has it: defaults are omitted."""
    document = rule.document()
    if not rule.urgent:
        del document["urgent"]
    if rule.purpose.topic is None:
        del document["topic"]
    if not rule.purpose.transactional:
        del document["transactional"]
    document["steps"] = [_file_step(step, rule.channel) for step in rule.steps]
    return document


def _file_step(step: WrittenStep, rule_channel: Channel) -> StepDocument:
    document = {name: value for name, value in step.document().items() if value is not None}
    if step.channel is rule_channel:
        del document["channel"]
    if step.enabled:
        del document["enabled"]
    document.pop("delaySeconds", None)
    timing = step.timing
    if not isinstance(timing, Delay):
        document["relativeTo"] = {
            "path": timing.path,
            **_in_largest_unit("offset", timing.offset_seconds),
            "ifPast": timing.if_past.value,
        }
    elif timing.seconds:
        document |= _in_largest_unit("delay", timing.seconds)
    document["recipientConfig"] = {
        name: value for name, value in config_document(step.recipients).items() if value
    }
    return document


def _in_largest_unit(name: str, seconds: float) -> dict[str, object]:
    for size, unit in UNITS:
        if seconds % size == 0:
            return {f"{name}{unit}": int(seconds // size)}
    return {f"{name}Seconds": seconds}


def digest_minutes(seconds: int | None) -> int | None:
    return None if seconds is None else seconds // SECONDS_PER_MINUTE


def plain_number(seconds: float) -> int | float:
    """Whole seconds without a fraction, as people write them."""
    return int(seconds) if seconds == int(seconds) else seconds
