"""The rule keeper: lists, writes and deletes rules and steps, and applies whole rule files.

Every change is a diff against the stored rules, computed in the transaction that applies it. It
refuses a diff that has changed since it was approved.
"""

from collections.abc import Iterable, Sequence

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import Scope
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.workflow_diff import (
    WorkflowDiff,
)
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import rule_changes, rules
from outrider.kernel.transactions.rule_changes import ChangedBy, RuleWithSteps, Wanted
from outrider.kernel.transactions.rules import RuleRecord, StepRecord
from outrider.kernel.workflows.step_targets import StepTargets


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
        return await self._store.read(rule_changes.with_steps(scope, rule_id))

    async def steps_page(self, scope: Scope, after: str, most: int) -> list[StepRecord]:
        """Of the whole workspace, oldest first."""
        return await self._store.read(rules.steps_page(scope, after, most))

    async def step(self, scope: Scope, step_id: str) -> StepRecord:
        return await self._store.read(rules.step(scope, step_id))

    async def export(self, scope: Scope) -> tuple[list[WrittenRule], ScreenPolicies]:
        """Everything, in the form of a rule file."""
        existing, policies = await self._store.read(rule_changes.everything(scope))
        written = [
            WrittenRule.of(rule, tuple(WrittenStep.of(step) for step in steps))
            for rule, steps in existing
        ]
        return written, policies

    async def put_rule(
        self, scope: Scope, written: WrittenRule, actor: str, rule_id: str | None = None
    ) -> tuple[RuleRecord, bool]:
        """The rule with this id, or for this channel and audience, as it is now; and whether it is
        new."""
        return await self._store.write(
            rule_changes.put_rule(scope, written, rule_id, self._by(actor))
        )

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
        """The step with this id, or with this order, as it is now; and whether it is new.

        `is_another` adds one, whatever its order.
        """
        self._require_targets([("", written)])
        return await self._store.write(
            rule_changes.put_step(
                scope, rule_id, written, step_id, self._by(actor), is_another=is_another
            )
        )

    async def delete_rule(self, scope: Scope, rule_id: str, actor: str) -> None:
        """Including its steps."""
        await self._store.write(rule_changes.delete_rule(scope, rule_id, self._by(actor)))

    async def delete_step(self, scope: Scope, step_id: str, actor: str) -> None:
        await self._store.write(rule_changes.delete_step(scope, step_id, self._by(actor)))

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
        return await self._store.read(rule_changes.planned(scope, Wanted(written, policies, prune)))

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
        """All of it in one transaction. `expected` is the fingerprint of the approved diff."""
        self._require_targets(_placed(written))
        wanted = Wanted(written, policies, prune)
        found = await self._store.write(
            rule_changes.apply(scope, wanted, expected, self._by(actor))
        )
        if found.policies:
            # This process's policy cache is updated at once.
            await self._policies.get(scope)
        return found

    def _by(self, actor: str) -> ChangedBy:
        return ChangedBy(actor, self._ids, self._clock.now())

    def _require_targets(self, steps: Iterable[tuple[str, WrittenStep]]) -> None:
        """Refuse a step that could never be sent when it is written, not when it is due."""
        problems = [
            Problem(f"{path}submissionTarget", found)
            for path, step in steps
            if step.submission_target is not None
            and isinstance(found := self._targets.find(step.channel, step.submission_target), str)
        ]
        if problems:
            raise InvalidInput("the steps do not match the registry", problems)


def _placed(wanted: Iterable[WrittenRule]) -> Iterable[tuple[str, WrittenStep]]:
    for index, rule in enumerate(wanted):
        for number, step in enumerate(rule.steps):
            yield f"rules[{index}].steps[{number}].", step
