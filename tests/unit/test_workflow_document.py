"""Workflow files and requests: what people write, and every mistake they make in it, at once."""

import json
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.documents.workflow import (
    WorkflowFile,
    load_workflow_file,
    parse_rule,
    parse_step,
    parse_workflows,
)
from outrider.documents.workflow_toml import toml_of
from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel
from outrider.domain.workflows import Delay, IfPast, RecipientConfig, Relative
from outrider.domain.written_workflows import WrittenRule, WrittenStep, file_document
from outrider.limits.campaigns import BODY_MAX_BYTES
from outrider.limits.workflows import (
    CUSTOM_RECIPIENTS_MAX,
    DELAY_MAX_SECONDS,
    WORKFLOW_RULES_MAX,
    WORKFLOW_STEPS_MAX,
)
from outrider.rendering.checker import check_template

STEP: dict[str, Any] = {
    "stepOrder": 1,
    "subject": "Your quote {{ quote.number }}",
    "body": "Hello {{ lead.firstName }}",
    "recipientConfig": {"includeLeadContact": True},
}
RULE: dict[str, Any] = {"trigger": "quote_sent", "channel": "email", "audience": "lead"}
TOML = b"""
[[rules]]
trigger = "quote_sent"
channel = "email"
audience = "lead"

  [[rules.steps]]
  stepOrder = 1
  subject = "Your quote {{ quote.number }}"
  body = "Hello {{ lead.firstName }}"
  recipientConfig = { includeLeadContact = true }
"""


def parse(document: object) -> WorkflowFile:
    return parse_workflows(document, check_template=check_template)


def with_step(**fields: object) -> dict[str, Any]:
    return {"rules": [{**RULE, "steps": [{**STEP, **fields}]}]}


def the_step(**fields: object) -> WrittenStep:
    return parse(with_step(**fields)).rules[0].steps[0]


def problems(document: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse(document)
    return {problem.path: problem.message for problem in caught.value.problems}


def step_problems(**fields: object) -> dict[str, str]:
    prefix = "rules[0].steps[0]."
    return {path.removeprefix(prefix): said for path, said in problems(with_step(**fields)).items()}


def test_a_short_file_gets_the_defaults() -> None:
    (rule,) = parse(with_step()).rules
    assert (rule.enabled, rule.urgent, rule.channel) == (True, False, Channel.EMAIL)
    (step,) = rule.steps
    assert step == WrittenStep(
        1,
        Channel.EMAIL,
        "Hello {{ lead.firstName }}",
        subject="Your quote {{ quote.number }}",
        recipients=RecipientConfig(include_lead_contact=True),
    )


def test_toml_and_json_say_the_same() -> None:
    from_toml = parse(load_workflow_file(TOML, "workflow.toml"))
    assert from_toml == parse(load_workflow_file(json.dumps(with_step()).encode(), "w.json"))
    assert from_toml == parse(load_workflow_file(TOML, "workflow"))
    assert from_toml == parse(load_workflow_file(json.dumps(with_step()).encode(), "workflow"))


@pytest.mark.parametrize(
    ("raw", "name", "said"),
    [
        (b"[[rules]\n", "w.toml", "is not TOML: Expected"),
        (b"rules = [}", "w.toml", "at line 1"),
        (b"{", "w.json", "is not JSON"),
        (b'{"rules": [], "rules": []}', "w.json", "given twice"),
        (b"a = '\xff'", "w.toml", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(raw: bytes, name: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_workflow_file(raw, name)
    assert said in str(caught.value.problems[0])


def test_every_mistake_of_a_file_is_reported_with_its_path() -> None:
    found = problems(
        {
            "rules": [
                {"trigger": "Quote Sent", "channel": "fax", "audience": "the lead",
                 "steps": [{"stepOrder": -1, "body": "{{ oops", "colour": "red"}]},
                {**RULE, "steps": [{"stepOrder": 1, "body": "text"}]},
                {**RULE, "enabled": "yes"},
                "rule",
                {**RULE, "steps": "none"},
            ],
            "policies": {"timeZone": "Nowhere/Land"},
        }
    )  # fmt: skip
    assert {*found} == {
        "rules[0].trigger",
        "rules[0].channel",
        "rules[0].audience",
        "rules[0].steps[0].stepOrder",
        "rules[0].steps[0].body",
        "rules[0].steps[0].colour",
        "rules[1].steps[0].subject",
        "rules[2].enabled",
        "rules[3]",
        "rules[4].steps",
        "policies.timeZone",
    }


def test_a_field_that_is_not_known_hides_no_other_mistake() -> None:
    found = problems({"rules": [{**RULE, "channel": "fax"}], "polices": {}})
    assert {*found} == {"polices", "rules[0].channel"}


def test_two_rules_for_one_place_are_one_too_many() -> None:
    assert "rules[0]" in problems({"rules": [RULE, RULE]})["rules[1]"]


def test_a_template_that_cannot_be_compiled_names_its_line() -> None:
    said = step_problems(body="fine\n{% if %}")["body"]
    assert "is not a template" in said
    assert "line 2" in said
    assert "line 1" in step_problems(subject="{{ nope")["subject"]


def test_a_template_that_is_long_is_checked_too() -> None:
    assert "is not a template" in step_problems(body="x" * 5_000 + "{% nope %}")["body"]
    assert "at most" in step_problems(body="x" * (BODY_MAX_BYTES + 1))["body"]


@pytest.mark.parametrize(
    ("written", "timing"),
    [
        ({}, Delay(0)),
        ({"delaySeconds": 90}, Delay(90)),
        ({"delayMinutes": 1.5}, Delay(90)),
        ({"delayHours": 24}, Delay(86_400)),
        ({"relativeTo": {"path": "appointment.startsAt", "offsetHours": -24}},
         Relative("appointment.startsAt", -86_400)),
        ({"relativeTo": {"path": "a", "offsetMinutes": 5, "ifPast": "send"}},
         Relative("a", 300, IfPast.SEND)),
        ({"relativeTo": {"path": "a"}, "delaySeconds": None}, Relative("a", 0)),
    ],
)  # fmt: skip
def test_times_are_written_in_the_unit_that_suits(
    written: dict[str, object], timing: Delay | Relative
) -> None:
    assert the_step(**written).timing == timing


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"delaySeconds": 1, "delayHours": 1}, "delayHours"),
        ({"delayMinutes": 1, "relativeTo": {"path": "a"}}, "relativeTo"),
        ({"delaySeconds": -1}, "delaySeconds"),
        ({"delaySeconds": DELAY_MAX_SECONDS + 1}, "delaySeconds"),
        ({"delayHours": 9_000}, "delayHours"),
        ({"delaySeconds": float("nan")}, "delaySeconds"),
        ({"delaySeconds": "1"}, "delaySeconds"),
        ({"relativeTo": {"path": "a..b"}}, "relativeTo.path"),
        ({"relativeTo": {"path": "a", "offsetHours": 1, "offsetMinutes": 1}},
         "relativeTo.offsetHours"),
        ({"relativeTo": {"path": "a", "ifPast": "perhaps"}}, "relativeTo.ifPast"),
        ({"relativeTo": {"offsetHours": 1}}, "relativeTo.path"),
        ({"digestMinutes": 0}, "digestMinutes"),
        ({"digestMinutes": 5, "delayMinutes": 1}, "digestMinutes"),
        ({"digestMinutes": 5, "relativeTo": {"path": "a"}}, "digestMinutes"),
        ({"digestMinutes": 5, "channel": "social", "subject": None}, "digestMinutes"),
        ({"stepOrder": True}, "stepOrder"),
        ({"channel": "pigeon"}, "channel"),
        ({"submissionTarget": "a|b"}, "submissionTarget"),
        ({"subject": "two\nlines"}, "subject"),
        ({"body": ""}, "body"),
        ({"body": "nul \0"}, "body"),
        ({"channel": "sms"}, "subject"),
        ({"recipientConfig": {"customEmails": ["a@example.test", "b@example.test\r\nBcc: x"]}},
         "recipientConfig.customEmails[1]"),
        ({"recipientConfig": {"customPhones": ["0770 900 123"]}},
         "recipientConfig.customPhones[0]"),
        ({"recipientConfig": {"includeEverybody": True}}, "recipientConfig.includeEverybody"),
    ],
)  # fmt: skip
def test_a_step_that_could_not_work_is_refused(written: dict[str, object], path: str) -> None:
    assert {*step_problems(**written)} == {path}


def test_ten_thousand_custom_recipients_are_one_mistake() -> None:
    config = {"customEmails": ["nobody"] * 10_000, "customPhones": ["+447700900123"] * 100}
    assert step_problems(recipientConfig=config) == {
        "recipientConfig.customEmails": "has 10000 addresses; the maximum is"
        f" {CUSTOM_RECIPIENTS_MAX}"
    }


def test_custom_recipients_are_kept_in_their_normal_form() -> None:
    config = {"customEmails": ["Ada@EXAMPLE.test"], "customPhones": ["+44 (7700) 900-123"]}
    recipients = the_step(recipientConfig=config).recipients
    assert recipients.custom_emails == ("Ada@example.test",)
    assert recipients.custom_phones == ("+447700900123",)


def test_a_file_is_held_to_its_limits() -> None:
    assert {*problems({"rules": [RULE] * (WORKFLOW_RULES_MAX + 1)})} == {"rules"}
    many = {**RULE, "steps": [STEP] * (WORKFLOW_STEPS_MAX + 1)}
    assert {*problems({"rules": [many]})} == {"rules[0].steps"}


def test_times_of_tomls_own_are_no_policies() -> None:
    given = tomllib.loads("[policies.quietHours]\nfrom = 21:00:00\nto = 08:00:00\n")
    assert "policies" in problems(given)


def test_a_rule_that_was_answered_can_be_sent_back() -> None:
    answered = {**RULE, "enabled": False, "id": "x", "createdAt": "…", "updatedAt": "…"}
    assert parse_rule(answered, "x") == WrittenRule("quote_sent", Channel.EMAIL, "lead", False)
    with pytest.raises(InvalidInput) as caught:
        parse_rule(answered)
    assert [problem.path for problem in caught.value.problems] == ["id"]


def test_a_steps_rule_is_one_problem_of_many() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_step(
            {"stepOrder": 1, "ruleId": "x"},
            check_template=check_template,
            rule_channel=None,
            rule_problem="there is no rule x",
        )
    assert [problem.path for problem in caught.value.problems] == ["ruleId", "body"]


def test_the_file_in_the_documentation_is_valid() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/workflows.md").read_text()
    section = page.partition("## The file")[2]
    sample = section.partition("```toml\n")[2].partition("```")[0]
    read = parse(load_workflow_file(sample.encode(), "workflows.toml"))
    assert [(str(rule.place), len(rule.steps)) for rule in read.rules] == [
        ("quote_sent/email/lead", 2),
        ("appointment/sms/lead", 1),
    ]
    assert read.policies is not None


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0{"), min_size=1, max_size=40)
TIMES = st.integers(0, DELAY_MAX_SECONDS).map(Delay) | st.builds(
    Relative,
    st.sampled_from(["appointment.startsAt", "due"]),
    st.integers(-DELAY_MAX_SECONDS, DELAY_MAX_SECONDS),
    st.sampled_from(IfPast),
)
STEPS = st.builds(
    WrittenStep,
    step_order=st.integers(0, 5),
    channel=st.sampled_from([Channel.SMS, Channel.VOICE]),
    body=TEXTS,
    enabled=st.booleans(),
    submission_target=st.none() | st.just("sms.main"),
    timing=TIMES,
    recipients=st.builds(
        RecipientConfig,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.lists(st.just("+447700900123"), max_size=2).map(tuple),
        st.lists(st.just("a@example.test"), max_size=2).map(tuple),
    ),
    digest_seconds=st.none() | st.integers(1, 500).map(lambda minutes: minutes * 60),
).map(lambda step: replace(step, timing=Delay()) if step.digest_seconds else step)
RULES = st.builds(
    WrittenRule,
    trigger=st.just("quote.sent"),
    channel=st.sampled_from(Channel),
    audience=st.just("lead"),
    enabled=st.booleans(),
    urgent=st.booleans(),
    steps=st.lists(STEPS, max_size=3).map(tuple),
)


@given(RULES)
def test_an_export_reads_back_unchanged(rule: WrittenRule) -> None:
    document = {"rules": [file_document(rule)], "policies": None}
    assert parse(document).rules == (rule,)
    text = toml_of(document)
    assert parse(load_workflow_file(text.encode(), "w.toml")).rules == (rule,), text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*STEP, *RULE, "rules", "steps", "policies", "relativeTo", "path", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING)
def test_whatever_is_given_is_read_or_refused(document: object) -> None:
    with suppress(InvalidInput):
        assert isinstance(parse(document), WorkflowFile)
