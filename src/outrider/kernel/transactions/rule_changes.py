"""Changes of rules and steps, compared with the stored ones in the transaction that writes them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import Conflict
from outrider.domain.ids import Scope
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.workflow_diff import (
    ChangeKind,
    ExistingRule,
    RuleChange,
    StepChange,
    WorkflowDiff,
    diff,
    field_changes,
    rule_change,
    step_change,
)
from outrider.domain.workflows import Rule, RuleId, StepId, WorkflowStep
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.transactions import rules, screening
from outrider.kernel.transactions.rules import NewStep, RuleRecord, StepRecord
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction


class ChangedBy(NamedTuple):
    """Who changes something, and when; with ids for new rows."""

    actor: str
    ids: IdSource
    now: datetime


class Wanted(NamedTuple):
    """The desired rules. Without permission to prune, rules that are not listed stay as they
    are."""

    rules: Sequence[WrittenRule]
    policies: ScreenPolicies | None = None
    prune: bool = False


class RuleWithSteps(NamedTuple):
    record: RuleRecord
    steps: Sequence[StepRecord]


def apply(
    scope: Scope, wanted: Wanted, expected: str | None, by: ChangedBy
) -> Transaction[WorkflowDiff]:
    yield from rules.lock(scope)
    found = yield from planned(scope, wanted)
    if expected not in (None, found.fingerprint()):
        raise Conflict(
            "the rules were changed since the diff was shown; nothing was applied",
            hint="review the diff again",
        )
    yield from _carried_out(scope, found, by)
    if wanted.policies is not None and found.policies:
        yield from rules.replace_policies(scope, wanted.policies, *by)
    return found


def put_rule(
    scope: Scope, written: WrittenRule, rule_id: str | None, by: ChangedBy
) -> Transaction[tuple[RuleRecord, bool]]:
    yield from rules.lock(scope)
    at_place = yield from rules.rule_at(scope, written.place)
    current = at_place
    if rule_id is not None:
        current = yield from rules.rule(scope, rule_id)
        if at_place is not None and at_place.rule.id != current.rule.id:
            raise Conflict(
                f"another rule exists for {written.place}: {at_place.rule.id}",
                hint="change or delete that one",
            )
        yield from _require_channel_kept(scope, current.rule, written)
    change = rule_change(current.rule if current else None, written)
    yield from _carried_out(scope, WorkflowDiff((change,)), by)
    now_there = yield from rules.rule_at(scope, written.place)
    assert now_there is not None
    return now_there, current is None


def put_step(
    scope: Scope,
    rule_id: str,
    written: WrittenStep,
    step_id: str | None,
    by: ChangedBy,
    *,
    is_another: bool,
) -> Transaction[tuple[StepRecord, bool]]:
    yield from rules.lock(scope)
    record, steps = yield from with_steps(scope, rule_id)
    there = [each.step for each in steps]
    current = None if is_another else _existing_step(there, written.step_order, step_id)
    if step_id is not None and current is None:
        raise rules.no_step(step_id)
    change = _of_steps(record.rule, [step_change(current, written)], there)
    rules.require_steps_room(len(there), change)
    added = yield from _carried_out(scope, WorkflowDiff((change,)), by)
    now_there = current.id if current else added[0].id
    return (yield from rules.step(scope, now_there)), current is None


def delete_rule(scope: Scope, rule_id: str, by: ChangedBy) -> Transaction[None]:
    yield from rules.lock(scope)
    found = (yield from rules.rule(scope, rule_id)).rule
    change = RuleChange(ChangeKind.REMOVED, WrittenRule.of(found).place, found)
    yield from _carried_out(scope, WorkflowDiff((change,)), by)


def delete_step(scope: Scope, step_id: str, by: ChangedBy) -> Transaction[None]:
    yield from rules.lock(scope)
    step = (yield from rules.step(scope, step_id)).step
    rule = (yield from rules.rule(scope, step.rule_id)).rule
    gone = StepChange(ChangeKind.REMOVED, step.step_order, 1, step)
    yield from _carried_out(scope, WorkflowDiff((_of_steps(rule, [gone]),)), by)


def _carried_out(scope: Scope, found: WorkflowDiff, by: ChangedBy) -> Transaction[list[NewStep]]:
    return (yield from rules.carry_out(scope, found, *by))


def everything(scope: Scope) -> Transaction[tuple[list[ExistingRule], ScreenPolicies]]:
    existing = yield from _existing(scope, None)
    return existing, (yield from screening.policies_of(scope))


def with_steps(scope: Scope, rule_id: str) -> Transaction[RuleWithSteps]:
    record = yield from rules.rule(scope, rule_id)
    steps = yield from rules.steps_of(scope, [record.rule.id])
    return RuleWithSteps(record, steps[record.rule.id])


def _existing(
    scope: Scope, wanted: Sequence[WrittenRule] | None
) -> Transaction[list[ExistingRule]]:
    """All rules; and the steps of the wanted ones, or of all."""
    found = [each.rule for each in (yield from rules.all_rules(scope))]
    places = None if wanted is None else {rule.place for rule in wanted}
    compared = [rule.id for rule in found if places is None or WrittenRule.of(rule).place in places]
    steps = yield from rules.steps_of(scope, compared)
    return [ExistingRule(rule, [each.step for each in steps.get(rule.id, ())]) for rule in found]


def planned(scope: Scope, wanted: Wanted) -> Transaction[WorkflowDiff]:
    existing = yield from _existing(scope, wanted.rules)
    counts = {each.rule.id: len(each.steps) for each in existing}
    found = diff(existing, wanted.rules, prune=wanted.prune)
    for change in found.rules:
        rules.require_steps_room(counts.get(change.rule_id or RuleId(""), 0), change)
    if wanted.policies is None:
        return found
    here = (yield from screening.policies_of(scope)).as_document()
    return replace(found, policies=tuple(field_changes(here, wanted.policies.as_document())))


def _require_channel_kept(scope: Scope, rule: Rule, written: WrittenRule) -> Transaction[None]:
    """Its steps were written for the channel: their subjects and targets may not fit another."""
    if rule.channel is written.channel:
        return
    steps = yield from rules.steps_of(scope, [rule.id])
    if steps[rule.id]:
        raise Conflict(
            f"the rule has steps for the channel {rule.channel.value}",
            hint="delete its steps first, or create a rule for the other channel",
        )


def _existing_step(
    steps: Sequence[WorkflowStep], step_order: int, step_id: str | None
) -> WorkflowStep | None:
    if step_id is not None:
        return next((step for step in steps if step.id == StepId(step_id)), None)
    same = [step for step in steps if step.step_order == step_order]
    if len(same) > 1:
        raise Conflict(
            f"{len(same)} steps of this rule have the order {step_order}",
            hint="use the step's ID instead: PUT /workflows/steps/{id}",
        )
    return same[0] if same else None


def _of_steps(
    rule: Rule, changed: Sequence[StepChange], there: Sequence[WorkflowStep] = ()
) -> RuleChange:
    """The rule unchanged, with changes to its steps; the others are needed for their age."""
    touched = {each.step_id for each in changed}
    others = [
        StepChange(ChangeKind.SAME, step.step_order, 1, step)
        for step in there
        if step.id not in touched
    ]
    place = WrittenRule.of(rule).place
    return RuleChange(ChangeKind.SAME, place, rule, steps=(*changed, *others))
