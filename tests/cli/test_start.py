"""What `outrider` loads to start: every command is there, and pays for nothing it does not use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from outrider.cli.app import Commands, app
from outrider.testing.launches import registry, target
from tests.cli.test_cli import CAMPAIGN

WEB = {"fastapi", "starlette", "uvicorn", "sse_starlette", "prometheus_client", "opentelemetry"}
LINES = {"aiohttp", "asyncpg", "nats", "redis", "obstore", "snowflake", "duckdb"}
SETTINGS = {"pydantic", "pydantic_settings", "structlog", "apsw", "outrider.bootstrap"}
# The command's own words go to standard output; what it loaded, to standard error.
SCRIPT = """
import json, sys
from outrider.cli.app import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded_by(*arguments: str, folder: Path) -> set[str]:
    """The modules of a process of its own that ran this command to its good end."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_version_is_printed_before_anything_is_loaded(tmp_path: Path) -> None:
    assert not loaded_by("--version", folder=tmp_path) & (WEB | LINES | SETTINGS)


def test_the_help_of_all_commands_loads_no_web_server_and_no_network_library(
    tmp_path: Path,
) -> None:
    assert not loaded_by("--help", folder=tmp_path) & (WEB | LINES)


def test_a_campaign_is_created_on_sqlite_without_web_server_and_network_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "registry.json").write_bytes(registry(target("noop", "noop", "noop:")))
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN))
    assert CliRunner().invoke(app, ["migrate"]).exit_code == 0
    loaded = loaded_by("campaign", "create", "campaign.json", folder=tmp_path)
    assert not loaded & (WEB | LINES)
    assert loaded >= SETTINGS, "the names of the libraries have changed; mend this test"


def test_the_help_lists_every_command_with_its_sentence() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    said = " ".join(output.replace("│", " ").split())
    group = get_group(app)
    context = group.make_context("outrider", [], resilient_parsing=True)
    for name in Commands.places:
        command = group.get_command(context, name)
        assert command is not None
        sentence = (command.help or "").partition("\n")[0]
        assert sentence
        assert f" {name} {sentence}" in said


def test_a_misspelt_command_suggests_the_similar_one() -> None:
    result = CliRunner().invoke(app, ["campain", "list"])
    assert result.exit_code == 2
    assert "Did you mean 'campaign'?" in result.output


def test_the_shell_completes_commands_and_those_of_a_group() -> None:
    def completed(words: str) -> str:
        return (
            CliRunner()
            .invoke(
                app,
                [],
                prog_name="outrider",
                env={
                    "_OUTRIDER_COMPLETE": "complete_bash",
                    "COMP_WORDS": words,
                    "COMP_CWORD": str(len(words.split(" ")) - 1),
                },
            )
            .stdout
        )

    assert completed("outrider ca").split() == ["campaign"]
    assert "create" in completed("outrider campaign ").split()
