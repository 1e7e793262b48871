"""What applying written rules would change: rules matched by key, steps by order.

Steps of equal order are matched by age here and by position in the file, so that editing a step's
text keeps its id and age. Nothing is removed unless requested.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple

from outrider.domain.workflows import Rule, RuleId, StepId, WorkflowStep
from outrider.domain.written_workflows import RulePlace, WrittenRule, WrittenStep


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    KEPT = "kept"
    """It exists but was not written; it stays unless removal is allowed."""
    SAME = "same"


CHANGING = (ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REMOVED)


class FieldChange(NamedTuple):
    """`field` is a path such as `recipientConfig.customEmails`."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class StepChange:
    """`ordinal` counts the steps of one order, from 1."""

    kind: ChangeKind
    step_order: int
    ordinal: int
    existing: WorkflowStep | None = None
    wanted: WrittenStep | None = None
    fields: tuple[FieldChange, ...] = ()

    @property
    def step_id(self) -> StepId | None:
        return self.existing.id if self.existing else None


@dataclass(frozen=True, slots=True)
class RuleChange:
    kind: ChangeKind
    place: RulePlace
    existing: Rule | None = None
    wanted: WrittenRule | None = None
    fields: tuple[FieldChange, ...] = ()
    steps: tuple[StepChange, ...] = ()

    @property
    def rule_id(self) -> RuleId | None:
        return self.existing.id if self.existing else None

    @property
    def changes_something(self) -> bool:
        return self.kind in CHANGING or any(step.kind in CHANGING for step in self.steps)

    @property
    def is_worth_telling(self) -> bool:
        """Something changes, or stays although it was not written."""
        kept = self.kind is ChangeKind.KEPT
        return kept or self.changes_something or self.count(ChangeKind.KEPT) > 0

    def count(self, kind: ChangeKind) -> int:
        return sum(step.kind is kind for step in self.steps)


@dataclass(frozen=True, slots=True)
class WorkflowDiff:
    rules: tuple[RuleChange, ...]
    policies: tuple[FieldChange, ...] = ()

    @property
    def changes_something(self) -> bool:
        return bool(self.policies) or any(rule.changes_something for rule in self.rules)

    def count(self, kind: ChangeKind) -> int:
        """Rules and steps together."""
        return sum((rule.kind is kind) + rule.count(kind) for rule in self.rules)

    def fingerprint(self) -> str:
        """The same for the same changes: approval of one diff does not approve another."""
        changed_fields = [
            [rule.kind, str(rule.place), rule.rule_id, rule.fields,
             [[step.kind, step.step_order, step.ordinal, step.step_id, step.fields]
              for step in rule.steps]]
            for rule in self.rules
        ]  # fmt: skip
        return hashlib.sha256(json.dumps([changed_fields, self.policies]).encode()).hexdigest()


class ExistingRule(NamedTuple):
    rule: Rule
    steps: Sequence[WorkflowStep]


def diff(
    existing: Iterable[ExistingRule], wanted: Iterable[WrittenRule], *, prune: bool
) -> WorkflowDiff:
    """In the order of what was written, then what exists besides; removing a rule removes its
    steps."""
    here = {WrittenRule.of(each.rule).place: each for each in existing}
    written = {rule.place: rule for rule in wanted}
    changes = [_rule_change(here.get(place), rule, prune=prune) for place, rule in written.items()]
    gone = ChangeKind.REMOVED if prune else ChangeKind.KEPT
    changes += [
        RuleChange(gone, place, here[place].rule) for place in sorted(here.keys() - written.keys())
    ]
    return WorkflowDiff(tuple(changes))


def rule_change(existing: Rule | None, wanted: WrittenRule) -> RuleChange:
    """One rule on its own, its steps unchanged."""
    if existing is None:
        fields = tuple(field_changes({}, wanted.document()))
        return RuleChange(ChangeKind.ADDED, wanted.place, None, wanted, fields)
    fields = tuple(field_changes(WrittenRule.of(existing).document(), wanted.document()))
    kind = ChangeKind.CHANGED if fields else ChangeKind.SAME
    return RuleChange(kind, wanted.place, existing, wanted, fields)


def step_change(existing: WorkflowStep | None, wanted: WrittenStep, ordinal: int = 1) -> StepChange:
    order = wanted.step_order
    if existing is None:
        fields = tuple(field_changes({}, wanted.document()))
        return StepChange(ChangeKind.ADDED, order, ordinal, None, wanted, fields)
    before = WrittenStep.of(existing).document()
    fields = tuple(field_changes(before, wanted.document()))
    kind = ChangeKind.CHANGED if fields else ChangeKind.SAME
    return StepChange(kind, order, ordinal, existing, wanted, fields)


def field_changes(
    before: Mapping[str, object], after: Mapping[str, object], within: str = ""
) -> Iterator[FieldChange]:
    """Field by field, including nested objects; absent and null are equal."""
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        path = f"{within}{name}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from field_changes(old, new, f"{path}.")
        elif old != new:
            yield FieldChange(path, old, new)


def _rule_change(found: ExistingRule | None, wanted: WrittenRule, *, prune: bool) -> RuleChange:
    change = rule_change(found.rule if found else None, wanted)
    steps = tuple(_step_changes(found.steps if found else (), wanted.steps, prune=prune))
    return RuleChange(change.kind, change.place, change.existing, wanted, change.fields, steps)


def _step_changes(
    existing: Sequence[WorkflowStep], wanted: Sequence[WrittenStep], *, prune: bool
) -> Iterator[StepChange]:
    orders = sorted({step.step_order for step in existing} | {step.step_order for step in wanted})
    for order in orders:
        here = sorted(
            (step for step in existing if step.step_order == order),
            key=lambda step: (step.created_at, step.id),
        )
        written = (step for step in wanted if step.step_order == order)
        for ordinal, (old, new) in enumerate(zip_longest(here, written), start=1):
            if new is not None:
                yield step_change(old, new, ordinal)
            elif old is not None:
                gone = ChangeKind.REMOVED if prune else ChangeKind.KEPT
                yield StepChange(gone, order, ordinal, old)
