"""Rules and steps of workflows on the wire, and what applying a file of them changes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.domain.purposes import TOPIC_PATTERN
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.states import Channel
from outrider.domain.workflow_diff import (
    ChangeKind,
    FieldChange,
    RuleChange,
    StepChange,
    WorkflowDiff,
)
from outrider.domain.workflows import IfPast
from outrider.domain.written_workflows import WrittenRule, WrittenStep, file_document
from outrider.kernel.transactions.rule_changes import RuleWithSteps
from outrider.kernel.transactions.rules import RuleRecord, StepRecord
from outrider.limits.campaigns import SUBJECT_MAX_CHARACTERS
from outrider.limits.workflows import (
    CUSTOM_RECIPIENTS_MAX,
    STEP_ORDER_MAX,
    WORKFLOW_RULES_MAX,
    WORKFLOW_STEPS_MAX,
)

RULE_EXAMPLE = {"trigger": "quote_sent", "channel": "sms", "audience": "lead", "enabled": True}
STEP_EXAMPLE = {
    "stepOrder": 1,
    "body": "Your quote {{ quote.number }} is ready",
    "delayMinutes": 5,
    "recipientConfig": {"includeLeadContact": True},
}


class RuleAnswer(Answer):
    id: str
    trigger: str
    channel: Channel
    audience: str
    enabled: bool
    urgent: bool = Field(description="Ignores quiet hours, sending window and frequency cap.")
    topic: str | None = Field(
        description="What a recipient can opt out of without leaving the channel."
    )
    transactional: bool = Field(
        description="Blocked only by opt-outs that include transactional messages."
    )
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, record: RuleRecord) -> "RuleAnswer":
        return cls(**_rule_fields(record))


class RulePut(RuleAnswer, Success):
    @classmethod
    def of(cls, record: RuleRecord) -> "RulePut":
        return cls(**_rule_fields(record))


class RelativeAnswer(Answer):
    path: str
    offset_seconds: float
    if_past: IfPast


class RecipientsAnswer(Answer):
    include_lead_contact: bool
    include_partner: bool
    include_agent: bool
    custom_phones: list[str]
    custom_emails: list[str]


class StepAnswer(Answer):
    id: str
    rule_id: str
    step_order: int
    enabled: bool
    channel: Channel
    submission_target: str | None = Field(
        description="Null means the registry's only target for the channel, when the event is"
        " routed."
    )
    subject: str | None
    body: str
    delay_seconds: float | None
    relative_to: RelativeAnswer | None
    recipient_config: RecipientsAnswer
    digest_minutes: int | None
    topic: str | None = Field(description="Null means the topic of its rule.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, record: StepRecord) -> "StepAnswer":
        return cls.model_validate(_step_fields(record))


class StepPut(StepAnswer, Success):
    @classmethod
    def of(cls, record: StepRecord) -> "StepPut":
        return cls.model_validate(_step_fields(record))


class RuleWithStepsAnswer(RuleAnswer):
    steps: list[StepAnswer]

    @classmethod
    def of_both(cls, found: RuleWithSteps) -> "RuleWithStepsAnswer":
        return cls(
            **_rule_fields(found.record), steps=[StepAnswer.of(step) for step in found.steps]
        )


def _rule_fields(record: RuleRecord) -> dict[str, Any]:
    rule = record.rule
    return {
        "id": rule.id,
        "trigger": rule.trigger,
        "channel": rule.channel,
        "audience": rule.audience,
        "enabled": rule.enabled,
        "urgent": rule.urgent,
        "topic": rule.purpose.topic,
        "transactional": rule.purpose.transactional,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


def _step_fields(record: StepRecord) -> dict[str, Any]:
    step = record.step
    return {
        **WrittenStep.of(step).document(),
        "id": step.id,
        "ruleId": step.rule_id,
        "createdAt": step.created_at,
        "updatedAt": record.updated_at,
    }


class WorkflowsAnswer(Answer):
    """All rules with their steps, as `PUT /workflows` and `outrider workflow apply` take them."""

    rules: list[dict[str, Any]]
    policies: dict[str, Any] | None = Field(description="Null if none was ever set.")

    @classmethod
    def of(cls, rules: Sequence[WrittenRule], policies: ScreenPolicies) -> "WorkflowsAnswer":
        is_set = policies != ScreenPolicies()
        return cls(
            rules=[file_document(rule) for rule in rules],
            policies=policies.as_document() if is_set else None,
        )


class FieldChangeAnswer(Answer):
    field: str
    before: Any
    after: Any


class StepChangeAnswer(Answer):
    change: ChangeKind
    step_order: int
    ordinal: int = Field(description="Its number among the steps with this order, from 1.")
    step_id: str | None
    fields: list[FieldChangeAnswer]

    @classmethod
    def of(cls, change: StepChange) -> "StepChangeAnswer":
        return cls(
            change=change.kind,
            step_order=change.step_order,
            ordinal=change.ordinal,
            step_id=change.step_id,
            fields=_fields(change.fields),
        )


class RuleChangeAnswer(Answer):
    change: ChangeKind
    trigger: str
    channel: Channel
    audience: str
    rule_id: str | None
    fields: list[FieldChangeAnswer]
    steps: list[StepChangeAnswer]

    @classmethod
    def of(cls, change: RuleChange) -> "RuleChangeAnswer":
        return cls(
            **change.place._asdict(),
            change=change.kind,
            rule_id=change.rule_id,
            fields=_fields(change.fields),
            steps=[
                StepChangeAnswer.of(step)
                for step in change.steps
                if step.kind is not ChangeKind.SAME
            ],
        )


class DiffAnswer(Success):
    """What was applied, or would be; unchanged rules and steps are only counted."""

    applied: bool = Field(description="False for a dry run, or if nothing changes.")
    fingerprint: str = Field(description="The `expected` of an apply that agrees to this diff.")
    added: int
    changed: int
    removed: int
    kept: int = Field(description="Existing rules and steps that the document does not contain.")
    same: int
    rules: list[RuleChangeAnswer]
    policies: list[FieldChangeAnswer]

    @classmethod
    def of(cls, diff: WorkflowDiff, *, applied: bool) -> "DiffAnswer":
        return cls(
            applied=applied and diff.changes_something,
            fingerprint=diff.fingerprint(),
            added=diff.count(ChangeKind.ADDED),
            changed=diff.count(ChangeKind.CHANGED),
            removed=diff.count(ChangeKind.REMOVED),
            kept=diff.count(ChangeKind.KEPT),
            same=diff.count(ChangeKind.SAME),
            rules=[RuleChangeAnswer.of(rule) for rule in diff.rules if rule.is_worth_telling],
            policies=_fields(diff.policies),
        )


def _fields(changes: Sequence[FieldChange]) -> list[FieldChangeAnswer]:
    return [FieldChangeAnswer(**change._asdict()) for change in changes]


def rule_document() -> dict[str, Any]:
    """The format of a rule, for the OpenAPI document; `outrider.documents` reads it."""
    return _object(
        {
            "trigger": {"type": "string", "pattern": "^[a-z][a-z0-9_.]{0,63}$"},
            "channel": {"enum": [each.value for each in Channel]},
            "audience": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"},
            "enabled": {"type": "boolean", "default": True},
            "urgent": {"type": "boolean", "default": False},
            "topic": {"type": ["string", "null"], "pattern": TOPIC_PATTERN},
            "transactional": {"type": "boolean", "default": False},
        },
        ["trigger", "channel", "audience"],
        RULE_EXAMPLE,
    )


def step_document(*, with_rule: bool) -> dict[str, Any]:
    """The format of a step; in a request for a new one it names its rule."""
    time: dict[str, Any] = {"type": ["number", "null"]}
    one_of_them = "One of delaySeconds, delayMinutes, delayHours and relativeTo."
    rule = {"ruleId": {"type": "string"}} if with_rule else {}
    return _object(
        {
            **rule,
            "stepOrder": {"type": "integer", "minimum": 0, "maximum": STEP_ORDER_MAX},
            "enabled": {"type": "boolean", "default": True},
            "channel": {"enum": [*(each.value for each in Channel), None]},
            "submissionTarget": {"type": ["string", "null"]},
            "subject": {"type": ["string", "null"], "maxLength": SUBJECT_MAX_CHARACTERS},
            "body": {"type": "string", "minLength": 1},
            "delaySeconds": {**time, "description": one_of_them},
            "delayMinutes": time,
            "delayHours": time,
            "relativeTo": {
                "type": ["object", "null"],
                "description": "A moment that the event names, by `path`; `offsetSeconds`,"
                " `offsetMinutes` or `offsetHours` from it; `ifPast`: skip or send.",
                "examples": [{"path": "appointment.startsAt", "offsetHours": -24}],
            },
            "recipientConfig": {
                "type": "object",
                "description": "`includeLeadContact`, `includePartner`, `includeAgent`;"
                f" `customPhones` and `customEmails`, at most {CUSTOM_RECIPIENTS_MAX} each.",
            },
            "digestMinutes": {"type": ["integer", "null"]},
            "topic": {"type": ["string", "null"], "pattern": TOPIC_PATTERN},
        },
        ["stepOrder", "body", *rule],
        {**STEP_EXAMPLE, **({"ruleId": "01900000-0000-7000-8000-000000000000"} if rule else {})},
    )


def workflows_document() -> dict[str, Any]:
    """The format of a whole file; its rules and steps are those of the other requests."""
    return _object(
        {
            "rules": {
                "type": "array",
                "items": {
                    "type": "object",
                    "description": "A rule with its `steps`, at most"
                    f" {WORKFLOW_STEPS_MAX} of them; their channel is the rule's by default.",
                },
                "maxItems": WORKFLOW_RULES_MAX,
            },
            "policies": {"type": ["object", "null"]},
        },
        example={"rules": [{**RULE_EXAMPLE, "steps": [STEP_EXAMPLE]}]},
    )


def _object(
    properties: dict[str, Any], required: Sequence[str] = (), example: object = None
) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    if required:
        schema["required"] = list(required)
    if example is not None:
        schema["examples"] = [example]
    return schema
