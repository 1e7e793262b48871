"""Workflows: which message follows from which domain event, to whom, and when.

An event and the rules of its trigger go in; a decision per channel and audience comes out, and for
an enabled rule the steps in order, with their due times and recipients.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType

from outrider.domain.purposes import UNSTATED, Purpose
from outrider.domain.states import Channel

DomainEventId = NewType("DomainEventId", str)
"""Our own id of an event; `event_id` is the one its sender chose."""
RuleId = NewType("RuleId", str)
StepId = NewType("StepId", str)

STEP_PASSED = "moment_passed"
"""Skip reason: the step was due before the event arrived."""
STEP_DELAY = "delay"
"""Wait reason: the step is not due yet."""

LEAD, PARTNER, AGENT = "lead", "partner", "agent"
"""The audiences, and the parties of an event's subject, known to the contract."""

Party = Mapping[str, Any]


class EventStatus(StrEnum):
    RECEIVED = "received"
    ROUTED = "routed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DomainEvent:
    """Something that happened in a customer's business."""

    id: DomainEventId
    event_id: str
    trigger: str
    occurred_at: datetime
    subject: Mapping[str, Any]
    variables: Mapping[str, Any]

    def party(self, name: str) -> Party:
        found = self.subject.get(name)
        return found if isinstance(found, Mapping) else {}

    def attributes(self) -> dict[str, Any]:
        """The names available to templates: the variables, then the subject's parties, then the
        event."""
        event_fields = {"id": self.event_id, "trigger": self.trigger}
        return {"event": event_fields, **self.subject, **self.variables}


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float = 0.0


class IfPast(StrEnum):
    """What happens to a message whose due time has passed when its event arrives."""

    SKIP = "skip"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class Relative:
    """An offset from a time that the event names; negative means before it."""

    path: str
    offset_seconds: float
    if_past: IfPast = IfPast.SKIP


Timing = Delay | Relative


@dataclass(frozen=True, slots=True)
class RecipientConfig:
    include_lead_contact: bool = False
    include_partner: bool = False
    include_agent: bool = False
    custom_phones: tuple[str, ...] = ()
    custom_emails: tuple[str, ...] = ()


class RoutePlace(NamedTuple):
    """The key of a rule or a legacy sender: each key has at most one of either."""

    channel: Channel
    audience: str


@dataclass(frozen=True, slots=True)
class Rule:
    id: RuleId
    trigger: str
    channel: Channel
    audience: str
    enabled: bool = True
    urgent: bool = False
    """Urgent messages ignore quiet hours, sending windows and the frequency cap."""
    purpose: Purpose = UNSTATED

    @property
    def place(self) -> RoutePlace:
        return RoutePlace(self.channel, self.audience)


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    id: StepId
    rule_id: RuleId
    step_order: int
    channel: Channel
    body: str
    created_at: datetime
    enabled: bool = True
    subject: str | None = None
    submission_target: str | None = None
    timing: Timing = Delay()
    recipients: RecipientConfig = RecipientConfig()
    digest_seconds: int | None = None
    topic: str | None = None
    """The topic of its messages, if it differs from that of its rule."""

    def purpose_in(self, rule: Purpose) -> Purpose:
        return rule if self.topic is None else rule._replace(topic=self.topic)


class Decision(StrEnum):
    """What is done for one channel and audience of an event."""

    STEPS = "steps"
    """An enabled rule: its steps are enqueued."""
    SUPPRESSED = "suppressed"
    """A disabled rule: no messages."""
    LEGACY = "legacy"
    """No rule: the legacy sender."""
    LEGACY_FALLBACK = "legacy_fallback"
    """An enabled rule that could not be enqueued, where a legacy sender exists."""
    FAILED = "failed"


def decide(
    rules: Iterable[Rule], legacy: Iterable[RoutePlace]
) -> list[tuple[RoutePlace, Rule | None, Decision]]:
    """A decision for each key that has a rule or a legacy sender, in a fixed order."""
    by_place = {rule.place: rule for rule in rules}
    decided = []
    for place in sorted({*by_place, *legacy}):
        rule = by_place.get(place)
        if rule is None:
            decision = Decision.LEGACY
        else:
            decision = Decision.STEPS if rule.enabled else Decision.SUPPRESSED
        decided.append((place, rule, decision))
    return decided


def in_order(steps: Iterable[WorkflowStep]) -> list[WorkflowStep]:
    """The enabled ones, by their order, then by their age."""
    return sorted(
        (step for step in steps if step.enabled),
        key=lambda step: (step.step_order, step.created_at, step.id),
    )


class DueTimePassed(NamedTuple):
    moment: datetime


class NoDueTime(NamedTuple):
    problem: str


def due_time(
    timing: Timing, event: DomainEvent, now: datetime
) -> datetime | DueTimePassed | NoDueTime:
    """When a step's message is due."""
    if isinstance(timing, Delay):
        return now + timedelta(seconds=timing.seconds)
    named = found_at(event, timing.path)
    if named is None:
        return NoDueTime(f"the event has no '{timing.path}'")
    try:
        base = datetime.fromisoformat(named) if isinstance(named, str) else None
    except ValueError:
        base = None
    if base is None or base.tzinfo is None:
        return NoDueTime(f"'{timing.path}' is not a time with a zone, such as 2026-12-01T09:00:00Z")
    try:
        due = (base + timedelta(seconds=timing.offset_seconds)).astimezone(UTC)
    except OverflowError:
        return NoDueTime(f"'{timing.path}' is too far in the past or future")
    if due >= now:
        return due
    return now if timing.if_past is IfPast.SEND else DueTimePassed(due)


def found_at(event: DomainEvent, path: str) -> object:
    """The value at a dotted path among the template names; None if there is none."""
    found: object = event.attributes()
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def channel_kind(channel: Channel) -> tuple[str, str]:
    """An item's kind and template, as the contract names them."""
    return channel.value, f"{channel.value}_send"


def parties_of(config: RecipientConfig) -> Sequence[str]:
    wanted = (
        (LEAD, config.include_lead_contact),
        (PARTNER, config.include_partner),
        (AGENT, config.include_agent),
    )
    return [name for name, included in wanted if included]
