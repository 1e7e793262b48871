"""The command line as a user meets it: a whole launch, and what bad input gets."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.stores import sqlite
from outrider.testing.launches import registry, target

MIGRATIONS = Path(sqlite.__file__).parent / "migrations"
"""Those of both databases have the same names."""

Invoke = Callable[..., Result]

CAMPAIGN: dict[str, Any] = {
    "name": "Offer",
    "audience": {
        "recipients": [
            {"id": "lead-1", "phone": "+447700900123", "attributes": {"firstName": "Ada"}},
            {"id": "lead-2", "attributes": {"firstName": "Grace"}},
        ]
    },
    "messages": [
        {
            "id": "text",
            "channel": "sms",
            "submissionTarget": "noop",
            "body": "Hi {{ firstName }}",
        }
    ],
}


@pytest.fixture
def invoke(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """`outrider …` on an empty database of either kind, with a registry of one no-op target."""
    file = tmp_path / "registry.json"
    file.write_bytes(registry(target("noop", "noop", "noop:")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database)
    monkeypatch.setenv("OUTRIDER_REGISTRY", str(file))
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def written(tmp_path: Path, **changes: object) -> str:
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps({**CAMPAIGN, **changes}))
    return str(file)


@pytest.mark.empty_database
def test_a_launch_from_file_to_certificate(invoke: Invoke, tmp_path: Path) -> None:
    applied = sorted(each.stem for each in MIGRATIONS.glob("*.sql"))
    assert applied[0] == "0001_spine"
    assert answer(invoke("migrate", "--json")) == {
        "applied": applied, "registered": [], "success": True,
    }  # fmt: skip
    assert answer(invoke("check", "--json"))["targets"] == ["noop"]
    created = answer(invoke("campaign", "create", written(tmp_path), "--json"))
    assert created["recipients"] == 2
    campaign = created["campaignId"]
    started = answer(invoke("campaign", "start", campaign, "--work", "--json"))
    assert started["accounting"] == {
        "intended": 2, "waiting": 0, "inDoubt": 0, "sent": 1, "failed": 0, "skipped": 1,
        "delivery": {
            "delivered": 0, "bounced": 0, "complained": 0, "read": 0, "replied": 0,
            "optedOut": 0, "failed": 0, "unknown": 1,
        },
    }  # fmt: skip
    status = answer(invoke("campaign", "status", campaign, "--json"))
    assert status["phases"]["launch"]["state"] == "completed"
    assert status["phases"]["launch"]["runId"] == started["runId"]
    watched = answer(invoke("campaign", "watch", campaign, "--json"))
    assert watched["status"] == "completed"
    assert answer(invoke("campaign", "list", "--json"))["items"][0]["campaignId"] == campaign
    shown = answer(invoke("run", "show", started["runId"], "--json"))
    assert shown["reasons"] == [{"status": "skipped", "reason": "no_address", "items": 1}]
    proof = answer(invoke("run", "certificate", started["runId"], "--json"))
    assert proof["holds"] is True
    assert [each["holds"] for each in proof["criteria"]] == [True] * 4
    told = answer(invoke("run", "explain", started["runId"], "--recipient", "lead-2", "--json"))
    assert "no address for this channel" in told["sentences"][0]
    assert answer(invoke("doubts", "list", "--json")) == {"items": [], "next": None}


def test_text_output_says_what_to_do_next(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    assert "outrider campaign create FILE" in invoke("campaign", "list").output
    created = invoke("campaign", "create", written(tmp_path))
    assert "next: outrider campaign start" in created.output


def test_a_run_that_is_not_finished_has_no_certificate(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    run = answer(invoke("campaign", "start", campaign, "--json"))["runId"]
    result = invoke("run", "certificate", run)
    assert result.exit_code == 1
    assert "does not hold" in result.output
    assert "no worker is running" in invoke("run", "explain", run).output


def test_starting_twice_starts_once_and_says_so(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    first = answer(invoke("campaign", "start", campaign, "--json"))
    again = answer(invoke("campaign", "start", campaign, "--json"))
    assert (first["changed"], again["changed"]) == (True, False)
    assert first["runId"] == again["runId"]


def test_the_controls_of_a_campaign_from_the_command_line(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    answer(invoke("campaign", "start", campaign, "--json"))
    states = []
    for action in ("pause", "resume", "pause", "stop"):
        states.append(answer(invoke("campaign", action, campaign, "--json"))["state"])
    assert states == ["paused", "in_progress", "paused", "failed"]
    refused = invoke("campaign", "resume", campaign, "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["code"] == "INVALID_PHASE_TRANSITION"
    early = invoke("campaign", "retry", campaign, "--json")
    assert json.loads(early.stdout)["error"]["code"] == "RERUN_PRECONDITION_FAILED"


def test_all_phases_of_a_campaign_in_one_command(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    phases = ["audience_import", "launch", "report"]
    file = written(tmp_path, phases=phases)
    campaign = answer(invoke("campaign", "create", file, "--json"))["campaignId"]
    done = answer(invoke("campaign", "start", campaign, "--all", "--work", "--json"))
    assert (done["phase"], done["state"]) == ("report", "completed")
    status = answer(invoke("campaign", "status", campaign, "--json"))
    assert {each["state"] for each in status["phases"].values()} == {"completed"}
    assert len(list((tmp_path / "outrider-artifacts").rglob("report.html"))) == 1


@pytest.mark.empty_database
def test_commands_on_an_empty_database_say_to_migrate(invoke: Invoke) -> None:
    result = invoke("campaign", "list")
    assert result.exit_code == 1
    assert "outrider migrate" in result.stderr


@pytest.mark.parametrize("command", [["run", "show"], ["run", "certificate"], ["run", "explain"]])
@pytest.mark.parametrize("name", ["123", "00000000-0000-7000-8000-00000000dead"])
def test_an_unknown_run_is_not_found_whatever_its_form(
    invoke: Invoke, command: list[str], name: str
) -> None:
    invoke("migrate")
    result = invoke(*command, name, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "NOT_FOUND"


def test_an_export_is_read_before_it_settles_anything(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    file = tmp_path / "export.csv"
    file.write_text("Client Ref;State\nabc;delivered\n")
    reconcile = ("doubts", "reconcile", "--evidence", str(file), "--target", "noop")
    told = answer(invoke(*reconcile, "--dry-run", "--json"))
    assert told["mapping"] == {"reference": "Client Ref", "status": "State"}
    assert (told["applied"], told["unknownRows"], told["left"]) == (False, 1, 0)
    assert "Nothing was changed" in invoke(*reconcile, "--dry-run").output
    applied = invoke(*reconcile, "--absent", "resubmit", "--column", "reference=Client Ref")
    assert "--absent was not applied" in applied.output
    refused = invoke(*reconcile, "--column", "reference=No such", "--json")
    assert refused.exit_code == 1
    assert "Client Ref, State" in refused.output
    assert invoke(*reconcile, "--column", "reference").exit_code == 2
    assert invoke("doubts", "reconcile", "--evidence", str(file)).exit_code == 2
    missing = invoke("doubts", "reconcile", "--evidence", "none.csv", "--target", "noop")
    assert "cannot be read" in missing.output


def test_resolving_what_is_not_in_doubt_is_refused(invoke: Invoke) -> None:
    invoke("migrate")
    result = invoke(
        "doubts", "resolve", "nothing", "--verdict", "sent", "--evidence", "their log", "--json"
    )
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "CONFLICT"


def test_a_verdict_without_evidence_is_refused(invoke: Invoke) -> None:
    result = invoke("doubts", "resolve", "x", "--verdict", "sent", "--evidence", " ")
    assert result.exit_code == 2
    assert "how do you know?" in result.output


def test_every_mistake_in_a_campaign_file_is_reported_at_once_and_nothing_is_written(
    invoke: Invoke, tmp_path: Path
) -> None:
    invoke("migrate")
    recipients = [
        {"id": "a|b"},
        {"id": "same"},
        {"id": "same"},
        {"id": "heavy", "attributes": {"x": "y" * 1_048_576}},
        {"id": "line\nbreak"},
    ]
    file = written(
        tmp_path,
        name="two\nlines",
        audience={"recipients": recipients},
        batchSize=0,
        surprise=1,
    )
    result = invoke("campaign", "create", file, "--json")
    assert result.exit_code == 1
    paths = [field["path"] for field in json.loads(result.stdout)["error"]["fields"]]
    assert set(paths) >= {
        "name", "batchSize", "surprise", "audience.recipients[0].id",
        "audience.recipients[2].id", "audience.recipients[3].attributes",
        "audience.recipients[4].id",
    }  # fmt: skip
    assert answer(invoke("campaign", "list", "--json"))["items"] == []


def test_a_message_to_an_unknown_or_unfit_target_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    invoke("migrate")
    unknown = {**CAMPAIGN["messages"][0], "submissionTarget": "nowhere"}
    unfit = {**CAMPAIGN["messages"][0], "id": "mail", "channel": "email", "subject": "Hi"}
    result = invoke("campaign", "create", written(tmp_path, messages=[unknown, unfit]))
    assert result.exit_code == 1
    assert "'nowhere' is not in the registry (noop)" in result.stderr
    assert "'noop' sends sms, but the message's channel is email" in result.stderr


def test_an_address_with_a_line_break_is_skipped_with_its_reason(
    invoke: Invoke, tmp_path: Path
) -> None:
    invoke("migrate")
    recipient = {"id": "x", "phone": "+447700900123\r\nX: y", "attributes": {"firstName": "A"}}
    file = written(tmp_path, audience={"recipients": [recipient]})
    campaign = answer(invoke("campaign", "create", file, "--json"))["campaignId"]
    started = answer(invoke("campaign", "start", campaign, "--work", "--json"))
    assert started["accounting"]["skipped"] == 1
    shown = answer(invoke("run", "show", started["runId"], "--json"))
    assert shown["reasons"][0]["reason"] == "invalid_address"


def test_a_mistake_on_the_last_line_of_an_audience_file_leaves_nothing(
    invoke: Invoke, tmp_path: Path
) -> None:
    invoke("migrate")
    lines = ["id,phone", *(f"lead-{n},+4477{n:08d}" for n in range(5_000)), "lead-7,+447700000007"]
    Path(tmp_path, "people.csv").write_text("\n".join(lines))
    result = invoke(
        "campaign", "create", written(tmp_path, audience={"source": "people.csv"}), "--json"
    )
    assert result.exit_code == 1
    assert "line 5002" in json.loads(result.stdout)["error"]["fields"][0]["path"]
    assert answer(invoke("campaign", "list", "--json"))["items"] == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x/y", "sqlite:///FILE or postgresql://"),
        ("sqlite://", "sqlite:///outrider.db"),
        ("sqlite:////nowhere/at/all/x.db", "does not exist"),
        ("postgresql://nobody@127.0.0.1:1/none", "Postgres is unavailable"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_clear_error(url: str, says: str) -> None:
    result = CliRunner().invoke(app, ["--database", url, "migrate"])
    assert result.exit_code == 1
    assert says in result.stderr


def test_a_file_that_is_not_a_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("my notes, not a database, and long enough to look like neither" * 40)
    before = file.read_bytes()
    result = CliRunner().invoke(app, ["--database", f"sqlite:///{file}", "migrate"])
    assert result.exit_code == 1
    assert "not a database" in result.stderr
    assert file.read_bytes() == before


def test_a_database_newer_than_the_code_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/outrider.db"
    CliRunner().invoke(app, ["--database", url, "migrate"])
    apsw.Connection(f"{tmp_path}/outrider.db").execute(
        "INSERT INTO schema_migrations VALUES ('9999_future', 'x', '2030-01-01', 1)"
    )
    for command in (["migrate"], ["campaign", "list"]):
        result = CliRunner().invoke(app, ["--database", url, *command])
        assert result.exit_code == 1
        assert "newer than this code" in result.stderr


def test_check_reports_every_problem_at_once(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    file.write_bytes(
        registry(
            target("dead", "sms", "http://127.0.0.1:1"),
            target("mail", "smtp", "smtp://127.0.0.1:1"),
        )
    )
    arguments = ["--database", f"sqlite:///{tmp_path}/x.db", "--registry", str(file), "check"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "3 problems" in result.stderr
    assert "outrider migrate" in result.stderr
    assert result.stderr.count("nothing can be reached at 127.0.0.1:1") == 2


def test_settings_that_are_not_valid_name_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_LEASE_SECONDS", "soon")
    result = CliRunner().invoke(app, ["migrate"])
    assert result.exit_code == 1
    assert "OUTRIDER_LEASE_SECONDS" in result.stderr


def test_a_line_that_cannot_be_read_is_named_and_makes_absence_no_evidence(
    invoke: Invoke, tmp_path: Path
) -> None:
    invoke("migrate")
    file = tmp_path / "log.ndjson"
    file.write_text('{"referenceId": "a"}\nnot json\n')
    unnamed = invoke("doubts", "reconcile", "--evidence", str(file))
    assert unnamed.exit_code == 2
    assert "covers one target only" in unnamed.output
    result = invoke(
        "doubts", "reconcile", "--target", "noop", "--evidence", str(file), "--absent", "resubmit"
    )
    assert "line 2: is not JSON" in result.output
    assert "--absent was not applied" in result.output


def test_an_intent_from_submission_to_outcome(invoke: Invoke) -> None:
    invoke("migrate")
    submission = ["intent", "submit", "order-1", "--target", "noop", "--payload"]
    first = answer(invoke(*submission, '{"to": "x"}', "--json"))
    assert (first["status"], first["new"], first["attempts"]) == ("PENDING", True, [])
    done = answer(invoke(*submission, '{"to": "x"}', "--work", "--json"))
    assert (done["status"], done["finalOutcome"], done["new"]) == ("ACCEPTED", "accepted", False)
    shown = answer(invoke("intent", "show", "order-1", "--json"))
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["accepted"]
    assert "was sent by noop" in invoke("intent", "show", "order-1").output
    conflict = invoke(*submission, '{"to": "y"}', "--json")
    assert json.loads(conflict.stdout)["error"]["code"] == "IDEMPOTENCY_CONFLICT"


def test_an_intent_that_cannot_be_submitted_is_reported_with_the_reason(
    invoke: Invoke, tmp_path: Path
) -> None:
    invoke("migrate")
    for payload, says in (("[]", "not a JSON object"), ("@missing.json", "cannot be read")):
        result = invoke("intent", "submit", "a", "--target", "noop", "--payload", payload)
        assert result.exit_code == 1
        assert says in result.stderr
    (tmp_path / "payload.json").write_text('{"to": "x"}')
    result = invoke("intent", "submit", "a", "--target", "noop", "--payload", "@payload.json")
    assert result.exit_code == 0


def test_the_state_of_targets_is_shown(invoke: Invoke) -> None:
    invoke("migrate")
    [line] = answer(invoke("target", "list", "--json"))["targets"]
    assert (line["submissionTarget"], line["state"]) == ("noop", None)
    assert answer(invoke("target", "show", "noop", "--json")) == line
    assert "door: open" in invoke("target", "show", "noop").output
    assert "noop" in invoke("target", "list").output


def work_until_idle() -> None:
    """In a process of its own, which ends in time or is ended."""
    command = [sys.executable, "-m", "outrider", "work", "--until-idle"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_a_target_is_paused_and_resumed_and_nothing_is_sent_meanwhile(invoke: Invoke) -> None:
    invoke("migrate")
    paused = answer(invoke("target", "pause", "noop", "--json"))
    assert (paused["submissionTarget"], paused["changed"]) == ("noop", True)
    assert (paused["state"]["door"], paused["state"]["pausedBy"]) == ("paused", "cli")
    again = invoke("target", "pause", "noop")
    assert "already paused" in again.output
    invoke("intent", "submit", "order-1", "--target", "noop", "--payload", '{"to": "x"}')
    # What cannot be sent for now is left to whoever works then.
    work_until_idle()
    assert answer(invoke("intent", "show", "order-1", "--json"))["attempts"] == []
    resumed = answer(invoke("target", "resume", "noop", "--json"))
    assert (resumed["changed"], resumed["state"]) == (True, None)
    assert answer(invoke("target", "resume", "noop", "--json"))["changed"] is False
    work_until_idle()
    shown = answer(invoke("intent", "show", "order-1", "--json"))
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["accepted"]


def test_a_target_without_trouble_is_reset_and_nothing_changes(invoke: Invoke) -> None:
    invoke("migrate")
    reset = answer(invoke("target", "reset", "noop", "--json"))
    assert (reset["changed"], reset["state"], reset["success"]) == (False, None, True)


def test_a_target_that_is_not_there_cannot_be_controlled(invoke: Invoke) -> None:
    invoke("migrate")
    for command in ("show", "pause", "resume", "reset"):
        refused = invoke("target", command, "nowhere")
        assert refused.exit_code == 1
        assert "there is no submission target 'nowhere'" in refused.stderr
        assert "noop" in refused.stderr


def test_a_worker_reloads_the_registry_on_sighup_and_leaves_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    file.write_bytes(registry(target("noop", "noop", "noop:")))
    environment = {
        **os.environ,
        "OUTRIDER_DATABASE_URL": f"sqlite:///{tmp_path}/x.db",
        "OUTRIDER_REGISTRY": str(file),
    }
    command = [sys.executable, "-m", "outrider"]
    subprocess.run([*command, "migrate"], env=environment, check=True, capture_output=True)
    worker = subprocess.Popen(
        [*command, "work", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert json.loads(worker.stdout.readline()) == {"worker": "ready"}
    file.write_text("{")
    worker.send_signal(signal.SIGHUP)
    assert worker.stderr is not None
    lines = iter(worker.stderr.readline, "")
    assert any("registry_reload_refused" in line for line in lines)
    file.write_bytes(registry(target("noop", "noop", "noop:")))
    worker.send_signal(signal.SIGHUP)
    assert any("registry_reloaded" in line for line in lines)
    worker.terminate()
    worker.communicate(timeout=60)
    assert worker.returncode == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[targets."sms', "outrider.toml cannot be read"),
        ('[targets."sms.x"]\nrate = 5', "outrider.toml: targets.sms.x.rate"),
        ('[targets.x.credentials]\nkey = "hunter2"', "must be env:NAME or file:PATH"),
    ],
)
def test_a_mistake_in_the_settings_file_is_reported_with_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outrider.toml").write_text(text)
    result = CliRunner().invoke(app, ["migrate"])
    assert result.exit_code == 1
    assert says in result.stderr
    assert "hunter2" not in result.output


def test_ids_in_tables_stay_whole_however_narrow_the_terminal(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    invoke("migrate")
    campaign = answer(invoke("campaign", "create", written(tmp_path), "--json"))["campaignId"]
    assert campaign in invoke("campaign", "list").output
