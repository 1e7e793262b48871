"""The rule keeper: rules and steps listed, put, deleted, and a whole file of them applied.

What is written is compared with what is there, inside the transaction that changes it; who has seen
a diff before can have it refused where it is another one by now.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from outrider.domain.errors import Conflict, InvalidInput, Problem
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
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import rules, screening
from outrider.kernel.transactions.rules import NewStep, RuleRecord, StepRecord
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.ports.store import Transaction


class _Wanted(NamedTuple):
    """How things should be. Without leave to prune, what is not written stays as it is."""

    rules: Sequence[WrittenRule]
    policies: ScreenPolicies | None = None
    prune: bool = False


class RuleWithSteps(NamedTuple):
    record: RuleRecord
    steps: Sequence[StepRecord]


class RuleKeeper:
    def __init__(
        self, foundation: Foundation, targets: StepTargets, policies: PolicyKeeper
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._targets = targets
        self._policies = policies

    async def rules_page(
        self, scope: Scope, after: tuple[str, str, str], most: int, trigger: str | None = None
    ) -> list[RuleRecord]:
        return await self._store.read(rules.page(scope, after, most, trigger))

    async def rule(self, scope: Scope, rule_id: str) -> RuleWithSteps:
        return await self._store.read(_with_steps(scope, rule_id))

    async def steps_page(self, scope: Scope, after: str, most: int) -> list[StepRecord]:
        """Of the whole workspace, oldest first."""
        return await self._store.read(rules.steps_page(scope, after, most))

    async def step(self, scope: Scope, step_id: str) -> StepRecord:
        return await self._store.read(rules.step(scope, step_id))

    async def export(self, scope: Scope) -> tuple[list[WrittenRule], ScreenPolicies]:
        """Everything as a file would say it."""

        def found() -> Transaction[tuple[list[ExistingRule], ScreenPolicies]]:
            existing = yield from _existing(scope, None)
            return existing, (yield from screening.policies_of(scope))

        existing, policies = await self._store.read(found())
        written = [
            WrittenRule.of(rule, tuple(WrittenStep.of(step) for step in steps))
            for rule, steps in existing
        ]
        return written, policies

    async def put_rule(
        self, scope: Scope, written: WrittenRule, actor: str, rule_id: str | None = None
    ) -> tuple[RuleRecord, bool]:
        """The rule of this id, or of this place, as it is now; and whether it is new."""
        return await self._store.write(self._put_rule(scope, written, actor, rule_id))

    async def put_step(
        self,
        scope: Scope,
        rule_id: str,
        written: WrittenStep,
        actor: str,
        *,
        step_id: str | None = None,
        is_another: bool = False,
    ) -> tuple[StepRecord, bool]:
        """The step of this id, or the one of this order, as it is now; and whether it is new.

        `is_another` adds one, whatever its order.
        """
        self._require_targets([("", written)])
        return await self._store.write(
            self._put_step(scope, rule_id, written, actor, step_id, is_another=is_another)
        )

    async def delete_rule(self, scope: Scope, rule_id: str, actor: str) -> None:
        """With its steps."""
        await self._store.write(self._delete_rule(scope, rule_id, actor))

    async def delete_step(self, scope: Scope, step_id: str, actor: str) -> None:
        await self._store.write(self._delete_step(scope, step_id, actor))

    async def plan(
        self,
        scope: Scope,
        written: Sequence[WrittenRule],
        *,
        prune: bool,
        policies: ScreenPolicies | None = None,
    ) -> WorkflowDiff:
        """What applying would change now."""
        self._require_targets(_placed(written))
        return await self._store.read(_planned(scope, _Wanted(written, policies, prune)))

    async def apply(
        self,
        scope: Scope,
        written: Sequence[WrittenRule],
        actor: str,
        *,
        prune: bool,
        policies: ScreenPolicies | None = None,
        expected: str | None = None,
    ) -> WorkflowDiff:
        """All of it in one transaction. `expected` is the fingerprint of the diff agreed to."""
        self._require_targets(_placed(written))
        wanted = _Wanted(written, policies, prune)
        found = await self._store.write(self._apply(scope, wanted, actor, expected))
        if found.policies:
            # What this process remembers of them is heard of at once.
            await self._policies.get(scope)
        return found

    def _apply(
        self, scope: Scope, wanted: _Wanted, actor: str, expected: str | None
    ) -> Transaction[WorkflowDiff]:
        yield from rules.lock(scope)
        found = yield from _planned(scope, wanted)
        if expected not in (None, found.fingerprint()):
            raise Conflict(
                "the rules were changed since the diff was shown; nothing was applied",
                hint="look at the diff again",
            )
        yield from self._carried_out(scope, found, actor)
        if wanted.policies is not None and found.policies:
            yield from self._policies.replacing(scope, wanted.policies, actor)
        return found

    def _put_rule(
        self, scope: Scope, written: WrittenRule, actor: str, rule_id: str | None
    ) -> Transaction[tuple[RuleRecord, bool]]:
        yield from rules.lock(scope)
        at_place = yield from rules.rule_at(scope, written.place)
        current = at_place
        if rule_id is not None:
            current = yield from rules.rule(scope, rule_id)
            if at_place is not None and at_place.rule.id != current.rule.id:
                raise Conflict(
                    f"another rule is at {written.place}: {at_place.rule.id}",
                    hint="change or delete that one",
                )
            yield from _require_channel_kept(scope, current.rule, written)
        change = rule_change(current.rule if current else None, written)
        yield from self._carried_out(scope, WorkflowDiff((change,)), actor)
        now_there = yield from rules.rule_at(scope, written.place)
        assert now_there is not None
        return now_there, current is None

    def _put_step(
        self,
        scope: Scope,
        rule_id: str,
        written: WrittenStep,
        actor: str,
        step_id: str | None,
        *,
        is_another: bool,
    ) -> Transaction[tuple[StepRecord, bool]]:
        yield from rules.lock(scope)
        record, steps = yield from _with_steps(scope, rule_id)
        there = [each.step for each in steps]
        current = None if is_another else _meant(there, written.step_order, step_id)
        if step_id is not None and current is None:
            raise rules.no_step(step_id)
        change = _of_steps(record.rule, [step_change(current, written)], there)
        rules.require_steps_room(len(there), change)
        added = yield from self._carried_out(scope, WorkflowDiff((change,)), actor)
        now_there = current.id if current else added[0].id
        return (yield from rules.step(scope, now_there)), current is None

    def _delete_rule(self, scope: Scope, rule_id: str, actor: str) -> Transaction[None]:
        yield from rules.lock(scope)
        found = (yield from rules.rule(scope, rule_id)).rule
        change = RuleChange(ChangeKind.REMOVED, WrittenRule.of(found).place, found)
        yield from self._carried_out(scope, WorkflowDiff((change,)), actor)

    def _delete_step(self, scope: Scope, step_id: str, actor: str) -> Transaction[None]:
        yield from rules.lock(scope)
        step = (yield from rules.step(scope, step_id)).step
        rule = (yield from rules.rule(scope, step.rule_id)).rule
        gone = StepChange(ChangeKind.REMOVED, step.step_order, 1, step)
        yield from self._carried_out(scope, WorkflowDiff((_of_steps(rule, [gone]),)), actor)

    def _carried_out(
        self, scope: Scope, found: WorkflowDiff, actor: str
    ) -> Transaction[list[NewStep]]:
        return (yield from rules.carry_out(scope, found, actor, self._ids, self._clock.now()))

    def _require_targets(self, steps: Iterable[tuple[str, WrittenStep]]) -> None:
        """A step that could never be sent is refused when it is written, not when it is due."""
        problems = [
            Problem(f"{path}submissionTarget", found)
            for path, step in steps
            if step.submission_target is not None
            and isinstance(found := self._targets.find(step.channel, step.submission_target), str)
        ]
        if problems:
            raise InvalidInput("the steps do not fit the registry", problems)


def _placed(wanted: Iterable[WrittenRule]) -> Iterable[tuple[str, WrittenStep]]:
    for index, rule in enumerate(wanted):
        for number, step in enumerate(rule.steps):
            yield f"rules[{index}].steps[{number}].", step


def _with_steps(scope: Scope, rule_id: str) -> Transaction[RuleWithSteps]:
    record = yield from rules.rule(scope, rule_id)
    steps = yield from rules.steps_of(scope, [record.rule.id])
    return RuleWithSteps(record, steps[record.rule.id])


def _existing(
    scope: Scope, wanted: Sequence[WrittenRule] | None
) -> Transaction[list[ExistingRule]]:
    """All rules; and the steps of those that are wanted, or of all."""
    found = [each.rule for each in (yield from rules.all_rules(scope))]
    places = None if wanted is None else {rule.place for rule in wanted}
    compared = [rule.id for rule in found if places is None or WrittenRule.of(rule).place in places]
    steps = yield from rules.steps_of(scope, compared)
    return [ExistingRule(rule, [each.step for each in steps.get(rule.id, ())]) for rule in found]


def _planned(scope: Scope, wanted: _Wanted) -> Transaction[WorkflowDiff]:
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
            f"the rule has steps that were written for {rule.channel.value}",
            hint="delete its steps first, or put a rule for the other channel",
        )


def _meant(
    steps: Sequence[WorkflowStep], step_order: int, step_id: str | None
) -> WorkflowStep | None:
    if step_id is not None:
        return next((step for step in steps if step.id == StepId(step_id)), None)
    same = [step for step in steps if step.step_order == step_order]
    if len(same) > 1:
        raise Conflict(
            f"{len(same)} steps of this rule have the order {step_order}",
            hint="name the one that is meant by its id: PUT /workflows/steps/{id}",
        )
    return same[0] if same else None


def _of_steps(
    rule: Rule, changed: Sequence[StepChange], there: Sequence[WorkflowStep] = ()
) -> RuleChange:
    """The rule as it is, with changes of its steps; the others are told for their age."""
    touched = {each.step_id for each in changed}
    others = [
        StepChange(ChangeKind.SAME, step.step_order, 1, step)
        for step in there
        if step.id not in touched
    ]
    place = WrittenRule.of(rule).place
    return RuleChange(ChangeKind.SAME, place, rule, steps=(*changed, *others))
