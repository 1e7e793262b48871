"""`outrider --server URL`: every command that a server can answer, asked of a real one."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.app import app
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import target
from tests.support.api_server import ApiServer, campaign, running_server

Invoke = Callable[..., Awaitable[Result]]

SETTLED_SECONDS = 60.0
LATER = "2099-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command runs where there is no database, no registry and no key."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("OUTRIDER_DATABASE_URL", "OUTRIDER_REGISTRY", "OUTRIDER_KEY", "OUTRIDER_ROOT_KEY"):
        monkeypatch.delenv(name, raising=False)
    return here


@pytest.fixture
async def mail() -> AsyncIterator[Sandbox]:
    """Takes every mail and hangs up without an answer."""
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        yield sandbox


@pytest.fixture
async def server(tmp_path: Path, mail: Sandbox) -> AsyncIterator[ApiServer]:
    targets = (target("noop", "noop", "noop:"), target("mail", "smtp", mail.smtp_url))
    async with running_server(tmp_path, targets=targets) as started:
        yield started


@pytest.fixture
def invoke(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setenv("OUTRIDER_KEY", server.key)
    return lambda *arguments: asked(server.url, *arguments)


async def asked(url: str, *arguments: str) -> Result:
    """In a thread: the command has a loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["--server", url, *arguments])


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def text(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def written(folder: Path, **changes: object) -> str:
    file = folder / "campaign.json"
    file.write_text(json.dumps(campaign(**changes)))  # type: ignore[arg-type]
    return str(file)


async def created(invoke: Invoke, folder: Path, **changes: object) -> str:
    made = answer(await invoke("campaign", "create", written(folder, **changes), "--json"))
    return str(made["campaignId"])


async def test_a_campaign_with_a_file_goes_from_upload_to_certificate(
    invoke: Invoke, folder: Path
) -> None:
    (folder / "people.csv").write_text("id,phone,firstName\na,+447700900123,Ada\nb,,Grace\n")
    file = written(folder, audience={"source": "people.csv"})
    made = answer(await invoke("campaign", "create", file, "--json"))
    assert made["recipients"] == 2
    name = made["campaignId"]
    assert name in text(await invoke("campaign", "list"))
    started = answer(await invoke("campaign", "start", name, "--json"))
    watched = answer(await invoke("campaign", "watch", name, "--json"))
    assert watched["accounting"] == {
        "intended": 2, "waiting": 0, "inDoubt": 0, "sent": 1, "failed": 0, "skipped": 1,
        "delivery": {
            "delivered": 0, "bounced": 0, "complained": 0, "read": 0, "replied": 0,
            "optedOut": 0, "failed": 0, "unknown": 1,
        },
    }  # fmt: skip
    status = answer(await invoke("campaign", "status", name, "--json"))
    assert status["phases"]["launch"]["state"] == "completed"
    assert "launch: 2 intended" in text(await invoke("campaign", "status", name))

    run = started["runId"]
    shown = answer(await invoke("run", "show", run, "--json"))
    assert shown["reasons"] == [{"status": "skipped", "reason": "no_address", "items": 1}]
    assert "no_address" in text(await invoke("run", "show", run))
    assert answer(await invoke("run", "certificate", run, "--json"))["holds"] is True
    assert f"Launch certificate for run {run}: holds" in text(
        await invoke("run", "certificate", run)
    )
    assert "The run is completed" in text(await invoke("run", "explain", run))
    told = answer(await invoke("run", "explain", run, "--recipient", "b", "--json"))
    assert (told["runId"], told["recipientId"]) == (run, "b")
    assert "no address for this channel" in told["sentences"][0]
    nobody = await invoke("run", "explain", run, "--recipient", "nobody")
    assert nobody.exit_code == 1
    assert "no ledger row for recipient nobody" in nobody.stderr


async def test_here_and_there_give_the_same_documents(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    name = await created(invoke, folder)
    run = answer(await invoke("campaign", "start", name, "--json"))["runId"]
    await invoke("campaign", "watch", name)
    await invoke("intent", "submit", "order-1", "--target", "noop", "--payload", "{}", "--json")
    await until_accepted(invoke, "order-1")
    for command in (
        ("run", "show", run),
        ("run", "explain", run),
        ("run", "explain", run, "--recipient", "lead-1"),
        ("campaign", "status", name),
        ("doubts", "list"),
        ("intent", "show", "order-1"),
        ("key", "list"),
    ):
        database = ("--database", f"sqlite:///{tmp_path}/outrider.db")
        here = await asyncio.to_thread(CliRunner().invoke, app, [*database, *command, "--json"])
        assert answer(here) == answer(await invoke(*command, "--json")), command


async def until_accepted(invoke: Invoke, intent: str) -> dict[str, Any]:
    async with asyncio.timeout(SETTLED_SECONDS):
        while True:
            shown: dict[str, Any] = answer(await invoke("intent", "show", intent, "--json"))
            if shown["status"] == "ACCEPTED":
                return shown


async def test_every_control_of_a_phase(invoke: Invoke, folder: Path) -> None:
    name = await created(invoke, folder, scheduledFor=LATER)
    states = []
    for action in ("start", "pause", "resume", "pause", "stop"):
        states.append(answer(await invoke("campaign", action, name, "--json"))["state"])
    assert states == ["in_progress", "paused", "in_progress", "paused", "failed"]
    refused = await invoke("campaign", "resume", name, "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["code"] == "INVALID_PHASE_TRANSITION"
    async with asyncio.timeout(SETTLED_SECONDS):
        # The worker settles what was stopped before it can be retried.
        while (again := await invoke("campaign", "retry", name, "--json")).exit_code:
            pass
    assert answer(again)["state"] == "in_progress"


async def test_rerunning_for_everyone_requires_a_confirmation(invoke: Invoke, folder: Path) -> None:
    name = await created(invoke, folder)
    first = answer(await invoke("campaign", "start", name, "--json"))
    await invoke("campaign", "watch", name)
    again = ("campaign", "rerun", name, "--scope", "all")
    assert (await invoke(*again)).exit_code == 1
    rerun = answer(await invoke(*again, "--confirm", "--json"))
    assert (rerun["state"], rerun["changed"]) == ("in_progress", True)
    assert rerun["runId"] != first["runId"]


async def test_a_doubt_is_listed_and_resolved(invoke: Invoke, folder: Path) -> None:
    message = {
        "id": "mail", "channel": "email", "submissionTarget": "mail", "subject": "Hi", "body": "Hi",
    }  # fmt: skip
    people = {"recipients": [{"id": "lead-1", "email": "a@example.test"}]}
    name = await created(invoke, folder, audience=people, messages=[message])
    run = answer(await invoke("campaign", "start", name, "--json"))["runId"]
    watched = answer(await invoke("campaign", "watch", name, "--json"))
    assert watched["accounting"]["inDoubt"] == 1
    assert (await invoke("run", "certificate", run)).exit_code == 1
    [doubt] = answer(await invoke("doubts", "list", "--run", run, "--json"))["items"]
    assert (doubt["recipientId"], doubt["provider"]) == ("lead-1", "smtp")
    assert doubt["reference"] in text(await invoke("doubts", "list"))
    verdict = ("--verdict", "sent", "--evidence", "their log")
    resolved = answer(await invoke("doubts", "resolve", doubt["outboxId"], *verdict, "--json"))
    assert resolved == {"outboxId": doubt["outboxId"], "verdict": "sent", "success": True}
    assert (await invoke("doubts", "resolve", doubt["outboxId"], *verdict)).exit_code == 1
    assert "nothing is in doubt" in text(await invoke("doubts", "list"))
    watched = answer(await invoke("campaign", "watch", name, "--json"))
    assert watched["state"] == "completed"


async def test_an_intent_is_submitted_once_and_shown(invoke: Invoke) -> None:
    submission = ("intent", "submit", "order?1 a", "--target", "noop", "--payload")
    first = answer(await invoke(*submission, '{"to": "x"}', "--json"))
    again = answer(await invoke(*submission, '{"to": "x"}', "--json"))
    assert (first["new"], again["new"]) == (True, False)
    assert first["success"] is True
    assert "already known" in text(await invoke(*submission, '{"to": "x"}'))
    await until_accepted(invoke, "order?1 a")
    assert "was sent by noop" in text(await invoke("intent", "show", "order?1 a"))
    conflict = await invoke(*submission, '{"to": "y"}', "--json")
    assert json.loads(conflict.stdout)["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    for wrong, says in (("[]", "not a JSON object"), ("{}", "--work runs on this machine")):
        refused = await invoke(*submission, wrong, *(["--work"] if wrong == "{}" else []))
        assert refused.exit_code == 1
        assert says in refused.stderr


async def test_the_registry_of_the_server_is_shown_and_how_its_targets_fare(invoke: Invoke) -> None:
    shown = answer(await invoke("registry", "show", "--json"))
    assert [each["submissionTarget"] for each in shown["targets"]] == ["mail", "noop"]
    assert "5 attempts" in text(await invoke("registry", "show"))
    listed = answer(await invoke("target", "list", "--json"))["targets"]
    assert [(each["submissionTarget"], each["state"]) for each in listed] == [
        ("mail", None), ("noop", None),
    ]  # fmt: skip
    assert answer(await invoke("target", "show", "noop", "--json")) == listed[1]
    assert "door: open" in text(await invoke("target", "show", "noop"))


async def test_a_target_of_the_server_is_paused_resumed_and_reset(invoke: Invoke) -> None:
    paused = answer(await invoke("target", "pause", "noop", "--json"))
    assert (paused["changed"], paused["state"]["door"]) == (True, "paused")
    assert paused["state"]["pausedBy"]
    assert "paused" in text(await invoke("target", "list"))
    resumed = answer(await invoke("target", "resume", "noop", "--json"))
    assert (resumed["changed"], resumed["state"]) == (True, None)
    reset = answer(await invoke("target", "reset", "noop", "--json"))
    assert (reset["changed"], reset["state"]) == (False, None)
    refused = await invoke("target", "pause", "nowhere")
    assert refused.exit_code == 1
    assert "there is no submission target 'nowhere'" in refused.stderr


async def test_a_key_is_made_used_listed_and_revoked(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = answer(await invoke("key", "create", "ci", "--scope", "read", "--json"))
    listed = answer(await invoke("key", "list", "--json"))["items"]
    assert made["id"] in [key["id"] for key in listed]
    assert made["key"] not in text(await invoke("key", "list"))
    assert "store it now" in text(await invoke("key", "create", "other"))
    elsewhere = await invoke("key", "list", "--workspace", "acme/shop/production")
    assert "remove --workspace" in elsewhere.stderr
    with monkeypatch.context() as as_reader:
        as_reader.setenv("OUTRIDER_KEY", made["key"])
        assert (await invoke("campaign", "list")).exit_code == 0
        refused = await invoke("key", "list", "--json")
        assert refused.exit_code == 1
        assert json.loads(refused.stdout)["error"]["code"] == "INSUFFICIENT_SCOPE"
    revoked = answer(await invoke("key", "revoke", made["id"], "--json"))
    assert revoked["revokedAt"] is not None
    assert (await invoke("key", "revoke", "nonsense")).exit_code == 1


async def test_mistakes_in_a_campaign_are_reported_with_their_paths(
    invoke: Invoke, folder: Path
) -> None:
    refused = await invoke("campaign", "create", written(folder, batchSize=0, surprise=1), "--json")
    assert refused.exit_code == 1
    fields = {field["path"] for field in json.loads(refused.stdout)["error"]["fields"]}
    assert fields >= {"batchSize", "surprise"}
    missing = await invoke("campaign", "create", written(folder, audience={"source": "no.csv"}))
    assert missing.exit_code == 1
    assert "no.csv" in missing.stderr
    assert answer(await invoke("campaign", "list", "--json"))["items"] == []


async def test_a_wrong_or_missing_key_is_reported(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = await asked(server.url, "campaign", "list")
    monkeypatch.setenv("OUTRIDER_KEY", "outrider_wrong")
    wrong = await asked(server.url, "campaign", "list")
    monkeypatch.setenv("OUTRIDER_KEY", "two\nlines")
    odd = await asked(server.url, "campaign", "list")
    for refused in (missing, wrong, odd):
        assert refused.exit_code == 1
        assert "key" in refused.stderr
    for refused in (missing, wrong):
        assert "set OUTRIDER_KEY" in refused.stderr


@pytest.mark.parametrize("place", ["http_url", "smtp_url", "nobody", "no address"])
async def test_a_server_that_is_not_outrider_is_reported(
    place: str, mail: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, says = {
        "http_url": (mail.http_url, "did not come from an Outrider server"),
        "smtp_url": (mail.smtp_url.replace("smtp", "http"), "did not answer"),
        "nobody": ("http://127.0.0.1:1", "did not answer"),
        "no address": ("localhost:8400", "use the form http://HOST:PORT"),
    }[place]
    monkeypatch.setenv("OUTRIDER_KEY", "outrider_some")
    refused = await asked(url, "campaign", "list")
    assert refused.exit_code == 1
    assert says in refused.stderr
    as_json = await asked(url, "campaign", "list", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["success"] is False


@pytest.mark.parametrize(
    "command",
    ["migrate", "check", "demo", "sandbox", "serve", "work", "work --processes 2",
     "doubts reconcile", "registry check"],
)  # fmt: skip
async def test_a_local_command_is_refused_with_a_server(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_KEY", "outrider_some")
    refused = await asked("http://127.0.0.1:1", *command.split())
    assert refused.exit_code == 1
    assert "cannot be used with a server" in refused.stderr


async def test_a_policy_with_presets_is_set_and_shown_through_a_server(
    invoke: Invoke, tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"presets": ["us-tcpa", "fr"], "exempt": ["order_receipt"]}))
    put = await invoke("workflow", "policy", "set", str(file))
    assert put.exit_code == 0, put.stderr
    shown = answer(await invoke("workflow", "policy", "show", "--json"))
    assert (shown["presets"], shown["exempt"]) == (["us-tcpa", "fr"], ["order_receipt"])
    assert "preset us-tcpa" in text(await invoke("workflow", "policy", "show"))
