"""A run's log as people and machines read it: over HTTP and with `outrider run`, here and there."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner, Result

from outrider.cli import run_log as command_line
from outrider.cli.app import app
from outrider.domain.ids import RunId
from outrider.domain.projection import project_run
from outrider.domain.run_events import RunEvent, event_key
from outrider.domain.snapshot_documents import snapshot_document
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.eventually import eventually, observed_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_SECONDS = 60.0
STEPS = 3
EVENTS = 2 + 2 * STEPS + 1
"""Approved and started, each step started and completed, and the run completed."""


@dataclass
class Scene:
    """A server, and a run of it that went through."""

    server: ApiServer
    database: str
    run_id: str

    @property
    def path(self) -> str:
        return f"/runs/{self.run_id}"

    async def there(self, *arguments: str) -> Result:
        """The command, asked of the server; in a thread, because it has a loop of its own."""
        environment = {"OUTRIDER_KEY": self.server.key}
        given = ["--server", self.server.url, *arguments]
        return await asyncio.to_thread(CliRunner(env=environment).invoke, app, given)

    async def here(self, *arguments: str) -> Result:
        given = ["--database", self.database, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, given)


async def started(server: ApiServer, count: int = STEPS) -> tuple[str, str]:
    """A new campaign of so many steps, and its run."""
    made = await server.post("/campaigns", campaign(count, batchSize=1))
    name = made["campaignId"]
    answer = await server.post(f"/campaigns/{name}/phases/launch/start")
    return name, answer["runId"]


async def until_ended(server: ApiServer, run_id: str) -> None:
    async def is_so() -> bool:
        return (await server.get(f"/runs/{run_id}"))["finishedAt"] is not None

    await eventually(is_so, seconds=PATIENCE_SECONDS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("run-log")
    async with running_server(folder) as server:
        _, run_id = await started(server)
        await until_ended(server, run_id)
        yield Scene(server, f"sqlite:///{folder}/outrider.db", run_id)


def read(lines: list[dict[str, Any]]) -> list[RunEvent]:
    return [
        RunEvent(
            RunId(line["runId"]),
            line["runSeq"],
            line["eventType"],
            datetime.fromisoformat(line["occurredAt"]),
            line["stepId"],
            int(line["logicalAttemptId"]),
            line["engineAttemptId"] and int(line["engineAttemptId"]),
            line["payload"],
        )
        for line in lines
    ]


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# HTTP


async def test_events_come_in_their_order_with_everything_the_contract_names(scene: Scene) -> None:
    page = await scene.server.get(f"{scene.path}/events")
    lines = page["items"]
    assert page["next"] is None
    assert [line["runSeq"] for line in lines] == list(range(1, EVENTS + 1))
    assert [line["eventType"] for line in lines[:2]] == ["RunApproved", "RunStarted"]
    assert lines[-1]["eventType"] == "RunCompleted"
    for line in lines:
        assert line["runId"] == scene.run_id
        assert line["idempotencyKey"] == event_key(
            line["runId"], line["stepId"], int(line["logicalAttemptId"]), line["eventType"],
            line["planVersion"],
        )  # fmt: skip
        of_step = line["eventType"].startswith("Step")
        assert (line["stepId"] is not None) == of_step
        assert line["engineAttemptId"] == ("1" if of_step else None)
    told = {line["eventType"]: line["emittedBy"] for line in lines}
    assert told == {
        "RunApproved": "planner", "RunStarted": "engine", "StepStarted": "activity",
        "StepCompleted": "activity", "RunCompleted": "engine",
    }  # fmt: skip


async def test_pages_of_events_join_without_a_gap_or_a_repeat(scene: Scene) -> None:
    whole = (await scene.server.get(f"{scene.path}/events"))["items"]
    joined: list[dict[str, Any]] = []
    following: str | None = "0"
    while following is not None:
        page = await scene.server.get(f"{scene.path}/events?after={following}&limit=3")
        assert len(page["items"]) <= 3
        joined += page["items"]
        following = page["next"]
        assert following is None or following == str(joined[-1]["runSeq"])
    assert joined == whole
    assert (await scene.server.get(f"{scene.path}/events?after=9000"))["items"] == []


async def test_the_snapshot_at_every_event_is_what_the_events_add_up_to(scene: Scene) -> None:
    log = read((await scene.server.get(f"{scene.path}/events"))["items"])
    for at in range(EVENTS + 2):
        expected = project_run(RunId(scene.run_id), [each for each in log if each.run_seq <= at])
        found = await scene.server.get(f"{scene.path}/snapshot?at={at}")
        assert found == snapshot_document(expected)
    now = await scene.server.get(f"{scene.path}/snapshot")
    assert now == snapshot_document(project_run(RunId(scene.run_id), log))
    assert (now["status"], now["lastEventSeq"], len(now["steps"])) == ("COMPLETED", EVENTS, STEPS)
    assert {step["status"] for step in now["steps"]} == {"SUCCESS"}


@pytest.mark.parametrize(
    "query",
    ["events?after=-1", "events?after=x", "events?limit=0", "snapshot?at=-1", "snapshot?at=x",
     "snapshot?at=99999999999999999999"],
)  # fmt: skip
async def test_an_invalid_sequence_is_refused(scene: Scene, query: str) -> None:
    answer = await scene.server.request("GET", f"{scene.path}/{query}")
    assert answer.status == 400
    assert answer.json["error"]["code"] == "INVALID_REQUEST"


async def test_metrics_show_the_lag_and_how_much_was_projected(scene: Scene) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = (await scene.server.request("GET", "/metrics")).body.decode()
            lag = re.search(r"^outrider_projection_lag_seconds (\S+)$", page, re.MULTILINE)
            count = re.search(r"^outrider_projected_events_total (\S+)$", page, re.MULTILINE)
            assert lag is not None
            assert count is not None
            if float(lag[1]) == 0 and float(count[1]) >= EVENTS:
                return
            await asyncio.sleep(0.05)


# The command line


async def test_here_and_there_give_the_same_documents(scene: Scene) -> None:
    for arguments in (
        ("events", scene.run_id),
        ("events", scene.run_id, "--after", "2", "--limit", "3"),
        ("snapshot", scene.run_id),
        ("snapshot", scene.run_id, "--at", "4"),
    ):
        here = document(await scene.here("run", *arguments, "--json"))
        assert here == document(await scene.there("run", *arguments, "--json")), arguments
    assert here["lastEventSeq"] == 4


async def test_events_are_a_readable_line_each(scene: Scene) -> None:
    result = await scene.here("run", "events", scene.run_id, "--limit", "5")
    lines = result.stdout.splitlines()
    steps = (await scene.server.get(f"{scene.path}/snapshot"))["steps"]
    assert len(lines) == 6
    assert lines[0].split()[0] == "1"
    assert "RunApproved" in lines[0]
    assert "approvedBy=planner" in lines[0]
    assert any(step["stepId"][-8:] in lines[2] for step in steps)
    assert " 1/1 " in lines[2]
    assert lines[5] == f"next: outrider run events {scene.run_id} --after 5"
    after = await scene.here("run", "events", scene.run_id, "--after", "9000")
    assert after.stdout == "no events\n"


async def test_a_snapshot_is_a_table_of_steps(scene: Scene) -> None:
    shown = (await scene.there("run", "snapshot", scene.run_id)).stdout
    assert f"run {scene.run_id}  COMPLETED  at event {EVENTS}" in shown
    assert f"{STEPS} jobs: {STEPS} SUCCESS" in shown
    assert len(shown.splitlines()) == 3 + STEPS
    early = (await scene.here("run", "snapshot", scene.run_id, "--at", "1")).stdout
    assert "APPROVED  at event 1" in early
    assert "no job has started" in early


async def test_following_a_run_that_has_ended_ends(scene: Scene) -> None:
    result = await scene.there("run", "events", scene.run_id, "--follow", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == (await scene.server.get(f"{scene.path}/events"))["items"]
    beyond = await scene.here("run", "events", scene.run_id, "--follow", "--after", "9000")
    assert (beyond.exit_code, beyond.stdout) == (0, "")


@pytest.mark.parametrize("remote", [False, True], ids=["here", "there"])
async def test_following_continues_until_the_run_has_ended(
    scene: Scene, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "FOLLOW_SECONDS", 0.05)
    server = scene.server
    made = await server.post(
        "/campaigns", campaign(2, batchSize=1, scheduledFor="2099-01-01T00:00:00Z")
    )
    name = made["campaignId"]
    run_id = (await server.post(f"/campaigns/{name}/phases/launch/start"))["runId"]
    ask = scene.there if remote else scene.here
    following = asyncio.create_task(ask("run", "events", run_id, "--follow", "--json"))
    for action in ("pause", "resume"):
        await server.post(f"/campaigns/{name}/phases/launch/{action}")
        await observed_for(0.2)
        assert not following.done(), "the run goes on"
    await server.post(f"/campaigns/{name}/phases/launch/stop")
    async with asyncio.timeout(PATIENCE_SECONDS):
        result = await following
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == (await server.get(f"/runs/{run_id}/events"))["items"]
    types = [line["eventType"] for line in lines]
    assert types[0] == "RunApproved"
    assert types.index("RunPaused") < types.index("RunResumed") < types.index("RunCancelled")


async def test_a_run_that_is_not_there_is_not_found(scene: Scene) -> None:
    for command in ("events", "snapshot"):
        for ask in (scene.here, scene.there):
            result = await ask("run", command, "nothing")
            assert result.exit_code == 1
            assert "there is no run nothing" in result.stderr


async def test_evidence_of_a_server_is_verified_without_it(scene: Scene, tmp_path: Path) -> None:
    bundle, proof = tmp_path / "bundle.ndjson", tmp_path / "proof.json"
    written = await scene.there("run", "evidence", scene.run_id, "--out", str(bundle))
    assert written.exit_code == 0, written.output
    people = (await scene.server.get(f"{scene.path}/outbox"))["items"]
    one = ["--recipient", people[0]["recipientId"]]
    written = await scene.there("run", "evidence", scene.run_id, *one, "--out", str(proof))
    assert written.exit_code == 0, written.output
    for file in (bundle, proof):
        shown = CliRunner().invoke(app, ["verify", str(file)])
        assert "Everything holds." in shown.output
    certificate = await scene.server.get(f"{scene.path}/certificate")
    assert certificate["seal"]["ledgerRows"] == STEPS
    assert certificate["eventChain"]["events"] == EVENTS
    unknown = scene.run_id[:-4] + "0000"
    refused = await scene.there("run", "evidence", unknown, "--out", str(bundle))
    assert refused.exit_code == 1
