"""`outrider init`: a folder whose files are right, teach, and overwrite nothing."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.bootstrap import load_registry
from outrider.cli.app import app
from outrider.settings import Settings

ROOT = Path(__file__).parents[2]
FILES = {"GETTING-STARTED.md", "campaign.json", "outrider.toml", "people.csv", "registry.json"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_files_are_written_and_the_next_command_is_named(folder: Path) -> None:
    output = init()
    assert {path.name for path in folder.iterdir()} == FILES
    assert all(name in output for name in FILES)
    assert "outrider demo" in output


def test_a_folder_that_does_not_exist_is_created(folder: Path) -> None:
    written = json.loads(init("deep/inside", "--json"))["written"]
    assert {Path(each).name for each in written} == FILES
    assert all((folder / each).is_file() for each in written)


@pytest.mark.parametrize("name", sorted(FILES))
def test_if_one_file_exists_nothing_is_written(folder: Path, name: str) -> None:
    (folder / name).write_text("mine")
    result = CliRunner().invoke(app, ["init"])
    assert result.exit_code == 1
    assert f"these files exist already: {name}" in " ".join(result.output.split())
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_reported(folder: Path) -> None:
    (folder / "taken").write_text("a file, not a folder")
    result = CliRunner().invoke(app, ["init", "taken/inside"])
    assert result.exit_code == 1
    assert "cannot write to taken/inside" in result.output


def test_the_settings_and_the_registry_are_valid(folder: Path) -> None:
    init()
    settings = Settings()
    assert settings.database_url == "sqlite:///outrider.db"
    contracts = load_registry(settings.registry).contracts
    assert set(settings.targets) <= set(contracts)
    campaign = json.loads((folder / "campaign.json").read_text())
    assert {each["submissionTarget"] for each in campaign["messages"]} <= set(contracts)


def test_every_setting_that_is_commented_out_is_valid_too(folder: Path) -> None:
    init()
    file = folder / "outrider.toml"
    as_written = tomllib.loads(file.read_text())
    file.write_text(re.sub(r"^# (\w+ = |\[)", r"\1", file.read_text(), flags=re.MULTILINE))
    assert tomllib.loads(file.read_text()) != as_written
    settings = Settings()
    assert settings.public_url == "https://messages.example.com"
    assert settings.targets["email.bulk"].credentials.keys() == {"password"}


def test_every_field_of_the_registry_and_the_campaign_is_explained(folder: Path) -> None:
    init()
    page = (folder / "GETTING-STARTED.md").read_text()
    targets = json.loads((folder / "registry.json").read_text())["targets"]
    fields = {name for target in targets for name in target}
    assert {name for name in fields if f"`{name}`" not in page} == set()
    for word in ("`phases`", "`audience`", "`messages`"):
        assert word in page


def test_the_examples_of_the_project_are_the_same(folder: Path) -> None:
    init()
    for name in ("registry.json", "campaign.json", "people.csv"):
        assert (folder / name).read_bytes() == (ROOT / "examples" / name).read_bytes()
