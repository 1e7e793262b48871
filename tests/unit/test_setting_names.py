"""R9: what is no setting is refused, with the one that may be meant; a contract's table is not."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems_of(*arguments: str) -> dict[str, str]:
    """What a command says of the settings, by their place."""
    ended = CliRunner().invoke(app, [*arguments, "--json"])
    assert ended.exit_code == 1, ended.output
    error = json.loads(ended.output)["error"]
    assert error["message"] == "the settings are not valid"
    return {each["path"]: each["message"] for each in error["fields"]}


def test_a_mistyped_variable_is_refused_and_no_database_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_DATABSE_URL", "postgresql://me:hunter2@db/outrider")
    for command in (["migrate"], ["check"], ["serve"], ["work"]):
        assert problems_of(*command) == {
            "OUTRIDER_DATABSE_URL": "is not a setting; did you mean OUTRIDER_DATABASE_URL?"
        }
    assert not (folder / "outrider.db").exists()


@pytest.mark.parametrize(
    ("written", "path", "meant"),
    [
        ("databse_url = 'sqlite:///x.db'", "databse_url", "; did you mean database_url?"),
        ("[target.'sms.realtime']\nconcurrency = 3", "target", "; did you mean targets?"),
        ("[targets.sms]\nconcurency = 3", "targets.sms.concurency", "; did you mean concurrency?"),
        ("[statestore]\nx = 1", "statestore", "; did you mean state_store?"),
        (
            "[stateStore]\nwriteLatencyBudget = 1",
            "state_store.writeLatencyBudget",
            "; did you mean writeLatencyBudgetMs?",
        ),
        ("[weather]\nrain = true", "weather", ""),
    ],
)
def test_a_mistyped_table_or_key_is_refused(
    folder: Path, written: str, path: str, meant: str
) -> None:
    (folder / "outrider.toml").write_text(written)
    [(place, message)] = problems_of("check").items()
    assert (place, message) in (
        (f"outrider.toml: {path}", f"is not a setting{meant}"),
        # Names that fold alike are as near to each other.
        (f"outrider.toml: {path}", "is not a setting; did you mean stateStore?"),
    )


def test_every_mistake_is_reported_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "outrider.toml").write_text(
        "registri = 'x'\n[bus.one]\nurl = 'redis://h/s'\nsize = 1"
    )
    monkeypatch.setenv("OUTRIDER_JOBS_IN_PARALEL", "3")
    assert set(problems_of("check")) == {
        "outrider.toml: registri", "outrider.toml: bus.one.size", "OUTRIDER_JOBS_IN_PARALEL",
    }  # fmt: skip


def test_the_contracts_own_table_is_accepted(folder: Path) -> None:
    (folder / "outrider.toml").write_text(
        "[stateStore]\nwriteLatencyBudgetMs = 1500\n"
        'failOpenForEventClass = ["StepStarted"]\nneverFailOpen = ["StepCompleted", "StepFailed"]'
    )
    assert Settings().state_store.budget().milliseconds == 1500


def test_the_contracts_table_and_ours_at_once_are_refused(folder: Path) -> None:
    (folder / "outrider.toml").write_text(
        "[stateStore]\nwriteLatencyBudgetMs = 1\n[state_store]\nwriteLatencyBudgetMs = 2"
    )
    with pytest.raises(ValidationError, match="stateStore"):
        Settings()


def test_secrets_that_settings_refer_to_may_be_called_anything(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "outrider.toml").write_text(
        '[targets.mail.credentials]\npassword = "env:OUTRIDER_MAIL_PASSWORD"'
    )
    monkeypatch.setenv("OUTRIDER_MAIL_PASSWORD", "x")
    for name in ("OUTRIDER_KEY", "OUTRIDER_SERVER", "OUTRIDER_BUS_SECRET", "OUTRIDER_TEST_ANY"):
        monkeypatch.setenv(name, "x")
    assert Settings().targets["mail"].credentials["password"] == "env:OUTRIDER_MAIL_PASSWORD"
    monkeypatch.setenv("OUTRIDER_SMS_PASSWORD", "x")
    with pytest.raises(ValidationError, match="OUTRIDER_SMS_PASSWORD"):
        Settings()


def test_the_settings_of_a_child_process_are_all_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings(redis_url="redis://h/0", engine="temporal", jobs_in_parallel=3)
    for name, value in given.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings().as_environment() == given.as_environment()
