"""`outrider history` as a user meets it, on a real DuckDB file; and what ships for Snowflake."""

import re
from pathlib import Path

import duckdb
import pytest

from outrider.sinks.history.tables import tables_as
from tests.cli.test_cli import Invoke, answer, invoke, written  # noqa: F401

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/howto/history.md"
SCRIPT = ROOT / "deploy/snowflake/history.sql"


def launched(invoke: Invoke, tmp_path: Path, name: str) -> None:  # noqa: F811
    campaign = answer(invoke("campaign", "create", written(tmp_path, name=name), "--json"))
    done = invoke("campaign", "start", campaign["campaignId"], "--work", "--json")
    assert done.exit_code == 0, done.output


def queries(language: str) -> list[str]:
    return re.findall(rf"```sql {language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_a_history_from_backfill_to_verify_and_the_guides_queries(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched(invoke, tmp_path, "Before")
    file = tmp_path / "history.duckdb"
    monkeypatch.setenv("OUTRIDER_HISTORY", f"duckdb:///{file}")
    assert answer(invoke("history", "status", "--json"))["waiting"] == 0
    answer(invoke("history", "setup", "--json"))
    incomplete = invoke("history", "verify")
    assert incomplete.exit_code == 1
    assert "outrider history backfill" in incomplete.output
    filled = answer(invoke("history", "backfill", "--json"))
    assert filled["filled"] >= 1
    launched(invoke, tmp_path, "After")
    # The worker beside the command may have stopped before all of it was written: that is queued.
    answer(invoke("history", "backfill", "--json"))
    compared = answer(invoke("history", "verify", "--json"))["runs"]
    assert {each["agreement"] for each in compared} == {"same"}
    assert all(each["logHash"] == each["historyHash"] for each in compared)
    assert "agrees with the log" in invoke("history", "verify").output
    with duckdb.connect(str(file)) as history:
        answers = [history.execute(each).fetchall() for each in queries("duckdb")]
        assert len(answers) == 3
        assert all(answers[:2])
        assert sum(row[-1] for row in answers[1]) == 2
        history.execute("UPDATE run_events SET payload = '{}' WHERE type = 'RunCompleted'")
    differs = invoke("history", "verify")
    assert differs.exit_code == 1
    assert "differs" in differs.output


def test_without_a_history_the_command_says_how_to_have_one(
    invoke: Invoke,  # noqa: F811
) -> None:
    refused = invoke("history", "status")
    assert refused.exit_code != 0
    assert "docs/howto/history.md" in refused.output


def test_a_history_that_cannot_be_reached_is_found_by_check(
    invoke: Invoke,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTRIDER_HISTORY", f"duckdb:///{tmp_path}/no/such/folder/h.duckdb")
    found = invoke("check")
    assert found.exit_code != 0
    assert "history" in found.output


def test_the_script_for_snowflake_makes_the_tables_that_the_code_makes() -> None:
    """Word for word, but for blanks, so that a writer finds what it expects."""
    script = " ".join(SCRIPT.read_text().split())
    for statement in tables_as("standard"):
        assert " ".join(statement.split()) in script, statement


def test_the_script_lets_writers_write_and_readers_read_and_nobody_change_the_log() -> None:
    grants = [line for line in SCRIPT.read_text().splitlines() if line.startswith("GRANT")]
    rights = {
        (verb.strip(), table)
        for line in grants
        if (found := re.match(r"GRANT (.+) ON TABLE (\w+) TO ROLE outrider_writer", line))
        for verb, table in ((verb, found[2]) for verb in found[1].split(","))
    }
    assert {table for _, table in rights} == {
        "history_writer", "run_events", "run_snapshots", "staged_run_events",
        "staged_run_snapshots",
    }  # fmt: skip
    assert {verb for verb, table in rights if table in ("run_events", "run_snapshots")} == {
        "SELECT", "INSERT",
    }  # fmt: skip
    readers = [line for line in grants if line.endswith("outrider_reader;")]
    assert readers
    assert all(re.match(r"GRANT (SELECT|USAGE) ", line) for line in readers)
