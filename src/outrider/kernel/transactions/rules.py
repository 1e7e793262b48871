"""Rules and steps: read in pages, and changed by applying an audited diff.

Every change is a diff, of one step or of a whole file, and takes one statement per kind of change.
Changes of a workspace are serialised, so that its limits and unique places hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import Scope, is_uuid
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.workflow_diff import ChangeKind, RuleChange, StepChange, WorkflowDiff
from outrider.domain.workflow_documents import config_document, timing_document
from outrider.domain.workflows import Rule, RuleId, StepId, WorkflowStep
from outrider.domain.written_workflows import RulePlace, WrittenStep
from outrider.kernel.transactions import policy_holds, screening
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.domain_events import rule_from, step_from
from outrider.limits.workflows import WORKFLOW_RULES_MAX, WORKFLOW_STEPS_MAX
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Transaction, Window, ask


class RuleRecord(NamedTuple):
    rule: Rule
    created_at: datetime
    updated_at: datetime


class StepRecord(NamedTuple):
    step: WorkflowStep
    updated_at: datetime


class NewStep(NamedTuple):
    id: StepId
    rule_id: RuleId
    step: WrittenStep
    created_at: datetime


FIRST_PLACE = ("", "", "")


def lock(scope: Scope) -> Transaction[None]:
    """No other transaction changes the workspace's rules until the commit."""
    yield from ask("lock_workspace", **scope._asdict())


def page(
    scope: Scope, after: tuple[str, str, str], most: int, trigger: str | None = None
) -> Transaction[list[RuleRecord]]:
    """Ordered by place, those of one trigger or of all; `after` is a rule's place."""
    after_trigger, after_channel, after_audience = after
    if trigger is None:
        rows = yield from ask(
            "workflow_rules_page",
            **scope._asdict(),
            after_trigger=after_trigger,
            after_channel=after_channel,
            after_audience=after_audience,
            most=most,
        )
    else:
        rows = yield from ask(
            "workflow_rules_of_trigger",
            **scope._asdict(),
            trigger_name=trigger,
            after_channel=after_channel,
            after_audience=after_audience,
            most=most,
        )
    return [_rule(row) for row in rows]


def all_rules(scope: Scope) -> Transaction[list[RuleRecord]]:
    return (yield from page(scope, FIRST_PLACE, WORKFLOW_RULES_MAX))


def rule(scope: Scope, rule_id: str) -> Transaction[RuleRecord]:
    found = is_uuid(rule_id)
    rows = (yield from ask("workflow_rule_by_id", **scope._asdict(), id=rule_id)) if found else []
    if not rows:
        raise NotFound(f"there is no rule {rule_id}", hint="`outrider workflow list` shows them")
    return _rule(rows[0])


def rule_at(scope: Scope, place: RulePlace) -> Transaction[RuleRecord | None]:
    rows = yield from ask(
        "workflow_rule_at",
        **scope._asdict(),
        trigger_name=place.trigger,
        channel=place.channel.value,
        audience=place.audience,
    )
    return _rule(rows[0]) if rows else None


def steps_of(
    scope: Scope, rule_ids: Sequence[RuleId]
) -> Transaction[dict[RuleId, list[StepRecord]]]:
    """Each rule's steps in their order, including disabled ones."""
    found: dict[RuleId, list[StepRecord]] = {rule_id: [] for rule_id in rule_ids}
    if rule_ids:
        rows = yield from ask(
            "workflow_steps_in_order", {"id": sorted(rule_ids)}, **scope._asdict()
        )
        for each in map(_step, rows):
            found[each.step.rule_id].append(each)
    return found


def steps_page(scope: Scope, after: str, most: int) -> Transaction[list[StepRecord]]:
    rows = yield from ask("workflow_steps_page", **scope._asdict(), after=after, most=most)
    return [_step(row) for row in rows]


def step(scope: Scope, step_id: str) -> Transaction[StepRecord]:
    found = is_uuid(step_id)
    rows = (yield from ask("workflow_step_by_id", **scope._asdict(), id=step_id)) if found else []
    if not rows:
        raise no_step(step_id)
    return _step(rows[0])


def no_step(step_id: str) -> NotFound:
    return NotFound(f"there is no step {step_id}", hint="`outrider workflow show RULE` lists them")


def carry_out(
    scope: Scope, diff: WorkflowDiff, actor: str, ids: IdSource, now: datetime
) -> Transaction[list[NewStep]]:
    """Apply the diff, if it contains anything; returns the steps it added."""
    changes = [change for change in diff.rules if change.changes_something]
    if not changes:
        return []
    added = [change for change in changes if change.kind is ChangeKind.ADDED]
    if added:
        counted = yield from ask("count_workflow_rules", **scope._asdict())
        gone = sum(change.kind is ChangeKind.REMOVED for change in changes)
        _require_room(
            "a workspace has", "rules", counted[0][0] + len(added) - gone, WORKFLOW_RULES_MAX
        )
    new_ids = iter(ids.batch(len(changes)))
    rule_ids = [change.rule_id or RuleId(next(new_ids)) for change in changes]
    numbered = list(zip(rule_ids, changes, strict=True))
    steps = list(_new_steps(numbered, ids, now))
    yield from _removed(scope, changes)
    if new := _rule_window(ChangeKind.ADDED, numbered):
        yield from ask("insert_workflow_rules", new, **scope._asdict(), now=now)
    if changed := _rule_window(ChangeKind.CHANGED, numbered):
        yield from ask("update_workflow_rules", changed, **scope._asdict(), now=now)
    yield from _steps_changed(scope, changes, now)
    if steps:
        yield from ask("insert_workflow_steps", _step_window(steps), **scope._asdict(), now=now)
    entries = [_entry(scope, rule_id, change, actor) for rule_id, change in numbered]
    yield from record(entries, ids, now)
    return steps


def require_steps_room(steps_now: int, change: RuleChange) -> None:
    steps = steps_now + change.count(ChangeKind.ADDED) - change.count(ChangeKind.REMOVED)
    _require_room(f"the rule {change.place} has", "steps", steps, WORKFLOW_STEPS_MAX)


def _require_room(what: str, of: str, would_be: int, most: int) -> None:
    if would_be > most:
        raise InvalidInput(
            f"{what} at most {most:,} {of}; this would be {would_be:,}",
            hint="remove some that are no longer used",
        )


def _new_steps(
    numbered: Iterable[tuple[RuleId, RuleChange]], ids: IdSource, now: datetime
) -> Iterator[NewStep]:
    """Steps with the same order are distinguished by age: each is older than the one written after
    it, and younger than all existing ones, even if the clock went back."""
    for rule_id, change in numbered:
        wanted = [each.wanted for each in change.steps if each.kind is ChangeKind.ADDED]
        there = [each.existing.created_at for each in change.steps if each.existing]
        begin = max([now, *(created_at + timedelta(microseconds=1) for created_at in there)])
        new_ids = ids.batch(len(wanted))
        for index, (new_id, each) in enumerate(zip(new_ids, wanted, strict=True)):
            assert each is not None
            yield NewStep(StepId(new_id), rule_id, each, begin + timedelta(microseconds=index))


def _removed(scope: Scope, changes: Sequence[RuleChange]) -> Transaction[None]:
    gone_rules = [
        change.rule_id for change in changes if change.kind is ChangeKind.REMOVED and change.rule_id
    ]
    gone_steps = [
        step.step_id
        for change in changes
        for step in change.steps
        if step.kind is ChangeKind.REMOVED and step.step_id
    ]
    if gone_steps:
        yield from ask("delete_workflow_steps", {"id": sorted(gone_steps)}, **scope._asdict())
    if gone_rules:
        yield from ask("delete_workflow_rules", {"id": sorted(gone_rules)}, **scope._asdict())


def _rule_window(kind: ChangeKind, numbered: Sequence[tuple[RuleId, RuleChange]]) -> Window | None:
    written = [
        (rule_id, change.wanted)
        for rule_id, change in numbered
        if change.kind is kind and change.wanted is not None
    ]
    if not written:
        return None
    return {
        "id": [rule_id for rule_id, _ in written],
        "trigger_name": [rule.trigger for _, rule in written],
        "channel": [rule.channel.value for _, rule in written],
        "audience": [rule.audience for _, rule in written],
        "enabled": [rule.enabled for _, rule in written],
        "urgent": [rule.urgent for _, rule in written],
        "topic": [rule.purpose.topic for _, rule in written],
        "transactional": [rule.purpose.transactional for _, rule in written],
    }


def _steps_changed(scope: Scope, changes: Sequence[RuleChange], now: datetime) -> Transaction[None]:
    written = [
        (each.step_id, each.wanted)
        for change in changes
        for each in change.steps
        if each.kind is ChangeKind.CHANGED and each.wanted is not None
    ]
    if written:
        window = {"id": [step_id for step_id, _ in written], **_columns([s for _, s in written])}
        yield from ask("update_workflow_steps", window, **scope._asdict(), now=now)


def _step_window(steps: Sequence[NewStep]) -> Window:
    return {
        "id": [each.id for each in steps],
        "rule_id": [each.rule_id for each in steps],
        **_columns([each.step for each in steps]),
        "created_at": [each.created_at for each in steps],
    }


def _columns(steps: Sequence[WrittenStep]) -> dict[str, Sequence[object]]:
    return {
        "step_order": [step.step_order for step in steps],
        "enabled": [step.enabled for step in steps],
        "channel": [step.channel.value for step in steps],
        "submission_target": [step.submission_target for step in steps],
        "subject": [step.subject for step in steps],
        "body": [step.body for step in steps],
        "timing": [_json(timing_document(step.timing)) for step in steps],
        "recipient_config": [_json(config_document(step.recipients)) for step in steps],
        "digest_seconds": [step.digest_seconds for step in steps],
        "topic": [step.topic for step in steps],
    }


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()


def _entry(scope: Scope, rule_id: RuleId, change: RuleChange, actor: str) -> AuditEntry:
    """Which fields changed, but not their values: bodies and addresses stay out of the log."""
    event = {
        ChangeKind.ADDED: "workflow.rule_added",
        ChangeKind.REMOVED: "workflow.rule_removed",
    }.get(change.kind, "workflow.rule_changed")
    detail: dict[str, object] = {
        "ruleId": rule_id,
        **change.place._asdict(),
        "fields": [field.field for field in change.fields],
        "steps": [_step_detail(step) for step in change.steps if step.fields or _is_gone(step)],
    }
    return AuditEntry(scope, event, actor, detail=detail)


def _is_gone(step: StepChange) -> bool:
    return step.kind is ChangeKind.REMOVED


def _step_detail(step: StepChange) -> dict[str, object]:
    return {
        "stepOrder": step.step_order,
        "stepId": step.step_id,
        "change": step.kind,
        "fields": [field.field for field in step.fields],
    }


def _rule(row: Row) -> RuleRecord:
    *of_rule, created_at, updated_at = row
    return RuleRecord(rule_from(of_rule), created_at, updated_at)


def _step(row: Row) -> StepRecord:
    *step, updated_at = row
    return StepRecord(step_from(step), updated_at)


def replace_policies(
    scope: Scope, policies: ScreenPolicies, actor: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    """With the rules: an approved diff of both must not overwrite changes made meanwhile."""
    yield from lock(scope)
    yield from screening.set_policies(scope, policies, now)
    yield from policy_holds.wake(scope, now)
    document = policies.as_document()
    entry = AuditEntry(scope, "workflow_policy.replaced", actor, detail=document)
    yield from record([entry], ids, now)
