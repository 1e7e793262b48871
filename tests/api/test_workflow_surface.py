"""Workflows as people meet them: over HTTP, and on the command line with a file."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.bootstrap import open_outrider
from outrider.cli.app import app
from outrider.limits.api import ApiLimits
from outrider.settings import Settings
from outrider.testing.launches import registry, target
from tests.support.api_inside import Inside, serving

RULE = {"trigger": "quote_sent", "channel": "sms", "audience": "lead"}
STEP = {
    "stepOrder": 1,
    "body": "Hi {{ lead.firstName }}",
    "recipientConfig": {"includeLeadContact": True},
}
FILE = """
[[rules]]
trigger = "quote_sent"
channel = "sms"
audience = "lead"

  [[rules.steps]]
  stepOrder = 1
  body = "Your quote {{ quote.number }}"
  recipientConfig = { includeLeadContact = true }

  [[rules.steps]]
  stepOrder = 2
  delayHours = 24
  body = \"\"\"
Still there?
Your quote waits.
\"\"\"
  recipientConfig = { includeLeadContact = true, customPhones = ["+44 7700 900123"] }
"""
Invoke = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry.json").write_bytes(
        registry(target("sms", "noop", "noop:"), target("mail", "smtp", "smtp://localhost"))
    )
    (tmp_path / "workflow.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
async def inside(folder: Path) -> AsyncIterator[Inside]:
    settings = Settings(
        database_url=f"sqlite:///{folder}/outrider.db", registry=folder / "registry.json"
    )
    async with open_outrider(settings) as outrider:
        await outrider.store.migrate()
        async with serving(outrider, ApiLimits()) as served:
            yield served


async def ask(inside: Inside, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with inside.session.request(
        method, f"{inside.url}/workflows{path}", json=body, headers=inside.headers
    ) as answer:
        raw = await answer.read()
        return answer.status, json.loads(raw) if raw else None


async def test_rules_and_steps_are_made_changed_and_removed_over_http(inside: Inside) -> None:
    status, rule = await ask(inside, "PUT", "/rules", RULE)
    assert (status, rule["enabled"], rule["urgent"], rule["success"]) == (201, True, False, True)
    status, same = await ask(inside, "PUT", "/rules", {**RULE, "enabled": False})
    assert (status, same["id"], same["enabled"]) == (200, rule["id"], False)
    assert same["createdAt"] == rule["createdAt"]
    status, step = await ask(inside, "PUT", "/steps", {**STEP, "ruleId": rule["id"]})
    assert (status, step["channel"], step["delaySeconds"]) == (201, "sms", 0)
    changed = {**STEP, "ruleId": rule["id"], "relativeTo": {"path": "due", "offsetHours": -1}}
    status, again = await ask(inside, "PUT", "/steps", changed)
    assert (status, again["id"], again["delaySeconds"]) == (200, step["id"], None)
    assert again["relativeTo"] == {"path": "due", "offsetSeconds": -3_600, "ifPast": "skip"}
    status, other = await ask(inside, "POST", "/steps", {**STEP, "ruleId": rule["id"]})
    assert (status, other["id"] != step["id"]) == (201, True)
    _, shown = await ask(inside, "GET", f"/rules/{rule['id']}")
    assert [each["id"] for each in shown["steps"]] == [step["id"], other["id"]]
    _, page = await ask(inside, "GET", f"/steps?ruleId={rule['id']}&limit=1")
    assert [each["id"] for each in page["items"]] == [step["id"]]
    _, rest = await ask(inside, "GET", f"/steps?ruleId={rule['id']}&after={page['next']}")
    assert ([each["id"] for each in rest["items"]], rest["next"]) == ([other["id"]], None)
    _, first = await ask(inside, "GET", "/steps?limit=1")
    _, second = await ask(inside, "GET", f"/steps?after={first['next']}")
    assert {each["id"] for each in first["items"] + second["items"]} == {step["id"], other["id"]}
    assert (await ask(inside, "DELETE", f"/steps/{other['id']}")) == (204, None)
    assert (await ask(inside, "GET", f"/steps/{other['id']}"))[0] == 404
    assert (await ask(inside, "DELETE", f"/rules/{rule['id']}")) == (204, None)
    for gone in (f"/rules/{rule['id']}", f"/steps/{step['id']}", f"/steps?ruleId={rule['id']}"):
        assert (await ask(inside, "GET", gone))[0] == 404


async def test_a_response_can_be_edited_and_put_back(inside: Inside) -> None:
    _, rule = await ask(inside, "PUT", "/rules", RULE)
    _, step = await ask(inside, "PUT", "/steps", {**STEP, "ruleId": rule["id"]})
    del rule["success"], step["success"]
    status, put = await ask(inside, "PUT", f"/rules/{rule['id']}", {**rule, "audience": "partner"})
    assert (status, put["id"], put["audience"]) == (200, rule["id"], "partner")
    status, put = await ask(inside, "PUT", f"/steps/{step['id']}", {**step, "stepOrder": 4})
    assert (status, put["id"], put["stepOrder"]) == (200, step["id"], 4)
    for path, body in ((f"/rules/{rule['id']}", rule), (f"/steps/{step['id']}", step)):
        status, refused = await ask(inside, "PUT", path, {**body, "id": "another"})
        assert (status, refused["error"]["fields"][0]["path"]) == (400, "id")
    status, refused = await ask(inside, "PUT", f"/steps/{step['id']}", {**step, "ruleId": "other"})
    assert (status, refused["error"]["fields"][0]["path"]) == (400, "ruleId")


async def test_rules_come_in_pages_and_by_trigger(inside: Inside) -> None:
    for trigger, channel in (("b", "sms"), ("a", "voice"), ("a", "sms")):
        await ask(inside, "PUT", "/rules", {**RULE, "trigger": trigger, "channel": channel})
    seen: list[tuple[str, str]] = []
    after: str | None = ""
    while after is not None:
        _, page = await ask(inside, "GET", f"/rules?limit=2{after}")
        seen += [(each["trigger"], each["channel"]) for each in page["items"]]
        after = f"&after={page['next']}" if page["next"] else None
    assert seen == [("a", "sms"), ("a", "voice"), ("b", "sms")]
    _, only = await ask(inside, "GET", "/rules?trigger=a&limit=1")
    _, rest = await ask(inside, "GET", f"/rules?trigger=a&after={only['next']}")
    assert [each["channel"] for each in only["items"] + rest["items"]] == ["sms", "voice"]


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"body": "{% if %}", "stepOrder": "1"}, {"body", "stepOrder"}),
        ({"ruleId": "00000000-0000-7000-8000-000000000009", "body": ""}, {"ruleId", "body"}),
        ({"submissionTarget": "mail"}, {"submissionTarget"}),
        ({"recipientConfig": {"customPhones": ["x"] * 10_000}}, {"recipientConfig.customPhones"}),
        ({"recipientConfig": {"customEmails": ["a@b.test\r\nBcc: c@d.test"]}},
         {"recipientConfig.customEmails[0]"}),
        ({"channel": "email"}, {"subject"}),
    ],
)  # fmt: skip
async def test_a_step_with_mistakes_is_a_400_with_all_of_them(
    inside: Inside, fields: dict[str, object], paths: set[str]
) -> None:
    _, rule = await ask(inside, "PUT", "/rules", RULE)
    status, refused = await ask(inside, "PUT", "/steps", {**STEP, "ruleId": rule["id"], **fields})
    assert (status, refused["error"]["code"]) == (400, "INVALID_REQUEST")
    assert {each["path"] for each in refused["error"]["fields"]} == paths
    assert (await ask(inside, "GET", "/steps"))[1]["items"] == []


async def test_a_whole_document_is_applied_over_http_once_it_was_agreed_to(inside: Inside) -> None:
    document = {"rules": [{**RULE, "steps": [STEP]}], "policies": {"timeZone": "Europe/Paris"}}
    status, plan = await ask(inside, "PUT", "?dryRun=true", document)
    assert (status, plan["applied"], plan["added"]) == (200, False, 2)
    assert plan["policies"] == [{"field": "timeZone", "before": "UTC", "after": "Europe/Paris"}]
    status, _ = await ask(inside, "PUT", f"?expected={'0' * 64}", document)
    assert status == 409
    assert (await ask(inside, "GET", ""))[1] == {"rules": [], "policies": None}
    _, done = await ask(inside, "PUT", f"?expected={plan['fingerprint']}", document)
    assert (done["applied"], done["rules"]) == (True, plan["rules"])
    _, exported = await ask(inside, "GET", "")
    assert exported["policies"]["timeZone"] == "Europe/Paris"
    _, again = await ask(inside, "PUT", "?prune=true", exported)
    assert (again["applied"], again["same"], again["rules"]) == (False, 2, [])


@pytest.fixture
def invoke(folder: Path) -> Invoke:  # noqa: ARG001 - it is where the commands run
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments])

    assert run("migrate").exit_code == 0
    return run


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_file_is_applied_and_what_it_changes_is_shown_first(invoke: Invoke, folder: Path) -> None:
    looked = invoke("workflow", "apply", "workflow.toml", "--dry-run")
    assert looked.exit_code == 0, looked.output
    assert looked.stdout.splitlines() == [
        "+ quote_sent/sms/lead",
        "    + step 1 sms: Your quote {{ quote.number }}",
        "    + step 2 sms: Still there?",
        "3 to be added, 0 to be changed, 0 to be removed",
    ]
    assert "no rules" in invoke("workflow", "list").stdout
    assert "applied: 3 added" in invoke("workflow", "apply", "workflow.toml", "--yes").stdout
    assert (
        invoke("workflow", "apply", "workflow.toml", "--yes").stdout
        == "nothing to change: the rules already match the file\n"
    )
    edited = FILE.replace("delayHours = 24", "delayMinutes = 90").replace("waits.", "is waiting.")
    (folder / "workflow.toml").write_text(edited.replace("stepOrder = 1", "stepOrder = 3"))
    shown = invoke("workflow", "apply", "workflow.toml", "--dry-run").stdout.splitlines()
    assert shown == [
        "  quote_sent/sms/lead",
        "    = step 1: kept, not in the file",
        "    ~ step 2",
        "        body:",
        "          @@ -1,2 +1,2 @@",
        "           Still there?",
        "          -Your quote waits.",
        "          +Your quote is waiting.",
        "        delaySeconds: 86400 → 5400",
        "    + step 3 sms: Your quote {{ quote.number }}",
        "1 to be added, 1 to be changed, 0 to be removed",
        "rules that are not in the file are kept; --prune removes them",
    ]
    done = answer(invoke("workflow", "apply", "workflow.toml", "--yes", "--prune", "--json"))
    assert (done["added"], done["changed"], done["removed"], done["applied"]) == (1, 1, 1, True)


def test_nothing_is_applied_if_nobody_can_confirm(invoke: Invoke) -> None:
    for flags in ((), ("--json",)):
        refused = invoke("workflow", "apply", "workflow.toml", *flags)
        assert refused.exit_code == 2
        assert "--yes" in refused.stderr
    assert answer(invoke("workflow", "list", "--json"))["items"] == []


@pytest.mark.parametrize(("typed", "applied"), [(b"n\n", False), (b"y\n", True)])
def test_a_person_is_asked_before_anything_changes(
    invoke: Invoke, typed: bytes, applied: bool
) -> None:
    keyboard, terminal = pty.openpty()
    os.write(keyboard, typed)
    command = [sys.executable, "-m", "outrider", "workflow", "apply", "workflow.toml"]
    asked = subprocess.run(command, stdin=terminal, capture_output=True, text=True, check=False)
    os.close(terminal)
    os.close(keyboard)
    assert "3 to be added" in asked.stdout
    assert "Apply?" in asked.stdout
    assert (asked.returncode == 0) is applied, asked.stderr
    assert bool(answer(invoke("workflow", "list", "--json"))["items"]) is applied


def test_an_exported_file_is_what_apply_accepts(invoke: Invoke, folder: Path) -> None:
    invoke("workflow", "apply", "workflow.toml", "--yes")
    exported = invoke("workflow", "export").stdout
    assert "delayHours = 24" in exported
    assert '"""\nStill there?\n' in exported
    (folder / "exported.toml").write_text(exported)
    (folder / "exported.json").write_text(invoke("workflow", "export", "--json").stdout)
    for name in ("exported.toml", "exported.json"):
        assert "nothing to change" in invoke("workflow", "apply", name, "--yes", "--prune").stdout


def test_a_file_with_mistakes_changes_nothing_and_all_of_them_are_reported(
    invoke: Invoke, folder: Path
) -> None:
    bad = FILE.replace("stepOrder = 1", "stepOrder = 'one'").replace("+44 7700 900123", "call me")
    (folder / "bad.toml").write_text(bad)
    refused = json.loads(invoke("workflow", "apply", "bad.toml", "--yes", "--json").stdout)
    assert [each["path"] for each in refused["error"]["fields"]] == [
        "rules[0].steps[0].stepOrder",
        "rules[0].steps[1].recipientConfig.customPhones[0]",
    ]
    (folder / "bad.toml").write_text("rules = [")
    assert "is not TOML" in invoke("workflow", "apply", "bad.toml", "--yes").stderr
    assert "cannot be read" in invoke("workflow", "apply", "none.toml", "--yes").stderr
    assert answer(invoke("workflow", "list", "--json"))["items"] == []


def test_a_rule_is_shown_and_deleted_by_its_id_or_its_place(invoke: Invoke) -> None:
    invoke("workflow", "apply", "workflow.toml", "--yes")
    (listed,) = answer(invoke("workflow", "list", "--trigger", "quote_sent", "--json"))["items"]
    shown = invoke("workflow", "show", listed["id"]).stdout
    assert "| Your quote {{ quote.number }}" in shown
    assert "to includeLeadContact, +447700900123" in shown
    assert shown == invoke("workflow", "show", "quote_sent/sms/lead").stdout
    assert invoke("workflow", "show", "quote_sent/email/lead").exit_code == 1
    assert answer(invoke("workflow", "delete", "quote_sent/sms/lead", "--json"))["success"]
    assert invoke("workflow", "delete", listed["id"]).exit_code == 1
    assert "no rules" in invoke("workflow", "list").stdout


async def test_a_server_answers_every_command(
    inside: Inside, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_KEY", inside.key)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", "sqlite:///nowhere/outrider.db")
    url = inside.url.removesuffix("/api/v2")

    async def run(*arguments: str) -> Result:
        """In a thread: the command has a loop of its own."""
        given = ["--server", url, "workflow", *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, given)

    plan = answer(await run("apply", "workflow.toml", "--dry-run", "--json"))
    assert (plan["added"], plan["applied"]) == (3, False)
    assert "applied: 3 added" in (await run("apply", "workflow.toml", "--yes")).stdout
    assert "nothing to change" in (await run("apply", "workflow.toml", "--yes", "--prune")).stdout
    (listed,) = answer(await run("list", "--json"))["items"]
    assert answer(await run("show", "quote_sent/sms/lead", "--json"))["id"] == listed["id"]
    exported = (await run("export")).stdout
    assert exported.startswith("[[rules]]")
    (folder / "bad.toml").write_text(FILE.replace('"sms"', '"fax"'))
    refused = json.loads((await run("apply", "bad.toml", "--yes", "--json")).stdout)
    assert [each["path"] for each in refused["error"]["fields"]] == ["rules[0].channel"]
    # A date would be a text by the time it reached the server: it is refused before.
    (folder / "date.toml").write_text(re.sub(r'body = ".*"', "body = 2026-01-01", FILE))
    assert (await run("apply", "date.toml", "--dry-run")).exit_code == 1
    assert (await run("delete", listed["id"])).exit_code == 0
    assert answer(await run("list", "--json"))["items"] == []
