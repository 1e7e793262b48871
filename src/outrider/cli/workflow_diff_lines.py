"""A diff of workflows as lines for people: what is added, changed field by field, removed, kept."""

import difflib
import json
from collections.abc import Iterator
from typing import Any

from outrider.cli import texts
from outrider.cli.console import shown
from outrider.cli.documents import Document
from outrider.domain.workflow_diff import ChangeKind

SIGNS = {
    ChangeKind.ADDED: "[green]+[/green]",
    ChangeKind.CHANGED: "[yellow]~[/yellow]",
    ChangeKind.REMOVED: "[red]-[/red]",
    ChangeKind.KEPT: "[dim]=[/dim]",
    ChangeKind.SAME: " ",
}
KEPT = texts.WorkflowDiffLines.KEPT_NOT_IN_FILE
VALUE_SHOWN_CHARACTERS = 200


def diff_lines(diff: Document) -> Iterator[str]:
    """Empty if nothing differs."""
    for rule in diff["rules"]:
        yield from _rule_lines(rule)
    if diff["policies"]:
        yield texts.WorkflowDiffLines.POLICY_LINE.format(sign=SIGNS[ChangeKind.CHANGED])
        for field in diff["policies"]:
            yield from _field_lines(field, "    ")


def summary(diff: Document, *, applied: bool) -> str:
    verbs = ("added", "changed", "removed")
    words = {
        verb: verb if applied else texts.WorkflowDiffLines.TO_BE.format(verb=verb) for verb in verbs
    }
    counts = [f"{diff[verb]:,} {words[verb]}" for verb in verbs]
    if diff["policies"]:
        counts.append(texts.WorkflowDiffLines.POLICY_COUNT.format(changed=words["changed"]))
    return ", ".join(counts)


def changes_something(diff: Document) -> bool:
    return bool(diff["added"] or diff["changed"] or diff["removed"] or diff["policies"])


def _rule_lines(rule: Document) -> Iterator[str]:
    change = ChangeKind(rule["change"])
    place = shown(f"{rule['trigger']}/{rule['channel']}/{rule['audience']}")
    note = {
        ChangeKind.KEPT: f": {KEPT}",
        ChangeKind.REMOVED: texts.WorkflowDiffLines.WITH_STEPS,
    }.get(change, "")
    yield f"{SIGNS[change]} [bold]{place}[/bold]{note}"
    if change is ChangeKind.CHANGED:
        for field in rule["fields"]:
            yield from _field_lines(field, "    ")
    elif change is ChangeKind.ADDED:
        marks = {field["field"]: field["after"] for field in rule["fields"]}
        words = [
            word
            for word, said in (
                ("disabled", not marks["enabled"]),
                ("urgent", marks["urgent"]),
                (
                    texts.WorkflowDiffLines.TOPIC.format(topic=marks.get("topic")),
                    marks.get("topic"),
                ),
                ("transactional", marks.get("transactional")),
            )
            if said
        ]
        if words:
            yield f"    {', '.join(words)}"
    for step in rule["steps"]:
        yield from _step_lines(step)


def _step_lines(step: Document) -> Iterator[str]:
    change = ChangeKind(step["change"])
    again = (
        texts.WorkflowDiffLines.NUMBER_THIS_ORDER.format(ordinal=step["ordinal"])
        if step["ordinal"] > 1
        else ""
    )
    line = texts.WorkflowDiffLines.STEP.format(
        change=SIGNS[change], step_order=step["stepOrder"], again=again
    )
    if change is ChangeKind.KEPT:
        line += f": {KEPT}"
    if change is ChangeKind.ADDED:
        fields = {field["field"]: field["after"] for field in step["fields"]}
        text = fields.get("subject") or fields["body"]
        line += f" {fields['channel']}: {shown(_short(text.strip().partition(chr(10))[0]))}"
    yield line
    if change is ChangeKind.CHANGED:
        for field in step["fields"]:
            yield from _field_lines(field, "        ")


def _field_lines(field: Document, indent: str) -> Iterator[str]:
    name, before, after = field["field"], field["before"], field["after"]
    if _is_long(before) or _is_long(after):
        yield f"{indent}{shown(name)}:"
        for line in _text_lines(before or "", after or ""):
            yield f"{indent}  {line}"
    else:
        yield f"{indent}{shown(name)}: {shown(_shown(before))} → {shown(_shown(after))}"


def _is_long(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def _text_lines(before: str, after: str) -> Iterator[str]:
    compared = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    colours = {"+": "green", "-": "red", "@": "dim"}
    for line in list(compared)[2:]:
        colour = colours.get(line[0])
        yield f"[{colour}]{shown(line)}[/{colour}]" if colour else shown(line)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= VALUE_SHOWN_CHARACTERS else f"{text[:VALUE_SHOWN_CHARACTERS]}…"
