"""`outrider registry` and what `outrider check` says of targets, as an operator meets them."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.testing.launches import registry, target

TEN_MISTAKES: list[dict[str, Any]] = [
    target("a", "sms", "http://a.test"),
    target("a", "sms", "http://a.test"),
    target("b", "pigeon", "http://b.test"),
    target("c", "sms", "ftp://c.test"),
    target("d", "sms", "http://user:hunter2@d.test"),
    target("e", "sms", "http://e.test", policy="deadline"),
    target("f", "sms", "http://f.test", maxAcceptanceSeconds=5),
    target("g", "sms", "http://g.test", maxAttempts=0),
    target("h", "sms", "http://h.test", terminal_outcomes=["accepted"]),
    target("i", "sms", "http://i.test", terminal_outcomes=["so what"]),
    target("j", "sms", "http://j.test", retryDelaySeconds=5),
]
PATHS = [
    "targets[1].submissionTarget",
    "targets[2].gatewayType",
    "targets[3].gatewayUrl",
    "targets[4].gatewayUrl",
    "targets[5].maxAcceptanceSeconds",
    "targets[6].maxAcceptanceSeconds",
    "targets[7].maxAttempts",
    "targets[8].terminalOutcomes[0]",
    "targets[9].terminalOutcomes[0]",
    "targets[10].retryDelaySeconds",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run here, so `outrider.toml` and `registry.json` are those of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_registry_with_ten_mistakes_prints_ten(folder: Path) -> None:
    file = folder / "bad.json"
    file.write_bytes(registry(*TEN_MISTAKES))
    result = invoke("registry", "check", str(file))
    assert result.exit_code == 1
    assert "10 problems" in result.stderr
    assert [path for path in PATHS if path in result.stderr] == PATHS
    assert "hunter2" not in result.output
    told = json.loads(invoke("registry", "check", str(file), "--json").stdout)
    assert sorted(field["path"] for field in told["error"]["fields"]) == sorted(PATHS)
    assert told["success"] is False


def test_a_good_registry_says_how_many_targets_it_has(folder: Path) -> None:
    (folder / "registry.json").write_bytes(
        registry(target("a", "noop", "noop:"), target("b", "noop", "noop:"))
    )
    result = invoke("registry", "check")
    assert (result.exit_code, result.stdout) == (0, "ok: 2 submission targets\n")
    assert json.loads(invoke("registry", "check", "--json").stdout) == {
        "targets": ["a", "b"], "warnings": [], "success": True,
    }  # fmt: skip


def test_settings_that_do_not_fit_the_registry_are_warned_about(folder: Path) -> None:
    (folder / "registry.json").write_bytes(
        registry(
            target("sms.a", "sms", "http://a.test"),
            target("sms.b", "sms", "http://b.test"),
            target("mail", "smtp", "smtp://m.test"),
        )
    )
    (folder / "outrider.toml").write_text(
        """
        targets."sms.a".fallback = "sms.b"
        targets."sms.b".fallback = "mail"
        targets."mail".fallback = "mail"
        targets."sms.c".fallback = "nowhere"
        """
    )
    result = invoke("registry", "check")
    assert result.exit_code == 0
    assert result.stderr.count("warning:") == 4
    told = json.loads(invoke("registry", "check", "--json").stdout)
    assert [(each["path"], each["message"]) for each in told["warnings"]] == [
        ("targets.sms.b.fallback", "'mail' sends email, not sms"),
        ("targets.mail.fallback", "is the target itself"),
        ("targets.sms.c", "is not registered; the registered ones are mail, sms.a, sms.b"),
        ("targets.sms.c.fallback", "'nowhere' is not registered"),
    ]


def test_a_registry_that_is_not_there_says_which_setting_names_it() -> None:
    for command in ("check", "show"):
        result = invoke("registry", command)
        assert result.exit_code == 1
        assert "OUTRIDER_REGISTRY" in result.stderr


def test_show_prints_the_contracts_in_force(folder: Path) -> None:
    entries = [
        target("b", "noop", "noop:", policy="one_shot"),
        target(
            "a",
            "sms",
            "http://a.test",
            policy="deadline",
            maxAcceptanceSeconds=30,
            terminal_outcomes=["invalid_message"],
        ),
        target("c", "noop", "noop:", maxAttempts=3),
    ]
    (folder / "registry.json").write_bytes(registry(*entries))
    shown = json.loads(invoke("registry", "show", "--json").stdout)
    assert shown == {"targets": sorted(entries, key=lambda entry: str(entry["submissionTarget"]))}
    text = invoke("registry", "show").stdout
    for words in ("within 30 s", "1 attempt", "3 attempts"):
        assert words in text


def test_check_reports_missing_options_and_credentials(folder: Path) -> None:
    (folder / "registry.json").write_bytes(registry(target("mail", "smtp", "smtp://127.0.0.1:1")))
    (folder / "outrider.toml").write_text(
        """
        [targets.mail]
        options = {username = "courier"}
        credentials = {password = "env:NOT_SET_ANYWHERE"}
        """
    )
    result = invoke("check")
    assert result.exit_code == 1
    assert "the secret env:NOT_SET_ANYWHERE is not set" in result.stderr


def test_check_reports_a_missing_target_of_a_workflow(folder: Path) -> None:
    (folder / "registry.json").write_bytes(registry(target("texts", "noop", "noop:")))
    (folder / "outrider.toml").write_text('workflow_targets = {email = "texts", sms = "nobody"}')
    result = invoke("check", "--json")
    assert result.exit_code == 1
    assert "workflow_targets: email" in result.stdout
    assert "the submission target 'texts' is not for email" in result.stdout
    assert "the registry has no submission target 'nobody'" in result.stdout


def test_check_reports_an_address_that_the_guard_would_refuse(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "registry.json").write_bytes(registry(target("sms", "sms", "http://127.0.0.1:1")))
    monkeypatch.setenv("OUTRIDER_ALLOW_PRIVATE_GATEWAYS", "false")
    result = invoke("check")
    assert result.exit_code == 1
    assert "allow_private_gateways is off" in result.stderr
