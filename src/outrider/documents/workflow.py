"""Rules and steps of workflows: a file or a request goes in, written rules and steps come out.

Every problem is raised at once with its path, including those of steps whose rule has mistakes. A
file is TOML or JSON; both give the same values.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from outrider.documents import Document, Problems, json_path, load_json
from outrider.documents.policy import parse_policy
from outrider.documents.templates import TemplateCheck
from outrider.documents.workflow_step import Location, read_step
from outrider.domain.emissions import TRIGGER
from outrider.domain.errors import InvalidInput
from outrider.domain.purposes import Purpose, checked_topic
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.states import Channel
from outrider.domain.written_workflows import RulePlace, WrittenRule, WrittenStep
from outrider.limits.workflows import (
    WORKFLOW_FILE_MAX_BYTES,
    WORKFLOW_RULES_MAX,
    WORKFLOW_STEPS_MAX,
)

AUDIENCE = re.compile(r"[a-z][a-z0-9_]{0,63}")
OURS = ("id", "ruleId", "createdAt", "updatedAt")
"""Fields that answers add to what was written: a client may send an answer back unchanged."""


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """`policies` is None if the file does not mention them: they stay unchanged."""

    rules: tuple[WrittenRule, ...]
    policies: ScreenPolicies | None = None


def load_workflow_file(raw: bytes, name: str) -> object:
    """The value in a file: TOML or JSON by its name's suffix, or by its first characters."""
    problems = Problems("workflow file")
    if len(raw) > WORKFLOW_FILE_MAX_BYTES:
        problems.add("", f"is larger than {WORKFLOW_FILE_MAX_BYTES} bytes")
        raise problems.error()
    has_no_ending = not name.endswith((".json", ".toml"))
    if name.endswith(".json") or (has_no_ending and raw.lstrip().startswith(b"{")):
        given = load_json(raw, problems)
        if problems:
            raise problems.error()
        return given
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        problems.add("", f"is not TOML: {error}")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(f"line {line}", "is not UTF-8 text")
    except RecursionError:
        problems.add("", "is nested too deeply")
    raise problems.error()


def parse_workflows(given: object, *, check_template: TemplateCheck) -> WorkflowFile:
    """All rules and steps of a file, or InvalidInput with all problems."""
    problems = Problems("workflow file")
    head = _File()
    try:
        head = _File.model_validate(given)
    except ValidationError as error:
        problems.add_all(error)
    check = _checked_once(check_template)
    read = [
        _read_rule(rule, check, problems, ("rules", index))
        for index, rule in enumerate(_rules(given, problems))
    ]
    rules = {index: rule for index, rule in enumerate(read) if rule is not None}
    _note_repeated_places(rules, problems)
    policies = _read_policies(head.policies, problems)
    if problems:
        raise problems.error()
    return WorkflowFile(tuple(rules.values()), policies)


def parse_rule(given: object, rule_id: str | None = None) -> WrittenRule:
    """A rule without its steps, from a request: for this id, or else for its key."""
    problems = Problems("rule")
    rule = _read_head(_without_ours(given, rule_id, problems), problems, ())
    if problems or rule is None:
        raise problems.error()
    return rule.written(())


def parse_step(
    given: object,
    *,
    check_template: TemplateCheck,
    rule_channel: Channel | None,
    rule_problem: str | None = None,
    step_id: str | None = None,
) -> WrittenStep:
    """A step from a request. `rule_problem` says why its rule is not known."""
    problems = Problems("step")
    if rule_problem is not None:
        problems.add("ruleId", rule_problem)
    written = _without_ours(given, step_id, problems)
    step = read_step(written, check_template, rule_channel, problems)
    if problems or step is None:
        raise problems.error()
    return step


def _without_ours(given: object, own_id: str | None, problems: Problems) -> object:
    if not isinstance(given, dict):
        return given
    if given.get("id") not in (None, own_id):
        problems.add("id", "does not match the ID in the path")
    return {name: value for name, value in given.items() if name not in OURS}


def _checked_once(check: TemplateCheck) -> TemplateCheck:
    """A long template is compiled in a separate process, so a repeated one is checked once."""
    known: dict[str, str | None] = {}

    def checked(source: str) -> str | None:
        if source not in known:
            known[source] = check(source)
        return known[source]

    return checked


def _trigger(name: str) -> str:
    if not TRIGGER.fullmatch(name):
        raise ValueError(
            "should be a name such as quote_sent: a-z, 0-9, '_' and '.', at most 64 characters"
        )
    return name


def _audience(name: str) -> str:
    if not AUDIENCE.fullmatch(name):
        raise ValueError("should be a name such as lead: a-z, 0-9 and '_', at most 64 characters")
    return name


class _File(Document):
    """Rules are read one by one, because a step's channel may be that of its rule."""

    rules: list[Any] = Field(default=[])
    policies: dict[str, Any] | None = None


class _Rule(Document):
    trigger: Annotated[str, AfterValidator(_trigger)]
    channel: Annotated[Channel, Field(strict=False)]
    audience: Annotated[str, AfterValidator(_audience)]
    enabled: bool = True
    urgent: bool = False
    topic: Annotated[str, AfterValidator(checked_topic)] | None = None
    transactional: bool = False

    def written(self, steps: Sequence[WrittenStep]) -> WrittenRule:
        return WrittenRule(
            self.trigger, self.channel, self.audience, self.enabled, self.urgent, tuple(steps),
            Purpose(self.topic, self.transactional),
        )  # fmt: skip


def _rules(given: object, problems: Problems) -> Sequence[object]:
    """Even if something else in the file is wrong."""
    rules = given.get("rules") if isinstance(given, dict) else None
    if not isinstance(rules, list):
        return ()
    if len(rules) > WORKFLOW_RULES_MAX:
        problems.add("rules", f"has {len(rules)} rules; the maximum is {WORKFLOW_RULES_MAX}")
        return ()
    return rules


def _read_rule(
    given: object, check: TemplateCheck, problems: Problems, at: Location
) -> WrittenRule | None:
    steps: object = []
    if isinstance(given, dict):
        steps = given.get("steps", [])
        given = {name: value for name, value in given.items() if name != "steps"}
    rule = _read_head(given, problems, at)
    if not isinstance(steps, list) or len(steps) > WORKFLOW_STEPS_MAX:
        path = json_path((*at, "steps"))
        problems.add(path, f"should be a list of at most {WORKFLOW_STEPS_MAX} steps")
        return None
    channel = rule.channel if rule else None
    read = [
        read_step(step, check, channel, problems, (*at, "steps", index))
        for index, step in enumerate(steps)
    ]
    known = [step for step in read if step is not None]
    return rule.written(known) if rule and len(known) == len(steps) else None


def _read_head(given: object, problems: Problems, at: Location) -> _Rule | None:
    try:
        return _Rule.model_validate(given)
    except ValidationError as error:
        problems.add_all(error, at)
    return None


def _read_policies(given: dict[str, Any] | None, problems: Problems) -> ScreenPolicies | None:
    if given is None:
        return None
    try:
        return parse_policy(json.dumps(given).encode())
    except InvalidInput as error:
        for problem in error.problems:
            problems.add(f"policies.{problem.path}".rstrip("."), problem.message)
    except TypeError:
        # TOML has its own time type.
        problems.add(
            "policies", 'has a value that is neither text nor a number; write times as "21:00"'
        )
    return None


def _note_repeated_places(rules: Mapping[int, WrittenRule], problems: Problems) -> None:
    first: dict[RulePlace, int] = {}
    for index, rule in rules.items():
        same = first.setdefault(rule.place, index)
        if same != index:
            problems.add(
                f"rules[{index}]",
                f"is for the same trigger, channel and audience as rules[{same}]: {rule.place}",
            )
