"""Contract 003, clause by clause, over real HTTP and SSE against a server in its own process.

The eleven validation scenarios come first, each a test of its name; restarts are real restarts.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from outrider.domain.phases import Action
from outrider.domain.states import PHASE_MACHINE, PhaseState
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.testing.campaign_view import STATUS_SET_BY, CampaignView
from outrider.testing.clock import ShiftedClock
from outrider.testing.launches import target
from outrider.testing.postgres import create_database, drop_database
from tests.support.api_server import Answer, ApiServer, Stream, campaign, running_server
from tests.support.eventually import observed_for
from tests.support.raw_sql import raw_sql

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
SLOW_MS = 40.0

pytestmark = pytest.mark.asyncio(loop_scope="module")

Look = Callable[[dict[str, Any]], bool]


class Scene:
    """A server, its provider, and a campaign that takes a while."""

    def __init__(self, server: ApiServer, sandbox: Sandbox, log_path: Path, database: str) -> None:
        self.server = server
        self.sandbox = sandbox
        self.log_path = log_path
        self.database = database
        self.campaign_id = ""

    def begin(self) -> None:
        """The provider as it is at first: slow, and with nothing received."""
        self.campaign_id = ""
        self.sandbox.faults.latency_ms = SLOW_MS
        self.sandbox.requests = 0
        os.truncate(self.log_path, 0)

    async def end(self) -> None:
        """Leave nothing to the next test: stop what is under way, and let it be swept up."""
        if not self.campaign_id:
            return
        self.sandbox.faults.latency_ms = 0
        await self.server.request("POST", f"/campaigns/{self.campaign_id}/stop")
        await self.until(
            lambda seen: (
                not any(
                    phase["accounting"] and phase["accounting"]["waiting"]
                    for phase in seen["phases"].values()
                )
            )
        )

    async def create(self, recipients: int = 400, **changes: object) -> str:
        message = {
            "id": "offer", "channel": "sms", "submissionTarget": "sms", "body": "Hi",
        }  # fmt: skip
        document = campaign(recipients, messages=[message], batchSize=20, **changes)
        created = await self.server.post("/campaigns", document)
        self.campaign_id = created["campaignId"]
        return self.campaign_id

    async def start(self, recipients: int = 400, **changes: object) -> None:
        await self.create(recipients, **changes)
        await self.act("start")

    async def act(
        self, action: str, phase: str = "launch", query: str = "", **given: Any
    ) -> Answer:
        path = f"/campaigns/{self.campaign_id}/phases/{phase}/{action}{query}"
        return await self.server.request("POST", path, **given)

    async def snapshot(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.server.get(f"/campaigns/{self.campaign_id}/status")
        return found

    async def state(self) -> str:
        state: str = (await self.snapshot())["phases"]["launch"]["state"]
        return state

    async def until(self, reached: Look) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                snapshot = await self.snapshot()
                if reached(snapshot):
                    return snapshot
                await asyncio.sleep(0.05)

    async def until_progress(self, percentage: float) -> dict[str, Any]:
        return await self.until(
            lambda seen: seen["phases"]["launch"]["progressPercentage"] >= percentage
        )

    async def until_state(self, state: str) -> dict[str, Any]:
        return await self.until(lambda seen: seen["phases"]["launch"]["state"] == state)

    async def at_rest(self) -> dict[str, Any]:
        """The snapshot once the calls that were under way have ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                before = self.sandbox.requests
                await observed_for(0.4)
                seen = await self.snapshot()
                sent = seen["phases"]["launch"]["accounting"]["sent"]
                if before == self.sandbox.requests == sent:
                    return seen

    async def events(self) -> list[dict[str, Any]]:
        """Every event so far, as the stream gives them from the beginning."""
        last = (await self.snapshot())["lastSequence"]
        found: list[dict[str, Any]] = []
        async with self.server.stream(self.campaign_id, after=0) as stream:
            while not found or found[-1]["sequence"] < last:
                found.append((await stream.next()).data)
        return found

    async def lifecycle(self) -> list[str]:
        return [
            event["type"] for event in await self.events() if event["type"] != "campaign_progress"
        ]


@asynccontextmanager
async def playing(
    database: str, tmp_path: Path, *, module: str = "outrider", **environment: str
) -> AsyncIterator[Scene]:
    log_path = tmp_path / "provider.ndjson"
    async with Sandbox(Faults(latency_ms=SLOW_MS, seed=3), log_path=log_path) as sandbox:
        targets = (
            target("sms", "sms", sandbox.http_url, maxAttempts=50),
            target("once", "sms", sandbox.http_url, policy="one_shot"),
        )
        async with running_server(
            tmp_path, database=database, targets=targets, module=module, environment=environment
        ) as server:
            yield Scene(server, sandbox, log_path, database)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgres"])
async def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    """One server of each store for all tests here; to start one takes seconds."""
    folder = tmp_path_factory.mktemp("phases")
    async with fresh_database(request, folder) as database, playing(database, folder) as scene:
        yield scene


@asynccontextmanager
async def fresh_database(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{folder}/outrider.db"
        return
    server_url: str = request.getfixturevalue("postgres_url")
    url = await create_database(server_url)
    yield url
    await drop_database(server_url, url)


@pytest_asyncio.fixture(loop_scope="module")
async def scene(stage: Scene) -> AsyncIterator[Scene]:
    stage.begin()
    yield stage
    await stage.end()


# 11. Required validation scenarios


async def test_scenario_1_pause_survives_refresh(scene: Scene) -> None:
    await scene.start()
    assert (await scene.act("pause")).status == 200
    refreshed = CampaignView()
    refreshed.apply_snapshot(await scene.snapshot())
    assert refreshed.states == {"launch": PhaseState.PAUSED}
    assert refreshed.control_phase == "launch"


@pytest.mark.parametrize("gracefully", [True, False], ids=["stopped", "killed"])
async def test_scenario_2_pause_survives_backend_restart(scene: Scene, gracefully: bool) -> None:
    await scene.start()
    view = CampaignView()
    async with scene.server.stream(scene.campaign_id, after=0) as stream:
        await scene.act("pause")
        while view.states.get("launch") is not PhaseState.PAUSED:
            view.apply_event((await stream.next()).data)
        seen = view.last_applied_sequence
        await scene.server.restart(gracefully=gracefully)
    async with scene.server.stream(scene.campaign_id, last_event_id=seen):
        view.apply_snapshot(await scene.snapshot())
    assert view.states == {"launch": PhaseState.PAUSED}
    assert await scene.state() == "paused"


async def test_scenario_3_resume_continues_progress(scene: Scene) -> None:
    await scene.start(600)
    await scene.until_progress(30)
    await scene.act("pause")
    paused = await scene.at_rest()
    before = paused["phases"]["launch"]["progressPercentage"]
    assert 30 <= before < 100
    assert (await scene.act("resume")).json["state"] == "in_progress"
    after = await scene.until_progress(before + 5)
    assert after["phases"]["launch"]["runId"] == paused["phases"]["launch"]["runId"]
    scene.sandbox.faults.latency_ms = 0
    await scene.until_state("completed")
    assert await scene.lifecycle() == [
        "phase_started", "phase_paused", "phase_resumed", "phase_completed",
    ]  # fmt: skip
    progress = [
        event["payload"]["progressPercentage"]
        for event in await scene.events()
        if event["type"] == "campaign_progress"
    ]
    assert progress == sorted(progress)
    delivered = references_delivered(scene.log_path)
    assert (len(delivered), set(delivered.values())) == (600, {1})


async def test_scenario_4_out_of_order_sse_ignored(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    await scene.act("resume")
    await scene.act("pause")
    view = CampaignView()
    view.apply_snapshot(await scene.snapshot())
    stale = [event for event in await scene.events() if event["type"] == "phase_resumed"]
    assert stale
    assert stale[0]["sequence"] < view.last_applied_sequence
    assert view.apply_event(stale[0]) is False
    assert view.states == {"launch": PhaseState.PAUSED}


async def test_scenario_5_duplicate_pause_idempotent(scene: Scene) -> None:
    await scene.start()
    first, second = await scene.act("pause"), await scene.act("pause")
    assert (first.status, second.status) == (200, 200)
    assert (first.json["changed"], second.json["changed"]) == (True, False)
    assert first.json["sequence"] == second.json["sequence"]
    assert await scene.state() == "paused"


async def test_scenario_6_invalid_transition_rejected(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    refused = await scene.act("complete")
    assert refused.status == 409
    error = refused.json["error"]
    assert error["code"] == "INVALID_PHASE_TRANSITION"
    assert error["current_state"] == "paused"
    assert error["attempted_action"] == "complete"
    assert error["message"] == "Cannot transition from 'paused' to 'completed'"
    assert await scene.state() == "paused"


async def test_scenario_7_progress_after_pause_ignored(scene: Scene) -> None:
    scene.sandbox.faults.latency_ms = 10 * SLOW_MS
    await scene.start(600)
    async with scene.server.stream(scene.campaign_id, after=0) as stream:
        progress = await _next_of(stream, "campaign_progress")
    await scene.act("pause")
    paused = await scene.at_rest()
    view = CampaignView()
    view.apply_snapshot(paused)
    assert view.apply_event(progress) is False
    # Even one that claims to be newer: progress never touches the state.
    late = {**progress, "sequence": view.last_applied_sequence + 1}
    assert view.apply_event(late) is False
    assert view.states == {"launch": PhaseState.PAUSED}
    # The server itself tells no progress of a paused phase.
    await observed_for(1.5)
    assert (await scene.snapshot())["lastSequence"] == paused["lastSequence"]


async def test_scenario_8_expected_state_precondition(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    sequence = (await scene.snapshot())["lastSequence"]
    refused = await scene.act("pause", query="?expected_state=in_progress")
    assert refused.status == 409
    body = refused.json
    assert body["error"] == {
        "code": "EXPECTED_STATE_MISMATCH",
        "current_state": "paused",
        "expected_state": "in_progress",
        "attempted_action": "pause",
        "message": "Expected state 'in_progress' but current state is 'paused'; cannot pause",
    }
    assert body["success"] is False
    assert body["requestId"]
    assert (await scene.snapshot())["lastSequence"] == sequence
    assert await scene.state() == "paused"


@pytest.mark.parametrize("header", ["X-Idempotency-Key", "Idempotency-Key"])
async def test_scenario_9_idempotency_key_deduplication(scene: Scene, header: str) -> None:
    await scene.start()
    first, second = await asyncio.gather(
        *(
            scene.act("pause", headers={header: f"double-click {scene.campaign_id}"})
            for _ in range(2)
        )
    )
    assert (first.status, second.status) == (200, 200)
    assert first.body == second.body
    assert first.json["changed"] is True
    assert (await scene.lifecycle()).count("phase_paused") == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_scenario_10_idempotency_key_expiration(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/outrider.db"
    if kind == "postgres":
        database = await create_database(request.getfixturevalue("postgres_url"))
    shift = tmp_path / "shift"
    ShiftedClock.shift(shift, 0)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    async with playing(
        database,
        tmp_path,
        module="tests.support.shifted_server",
        OUTRIDER_TEST_CLOCK=str(shift),
        PYTHONPATH=paths,
    ) as scene:
        await scene.start()
        key = {"X-Idempotency-Key": "abc"}
        first = await scene.act("pause", headers=key)
        ShiftedClock.shift(shift, 240)
        assert (await scene.act("pause", headers=key)).body == first.body
        ShiftedClock.shift(shift, 301)
        await scene.act("resume")
        again = await scene.act("pause", headers=key)
        assert again.status == 200
        assert again.json["changed"] is True
        assert again.json["sequence"] > first.json["sequence"]
        assert (await scene.lifecycle()).count("phase_paused") == 2


async def test_scenario_11_bypass_audit_detection(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    before = await bypasses(scene)
    await scene.server.kill()
    async with raw_sql(scene.database) as raw:
        await raw.complete_runs(scene.campaign_id)
    await scene.server.start()
    line = await scene.server.logged("P3.4: Transition bypass detected")
    for field in (scene.campaign_id, "launch", "paused", "completed", "phase_restorer"):
        assert field in line
    for name in ("campaign_id", "phase", "from_status", "to_status", "caller", "reason"):
        assert f'"{name}"' in line
    assert await bypasses(scene) == before + 1
    assert await scene.state() == "completed"
    trail = await scene.server.get(f"/audit?campaignId={scene.campaign_id}")
    assert "phase.transition_bypassed" in [entry["event"] for entry in trail["items"]]
    # Its jobs were paused, and stay so: the run that they belong to was ended by hand.
    scene.campaign_id = ""


async def test_a_bypass_under_a_running_server_has_a_way_back(scene: Scene) -> None:
    """CM: the run follows what was written over its phase, and a stop brakes it even before."""
    await scene.start()
    async with raw_sql(scene.database) as raw:
        where = f"WHERE campaign_id = '{scene.campaign_id}'"
        await raw.run(f"UPDATE campaign_phases SET state = 'paused' {where}")
    line = await scene.server.logged(
        f'"campaign_id": "{scene.campaign_id}", "phase": "launch", "state": "paused"'
    )
    assert "phase_restored" in line
    assert (await scene.lifecycle())[-1] == "phase_paused"
    async with raw_sql(scene.database) as raw:
        await raw.run(f"UPDATE campaign_phases SET state = 'completed' {where}")
    stopped = await scene.act("stop")
    assert (stopped.status, stopped.json["state"]) == (200, "failed")


async def bypasses(scene: Scene) -> float:
    page = (await scene.server.request("GET", "/metrics")).body.decode()
    (line,) = [
        line for line in page.splitlines() if line.startswith("outrider_transition_bypass_total ")
    ]
    return float(line.split()[1])


async def _next_of(stream: Stream, kind: str) -> dict[str, Any]:
    while True:
        event = (await stream.next()).data
        if event["type"] == kind:
            return event


# 1. Control phase


async def test_control_targets_control_phase(scene: Scene) -> None:
    await scene.create(phases=["launch", "report"])
    assert (await scene.snapshot())["controlPhase"] is None
    await scene.act("start")
    assert (await scene.snapshot())["controlPhase"] == "launch"
    wrong = await scene.act("pause", "report")
    assert (wrong.status, wrong.json["error"]["current_state"]) == (409, "not_started")
    await scene.act("pause")
    assert (await scene.snapshot())["controlPhase"] == "launch"


async def test_null_control_phase_refuses_pause_and_resume(scene: Scene) -> None:
    await scene.create()
    for action in ("pause", "resume"):
        refused = await scene.act(action)
        assert refused.status == 409
        assert refused.json["error"]["code"] == "INVALID_PHASE_TRANSITION"


# 3. Transitions


async def test_every_transition_that_is_not_in_the_table_is_rejected(scene: Scene) -> None:
    await scene.create(3)
    seen = {}
    for action in (Action.PAUSE, Action.RESUME, Action.RETRY, Action.RERUN, Action.STOP):
        seen["not_started", action.value] = (await scene.act(action.value)).status
    await scene.act("start")
    await scene.until_state("completed")
    for action in (Action.PAUSE, Action.RESUME, Action.RETRY, Action.START, Action.STOP):
        seen["completed", action.value] = (await scene.act(action.value)).status
    assert set(seen.values()) == {409}
    assert await scene.lifecycle() == ["phase_started", "phase_completed"]


async def test_rerun_precondition_names_what_blocks(scene: Scene) -> None:
    await scene.create(phases=["http_validation", "launch"])
    await scene.act("start", "http_validation")
    await scene.act("start")
    refused = await scene.act("rerun", "http_validation")
    assert refused.status == 409
    error = refused.json["error"]
    assert error["code"] == "RERUN_PRECONDITION_FAILED"
    assert error["reason"] == "another_phase_in_progress"
    assert error["blocking_phase"] == "launch"


async def test_predecessor_outputs_must_exist(scene: Scene) -> None:
    await scene.create(phases=["audience_import", "launch"])
    refused = await scene.act("start")
    assert refused.status == 409
    assert refused.json["error"]["blocking_phase"] == "audience_import"


# 4 and 5. Authority and sequence


async def test_snapshot_and_stream_cannot_diverge(scene: Scene) -> None:
    view = CampaignView()
    await scene.create(600)
    view.apply_snapshot(await scene.snapshot())
    async with scene.server.stream(scene.campaign_id, after=view.last_applied_sequence) as stream:
        await scene.act("start")
        for action in ("pause", "resume", "pause", "resume"):
            await asyncio.sleep(0.2)
            await scene.act(action)
        scene.sandbox.faults.latency_ms = 0
        sequences = []
        while view.states["launch"] is not PhaseState.COMPLETED:
            event = (await stream.next()).data
            sequences.append(event["sequence"])
            view.apply_event(event)
    snapshot = await scene.snapshot()
    assert sequences == sorted(set(sequences))
    assert view.last_applied_sequence == snapshot["lastSequence"]
    assert snapshot["phases"]["launch"]["state"] == "completed"


async def test_sse_emits_what_the_database_has_and_invents_nothing(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    await scene.act("resume")
    await scene.act("pause")
    told = [(event["sequence"], event["type"]) for event in await scene.events()]
    async with raw_sql(scene.database) as raw:
        rows = await raw.run(
            "SELECT sequence, type FROM campaign_events"
            f" WHERE campaign_id = '{scene.campaign_id}' ORDER BY sequence"
        )
    assert told == [(row[0], row[1]) for row in rows]


# 6. Events


async def test_each_lifecycle_event_sets_the_state_the_contract_names() -> None:
    assert STATUS_SET_BY == {
        "phase_started": PhaseState.IN_PROGRESS,
        "phase_paused": PhaseState.PAUSED,
        "phase_resumed": PhaseState.IN_PROGRESS,
        "phase_completed": PhaseState.COMPLETED,
        "phase_failed": PhaseState.FAILED,
    }
    assert PHASE_MACHINE.initial is PhaseState.NOT_STARTED


async def test_every_event_has_the_whole_envelope(scene: Scene) -> None:
    await scene.start(600)
    async with scene.server.stream(scene.campaign_id, after=0) as stream:
        seen = [await stream.next(), await stream.next()]
    for event in seen:
        assert set(event.data) == {
            "type", "campaignId", "phase", "sequence", "timestamp", "payload",
        }  # fmt: skip
        assert event.id == str(event.data["sequence"])
        assert event.type == event.data["type"]
        assert event.data["campaignId"] == scene.campaign_id
        assert event.data["timestamp"].endswith("Z")


async def test_progress_events_report_progress_and_no_status(scene: Scene) -> None:
    scene.sandbox.faults.latency_ms = 10 * SLOW_MS
    await scene.start(600)
    async with scene.server.stream(scene.campaign_id, after=0) as stream:
        progress = await _next_of(stream, "campaign_progress")
    assert 0 <= progress["payload"]["progressPercentage"] <= 100
    assert not {"state", "status"} & progress["payload"].keys()
    accounting = progress["payload"]["accounting"]
    assert accounting["intended"] == sum(
        accounting[name] for name in ("waiting", "inDoubt", "sent", "failed", "skipped")
    )


# 7. Controls


async def test_expected_state_is_taken_from_the_body_too(scene: Scene) -> None:
    await scene.start()
    agreed = await scene.act("pause", json={"expected_state": "in_progress"})
    assert (agreed.status, agreed.json["state"]) == (200, "paused")
    refused = await scene.act("resume", json={"expected_state": "in_progress"})
    assert refused.json["error"]["code"] == "EXPECTED_STATE_MISMATCH"


async def test_an_expected_state_that_is_none_is_a_bad_request(scene: Scene) -> None:
    await scene.start()
    in_query = await scene.act("pause", query="?expected_state=running")
    in_body = await scene.act("pause", json={"expected_state": "running"})
    both = await scene.act(
        "pause", query="?expected_state=paused", json={"expected_state": "in_progress"}
    )
    assert [in_query.status, in_body.status, both.status] == [400, 400, 400]
    assert in_query.json["error"]["fields"]
    assert await scene.state() == "in_progress"


async def test_an_unknown_phase_is_not_found(scene: Scene) -> None:
    await scene.create()
    assert (await scene.act("pause", "dns_validation")).status == 404
    assert (await scene.act("explode")).status == 404


async def test_errors_are_cached_under_their_key_too(scene: Scene) -> None:
    await scene.create()
    key = {"X-Idempotency-Key": f"too-early {scene.campaign_id}"}
    refused = await scene.act("pause", headers=key)
    assert refused.status == 409
    await scene.act("start")
    again = await scene.act("pause", headers=key)
    assert (again.status, again.body) == (409, refused.body)
    assert await scene.state() == "in_progress"


@pytest.mark.parametrize("action", ["start", "pause", "resume", "stop"])
async def test_every_control_supports_an_idempotency_key(scene: Scene, action: str) -> None:
    await scene.create()
    for before in {"pause": ["start"], "resume": ["start", "pause"], "stop": ["start"]}.get(
        action, []
    ):
        await scene.act(before)
    answers = [
        await scene.act(action, headers={"X-Idempotency-Key": scene.campaign_id}) for _ in range(3)
    ]
    assert {answer.body for answer in answers} == {answers[0].body}
    assert answers[0].json["changed"] is True


async def test_stopping_the_campaign_supports_an_idempotency_key(scene: Scene) -> None:
    await scene.start()
    path = f"/campaigns/{scene.campaign_id}/stop"
    answers = [
        await scene.server.request("POST", path, headers={"X-Idempotency-Key": scene.campaign_id})
        for _ in range(2)
    ]
    assert answers[0].json["state"] == "failed"
    assert answers[0].body == answers[1].body
    assert (await scene.lifecycle()).count("phase_failed") == 1


async def test_the_same_request_sent_many_times_has_the_effect_of_one(scene: Scene) -> None:
    await scene.start()
    answers = await asyncio.gather(*(scene.act("pause") for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert sum(answer.json["changed"] for answer in answers) == 1
    assert (await scene.lifecycle()).count("phase_paused") == 1


# 8. Reconnection


async def test_a_client_that_reconnects_misses_nothing(scene: Scene) -> None:
    await scene.start()
    async with scene.server.stream(scene.campaign_id, after=0) as stream:
        first = await stream.next()
    await scene.act("pause")
    await scene.act("resume")
    await scene.server.restart(gracefully=False)
    await scene.act("pause")
    last = (await scene.snapshot())["lastSequence"]
    seen = [first.data["sequence"]]
    async with scene.server.stream(scene.campaign_id, last_event_id=first.id) as stream:
        while seen[-1] < last:
            seen.append((await stream.next()).data["sequence"])
    assert seen == sorted(set(seen))
    types = await scene.lifecycle()
    assert types == ["phase_started", "phase_paused", "phase_resumed", "phase_paused"]


# Stop (D9)


async def test_a_stop_of_a_paused_phase_is_a_resume_and_a_failure(scene: Scene) -> None:
    await scene.start()
    await scene.act("pause")
    stopped = await scene.act("stop")
    assert (stopped.status, stopped.json["state"]) == (200, "failed")
    assert (await scene.lifecycle())[-2:] == ["phase_resumed", "phase_failed"]
    again = await scene.act("stop")
    assert (again.status, again.json["changed"]) == (200, False)
    seen = await scene.until(
        lambda snapshot: snapshot["phases"]["launch"]["accounting"]["waiting"] == 0
    )
    assert seen["phases"]["launch"]["reason"] == "stopped"
    accounting = seen["phases"]["launch"]["accounting"]
    assert accounting["skipped"] > 0
    assert accounting["sent"] + accounting["skipped"] == accounting["intended"] == 400
