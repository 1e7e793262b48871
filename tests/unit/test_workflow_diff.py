"""What applying a file would change: found by place and order, field by field."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from outrider.domain.states import Channel
from outrider.domain.workflow_diff import ChangeKind, ExistingRule, WorkflowDiff, diff
from outrider.domain.workflows import Delay, RecipientConfig, Relative, Rule, RuleId, StepId
from outrider.domain.workflows import WorkflowStep as Step
from outrider.domain.written_workflows import WrittenRule, WrittenStep

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTE = Rule(RuleId("rule-1"), "quote_sent", Channel.SMS, "lead")
OTHER = Rule(RuleId("rule-2"), "other", Channel.SMS, "lead")


def step(number: int, order: int, body: str, **fields: Any) -> Step:
    born = NOW + timedelta(seconds=number)
    return Step(StepId(f"step-{number}"), QUOTE.id, order, Channel.SMS, body, born, **fields)


def written(*steps: WrittenStep, **fields: Any) -> WrittenRule:
    return WrittenRule("quote_sent", Channel.SMS, "lead", steps=steps, **fields)


def text(order: int, body: str, **fields: Any) -> WrittenStep:
    return WrittenStep(order, Channel.SMS, body, **fields)


def told(found: WorkflowDiff) -> list[tuple[str, int, int, str | None]]:
    return [
        (change.kind.value, change.step_order, change.ordinal, change.step_id)
        for rule in found.rules
        for change in rule.steps
    ]


def test_an_unchanged_document_changes_nothing() -> None:
    here = [ExistingRule(QUOTE, [step(1, 1, "a"), step(2, 2, "b")])]
    found = diff(here, [written(text(1, "a"), text(2, "b"))], prune=True)
    assert not found.changes_something
    assert found.count(ChangeKind.SAME) == 3
    assert not found.rules[0].is_worth_telling


def test_a_change_is_shown_field_by_field() -> None:
    before = step(1, 1, "a", recipients=RecipientConfig(custom_phones=("+447700900123",)))
    after = text(1, "b", enabled=False, timing=Relative("due", -60))
    found = diff([ExistingRule(QUOTE, [before])], [written(after, urgent=True)], prune=False)
    (rule,) = found.rules
    assert [*rule.fields] == [("urgent", False, True)]
    (change,) = rule.steps
    assert (change.kind, change.step_id) == (ChangeKind.CHANGED, "step-1")
    assert {field.field: (field.before, field.after) for field in change.fields} == {
        "enabled": (True, False),
        "body": ("a", "b"),
        "delaySeconds": (0, None),
        "relativeTo": (None, {"path": "due", "offsetSeconds": -60, "ifPast": "skip"}),
        "recipientConfig.customPhones": (["+447700900123"], []),
    }


def test_steps_of_one_order_are_distinguished_by_age_and_position() -> None:
    here = [ExistingRule(QUOTE, [step(9, 1, "younger"), step(3, 1, "older"), step(5, 2, "next")])]
    found = diff(here, [written(text(2, "next"), text(1, "older"), text(1, "edited"))], prune=True)
    assert told(found) == [
        ("same", 1, 1, "step-3"),
        ("changed", 1, 2, "step-9"),
        ("same", 2, 1, "step-5"),
    ]


def test_nothing_is_removed_unless_it_is_asked() -> None:
    here = [ExistingRule(QUOTE, [step(1, 1, "a"), step(2, 1, "b"), step(3, 7, "c")]),
            ExistingRule(OTHER, [])]  # fmt: skip
    kept = diff(here, [written(text(1, "a"))], prune=False)
    assert told(kept) == [
        ("same", 1, 1, "step-1"),
        ("kept", 1, 2, "step-2"),
        ("kept", 7, 1, "step-3"),
    ]
    assert kept.rules[1].kind is ChangeKind.KEPT
    assert not kept.changes_something
    assert all(rule.is_worth_telling for rule in kept.rules)
    pruned = diff(here, [written(text(1, "a"))], prune=True)
    assert pruned.count(ChangeKind.REMOVED) == 3
    assert pruned.changes_something


def test_a_new_rule_comes_with_all_its_steps() -> None:
    found = diff([], [written(text(1, "a"), text(1, "b"))], prune=False)
    assert (found.count(ChangeKind.ADDED), told(found)) == (
        3,
        [("added", 1, 1, None), ("added", 1, 2, None)],
    )


def test_a_fingerprint_identifies_one_diff() -> None:
    here = [ExistingRule(QUOTE, [step(1, 1, "a")])]
    changed = diff(here, [written(text(1, "b"))], prune=False)
    assert changed.fingerprint() == diff(here, [written(text(1, "b"))], prune=False).fingerprint()
    others = [
        diff(here, [written(text(1, "c"))], prune=False),
        diff([ExistingRule(QUOTE, [step(1, 1, "x")])], [written(text(1, "b"))], prune=False),
        replace(changed, policies=changed.rules[0].steps[0].fields),
        diff(here, [written(text(1, "b", timing=Delay(5)))], prune=False),
    ]
    assert changed.fingerprint() not in {each.fingerprint() for each in others}
