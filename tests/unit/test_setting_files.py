"""The database's URL and keys from files: OUTRIDER_DATABASE_URL_FILE and its like."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app
from outrider.domain.errors import InvalidInput
from outrider.settings import Settings, kept_in_files

URL = "postgresql://outrider:hunter2@db.example.test/outrider"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*paths: str) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        Settings()
    assert [each.path for each in raised.value.problems] == list(paths)
    return [each.message for each in raised.value.problems]


def test_exactly_the_settings_that_hold_a_secret_can_be_kept_in_files() -> None:
    assert set(kept_in_files(Settings)) == {"database_url", "redis_url", "root_key"}


def test_values_are_read_from_the_files_without_their_line_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"database_url": URL, "root_key": "k" * 40}.items():
        (folder / name).write_text(f"{value}\n")
        monkeypatch.setenv(f"OUTRIDER_{name.upper()}_FILE", str(folder / name))
    settings = Settings()
    assert (settings.database_url, settings.root_key) == (URL, "k" * 40)


def test_a_file_overrides_outrider_toml_and_a_flag_overrides_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "outrider.toml").write_text('database_url = "sqlite:///toml.db"\n')
    (folder / "url").write_text("sqlite:///file.db")
    monkeypatch.setenv("OUTRIDER_DATABASE_URL_FILE", "url")
    assert Settings().database_url == "sqlite:///file.db"
    assert Settings(database_url="sqlite:///flag.db").database_url == "sqlite:///flag.db"


def test_a_variable_beside_its_file_must_say_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "url").write_text(URL)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL_FILE", "url")
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", URL)
    assert Settings().database_url == URL
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", "sqlite:///other.db")
    [message] = refused("OUTRIDER_DATABASE_URL_FILE")
    assert "remove one of them" in message


def test_a_child_process_gets_the_values_of_its_parent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "url").write_text(URL)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL_FILE", "url")
    for name, value in Settings(database_url="sqlite:///flag.db").as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings().database_url == "sqlite:///flag.db"


def test_every_file_that_cannot_be_used_is_named_without_its_content(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty").write_text("\n")
    (folder / "binary").write_bytes(b"\xff\xfe")
    for name, file in {
        "DATABASE_URL": "nowhere",
        "REDIS_URL": "empty",
        "ROOT_KEY": "binary",
    }.items():
        monkeypatch.setenv(f"OUTRIDER_{name}_FILE", file)
    missing, empty, binary = refused(
        "OUTRIDER_DATABASE_URL_FILE", "OUTRIDER_REDIS_URL_FILE", "OUTRIDER_ROOT_KEY_FILE"
    )
    assert "No such file" in missing
    assert empty.endswith("empty")
    assert binary.endswith("not text")
    (folder / "large").write_text("x" * 1_000_000)
    monkeypatch.setenv("OUTRIDER_REDIS_URL_FILE", "large")
    assert refused(
        "OUTRIDER_DATABASE_URL_FILE", "OUTRIDER_REDIS_URL_FILE", "OUTRIDER_ROOT_KEY_FILE"
    )[1].endswith("too large")


def test_a_command_reports_it_like_any_other_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DATABASE_URL_FILE", "nowhere")
    ended = CliRunner().invoke(app, ["migrate", "--json"])
    assert ended.exit_code == 1
    error = json.loads(ended.output)["error"]
    assert error["message"] == "the settings are not valid"
    assert error["fields"][0]["path"] == "OUTRIDER_DATABASE_URL_FILE"


def test_a_file_of_a_setting_without_a_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_REGISTRY_FILE", "registry.json")
    ended = CliRunner().invoke(app, ["migrate", "--json"])
    [problem] = json.loads(ended.output)["error"]["fields"]
    assert problem["path"] == "OUTRIDER_REGISTRY_FILE"
    assert "did you mean OUTRIDER_REGISTRY?" in problem["message"]
