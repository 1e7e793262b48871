"""Rules and steps on real databases: put, applied whole, pruned, and always one at a time."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.errors import Conflict, InvalidInput, NotFound
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.screen_policies import QuietHours, ScreenPolicies
from outrider.domain.states import Channel
from outrider.domain.workflow_diff import ChangeKind
from outrider.domain.workflows import Delay, IfPast, RecipientConfig, Relative
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.transactions import audit_trail
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.rules import FIRST_PLACE
from outrider.limits.workflows import WORKFLOW_RULES_MAX, WORKFLOW_STEPS_MAX
from outrider.settings import Settings
from outrider.testing.clock import FakeClock
from outrider.testing.launches import registry, target

ACTOR = "test"
FULL_STEP = WrittenStep(
    3,
    Channel.EMAIL,
    "Hello\n{{ lead.firstName }} \N{SNOWMAN}",
    False,
    "Subject",
    "mail",
    Relative("appointment.startsAt", -86_400, IfPast.SEND),
    RecipientConfig(True, False, True, ("+447700900123",), ("a@example.test",)),
    600,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def outrider(database: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Outrider]:
    path = tmp_path / "registry.json"
    path.write_bytes(
        registry(target("sms", "noop", "noop:"), target("mail", "smtp", "smtp://localhost"))
    )
    settings = Settings(database_url=database, registry=path)
    async with open_outrider(settings, clock=clock) as made:
        await made.store.migrate()
        yield made


def text(order: int, body: str, **fields: Any) -> WrittenStep:
    return WrittenStep(order, Channel.SMS, body, **fields)


def rule(trigger: str, *steps: WrittenStep, **fields: Any) -> WrittenRule:
    return WrittenRule(trigger, Channel.SMS, "lead", steps=steps, **fields)


async def steps_of(outrider: Outrider, rule_id: str) -> list[tuple[str, str]]:
    found = await outrider.rule_keeper.rule(DEFAULT_SCOPE, rule_id)
    return [(each.step.id, each.step.body) for each in found.steps]


async def only_rule(outrider: Outrider) -> str:
    (found,) = await outrider.rule_keeper.rules_page(DEFAULT_SCOPE, FIRST_PLACE, 10)
    return found.rule.id


async def audited(outrider: Outrider) -> list[str]:
    found = await outrider.store.read(audit_trail.audit_of_workspace(DEFAULT_SCOPE, FIRST, 100))
    return [entry.event for entry in found]


async def test_an_applied_file_is_exported_unchanged_and_applying_it_again_changes_nothing(
    outrider: Outrider, clock: FakeClock
) -> None:
    keeper = outrider.rule_keeper
    wanted = [
        replace(rule("quote_sent", FULL_STEP, urgent=True), channel=Channel.EMAIL),
        rule("welcome", text(1, "b"), text(1, "c"), text(0, "a"), enabled=False),
    ]
    policies = ScreenPolicies("Europe/Amsterdam", QuietHours(1_260, 480))
    done = await keeper.apply(DEFAULT_SCOPE, wanted, ACTOR, prune=False, policies=policies)
    assert (done.count(ChangeKind.ADDED), bool(done.policies)) == (6, True)
    written, kept_policies = await keeper.export(DEFAULT_SCOPE)
    assert kept_policies == policies == await outrider.policy_keeper.lately(DEFAULT_SCOPE)
    assert {each.trigger: each.steps for each in written} == {
        "quote_sent": (FULL_STEP,),
        "welcome": (text(0, "a"), text(1, "b"), text(1, "c")),
    }
    before = await keeper.steps_page(DEFAULT_SCOPE, FIRST, 100)
    entries = await audited(outrider)
    clock.advance(60)
    again = await keeper.apply(DEFAULT_SCOPE, wanted, ACTOR, prune=True, policies=policies)
    assert not again.changes_something
    assert await keeper.steps_page(DEFAULT_SCOPE, FIRST, 100) == before
    assert await audited(outrider) == entries
    assert sorted(entries) == ["workflow.rule_added"] * 2 + ["workflow_policy.replaced"]


async def test_a_step_that_is_edited_keeps_its_id_and_its_age_even_when_the_clock_goes_back(
    outrider: Outrider, clock: FakeClock
) -> None:
    keeper = outrider.rule_keeper
    await keeper.apply(
        DEFAULT_SCOPE, [rule("a", text(1, "one"), text(1, "two"))], ACTOR, prune=False
    )
    rule_id = await only_rule(outrider)
    (first, _), (second, _) = await steps_of(outrider, rule_id)
    clock.advance(-7_200)
    edited = rule("a", text(1, "one, edited"), text(1, "two"), text(1, "three"), urgent=True)
    await keeper.apply(DEFAULT_SCOPE, [edited], ACTOR, prune=False)
    now_there = await steps_of(outrider, rule_id)
    assert [body for _, body in now_there] == ["one, edited", "two", "three"]
    assert [step_id for step_id, _ in now_there[:2]] == [first, second]
    assert await only_rule(outrider) == rule_id


async def test_rules_missing_from_the_file_stay_until_they_are_pruned(outrider: Outrider) -> None:
    keeper = outrider.rule_keeper
    both = [rule("a", text(1, "x"), text(2, "y")), rule("b", text(1, "z"))]
    await keeper.apply(DEFAULT_SCOPE, both, ACTOR, prune=False)
    less = [rule("a", text(1, "x"))]
    kept = await keeper.apply(DEFAULT_SCOPE, less, ACTOR, prune=False)
    assert (kept.count(ChangeKind.KEPT), kept.changes_something) == (2, False)
    planned = await keeper.plan(DEFAULT_SCOPE, less, prune=True)
    assert len(await keeper.steps_page(DEFAULT_SCOPE, FIRST, 10)) == 3
    pruned = await keeper.apply(
        DEFAULT_SCOPE, less, ACTOR, prune=True, expected=planned.fingerprint()
    )
    assert pruned == planned
    assert await keeper.export(DEFAULT_SCOPE) == (less, ScreenPolicies())
    assert len(await keeper.steps_page(DEFAULT_SCOPE, FIRST, 10)) == 1, (
        "a rule takes its steps along"
    )


async def test_a_diff_that_has_changed_meanwhile_is_not_applied(outrider: Outrider) -> None:
    keeper = outrider.rule_keeper
    wanted = [rule("a", text(1, "x"))]
    seen = (await keeper.plan(DEFAULT_SCOPE, wanted, prune=False)).fingerprint()
    await keeper.put_rule(DEFAULT_SCOPE, rule("a", enabled=False), ACTOR)
    with pytest.raises(Conflict, match="nothing was applied"):
        await keeper.apply(DEFAULT_SCOPE, wanted, ACTOR, prune=False, expected=seen)
    assert (await keeper.export(DEFAULT_SCOPE))[0] == [rule("a", enabled=False)]


async def test_ten_at_once_make_one_rule_with_one_step(outrider: Outrider) -> None:
    keeper = outrider.rule_keeper
    made = await asyncio.gather(
        *(keeper.put_rule(DEFAULT_SCOPE, rule("a"), ACTOR) for _ in range(10)),
    )
    assert sorted(is_new for _, is_new in made) == [False] * 9 + [True]
    (rule_id,) = {record.rule.id for record, _ in made}
    put = await asyncio.gather(
        *(keeper.put_step(DEFAULT_SCOPE, rule_id, text(1, f"{n}"), ACTOR) for n in range(10)),
    )
    assert sorted(is_new for _, is_new in put) == [False] * 9 + [True]
    assert len({record.step.id for record, _ in put}) == 1
    assert len(await steps_of(outrider, rule_id)) == 1


async def test_steps_are_put_by_their_order_or_their_id(
    outrider: Outrider, clock: FakeClock
) -> None:
    keeper = outrider.rule_keeper
    made, _ = await keeper.put_rule(DEFAULT_SCOPE, rule("a"), ACTOR)
    rule_id = made.rule.id
    one, is_new = await keeper.put_step(DEFAULT_SCOPE, rule_id, text(1, "x"), ACTOR)
    assert is_new
    clock.advance(5)
    same, is_new = await keeper.put_step(DEFAULT_SCOPE, rule_id, text(1, "y"), ACTOR)
    assert (same.step.id, same.step.body, is_new) == (one.step.id, "y", False)
    assert same.updated_at - same.step.created_at == timedelta(seconds=5)
    two, _ = await keeper.put_step(DEFAULT_SCOPE, rule_id, text(1, "z"), ACTOR, is_another=True)
    assert await steps_of(outrider, rule_id) == [(one.step.id, "y"), (two.step.id, "z")]
    with pytest.raises(Conflict, match="2 steps of this rule have the order 1"):
        await keeper.put_step(DEFAULT_SCOPE, rule_id, text(1, "which?"), ACTOR)
    late = text(9, "y", timing=Delay(1.5))
    moved, _ = await keeper.put_step(DEFAULT_SCOPE, rule_id, late, ACTOR, step_id=one.step.id)
    assert (moved.step.step_order, moved.step.timing) == (9, Delay(1.5))
    await keeper.delete_step(DEFAULT_SCOPE, two.step.id, ACTOR)
    assert await steps_of(outrider, rule_id) == [(one.step.id, "y")]
    with pytest.raises(NotFound):
        await keeper.delete_step(DEFAULT_SCOPE, two.step.id, ACTOR)
    assert await audited(outrider) == ["workflow.rule_added"] + ["workflow.rule_changed"] * 5


async def test_a_rule_goes_where_there_is_none_and_keeps_the_channel_of_its_steps(
    outrider: Outrider,
) -> None:
    keeper = outrider.rule_keeper
    await keeper.apply(DEFAULT_SCOPE, [rule("a", text(1, "x")), rule("b")], ACTOR, prune=False)
    first, second = await keeper.rules_page(DEFAULT_SCOPE, FIRST_PLACE, 10)
    with pytest.raises(Conflict, match="another rule exists for b/sms/lead"):
        await keeper.put_rule(DEFAULT_SCOPE, rule("b"), ACTOR, first.rule.id)
    other = replace(rule("a"), channel=Channel.VOICE)
    with pytest.raises(Conflict, match="has steps for the channel sms"):
        await keeper.put_rule(DEFAULT_SCOPE, other, ACTOR, first.rule.id)
    moved, is_new = await keeper.put_rule(DEFAULT_SCOPE, rule("c"), ACTOR, first.rule.id)
    assert (moved.rule.id, moved.rule.trigger, is_new) == (first.rule.id, "c", False)
    await keeper.put_rule(
        DEFAULT_SCOPE, replace(rule("b"), channel=Channel.VOICE), ACTOR, second.rule.id
    )
    after = "b", "voice", "lead"
    assert [each.rule.trigger for each in await keeper.rules_page(DEFAULT_SCOPE, after, 10)] == [
        "c"
    ]
    assert await keeper.rules_page(DEFAULT_SCOPE, FIRST_PLACE, 10, "b")
    assert not await keeper.rules_page(DEFAULT_SCOPE, FIRST_PLACE, 10, "a")


async def test_a_workspace_and_a_rule_have_their_limits(outrider: Outrider) -> None:
    keeper = outrider.rule_keeper
    full = [rule(f"trigger_{n}") for n in range(WORKFLOW_RULES_MAX - 1)]
    steps = [text(n, "x") for n in range(WORKFLOW_STEPS_MAX)]
    await keeper.apply(DEFAULT_SCOPE, [*full, rule("full", *steps)], ACTOR, prune=False)
    with pytest.raises(InvalidInput, match="at most 1,000 rules"):
        await keeper.put_rule(DEFAULT_SCOPE, rule("more"), ACTOR)
    extra = rule("full", text(WORKFLOW_STEPS_MAX, "x"))
    with pytest.raises(InvalidInput, match="at most 50 steps"):
        await keeper.apply(DEFAULT_SCOPE, [extra], ACTOR, prune=False)
    swapped = [*full[1:], rule("full", *steps), rule("more")]
    done = await keeper.apply(DEFAULT_SCOPE, swapped, ACTOR, prune=True)
    assert (done.count(ChangeKind.ADDED), done.count(ChangeKind.REMOVED)) == (1, 1)


async def test_a_target_that_does_not_fit_is_refused_when_it_is_written(
    outrider: Outrider,
) -> None:
    keeper = outrider.rule_keeper
    wrong = rule("a", text(1, "x", submission_target="mail"), text(2, "y", submission_target="no"))
    with pytest.raises(InvalidInput) as caught:
        await keeper.apply(DEFAULT_SCOPE, [wrong], ACTOR, prune=False)
    assert [problem.path for problem in caught.value.problems] == [
        "rules[0].steps[0].submissionTarget",
        "rules[0].steps[1].submissionTarget",
    ]
    assert (await keeper.export(DEFAULT_SCOPE))[0] == []


async def test_another_workspace_has_its_own_rules(outrider: Outrider) -> None:
    keeper = outrider.rule_keeper
    theirs = await outrider.key_keeper.open_workspace("another", "project", "production")
    await keeper.apply(DEFAULT_SCOPE, [rule("a", text(1, "ours"))], ACTOR, prune=False)
    await keeper.apply(theirs, [rule("a", text(1, "theirs"))], ACTOR, prune=True)
    ours = await only_rule(outrider)
    ((step_id, body),) = await steps_of(outrider, ours)
    assert body == "ours"
    for asked in (
        keeper.rule(theirs, ours),
        keeper.step(theirs, step_id),
        keeper.delete_rule(theirs, ours, ACTOR),
        keeper.delete_step(theirs, step_id, ACTOR),
        keeper.put_rule(theirs, rule("z"), ACTOR, ours),
        keeper.put_step(theirs, ours, text(1, "z"), ACTOR),
        keeper.rule(DEFAULT_SCOPE, "nonsense"),
    ):
        with pytest.raises(NotFound):
            await asked
    await keeper.delete_rule(DEFAULT_SCOPE, ours, ACTOR)
    assert (await keeper.export(DEFAULT_SCOPE))[0] == []
    assert (await keeper.export(theirs))[0] == [rule("a", text(1, "theirs"))]
