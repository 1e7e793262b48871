"""Contract 002, clause by clause: over real HTTP where a client would see it, else in the kernel.

One server of each store plays one story for most of the clauses: a run that waits for approval, is
paused and resumed, loses a step to a dead worker, has a step retried on purpose, and completes;
beside it one that is cancelled and one that fails.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from outrider.domain.admission import (
    Admitted,
    Delayed,
    Load,
    NotAdmitted,
    OverloadPolicy,
    Queued,
    admit,
)
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, RunId
from outrider.domain.projection import detect_non_contiguous, incremental_project, project_run
from outrider.domain.run_events import EMITTERS, RunEvent, RunEventType
from outrider.domain.snapshot_documents import snapshot_document
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.alerts import alerts_page
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.transactions.run_log import EventDraft
from outrider.settings import AdmissionTable, Settings, StateStoreSettings
from outrider.testing.launches import target
from outrider.testing.postgres import create_database, drop_database
from outrider.testing.run_view import RunView
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.controls import begun, created, until
from tests.support.eventually import eventually
from tests.support.raw_sql import Refused, raw_sql
from tests.support.run_logs import events_of, projected
from tests.support.whole_runs import opened, work_until_terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_SECONDS = 60.0
SLOW_MS = 500
"""So slow that a run of this story is still under way when a signal of it arrives."""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STORES = ["sqlite", "postgres"]


@dataclass
class Story:
    """What the server was made to do, and what it told of it."""

    server: ApiServer
    database: str
    runs: dict[str, str] = field(default_factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def start(self, name: str, recipients: int, **changes: object) -> str:
        message = {"id": "offer", "channel": "sms", "submissionTarget": "sms", "body": "Hi"}
        document = campaign(recipients, messages=[message], batchSize=10, **changes)
        made = await self.server.post("/campaigns", document)
        begun = await self.server.post(f"/campaigns/{made['campaignId']}/phases/launch/start")
        self.runs[name] = begun["runId"]
        return str(begun["runId"])

    async def signal(self, run_id: str, sent: str, **more: object) -> Any:
        return await self.server.post(f"/runs/{run_id}/signals", {"signal": sent, **more})

    async def told(self, run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["runSeq"] if found else 0
            page = await self.server.get(f"/runs/{run_id}/events?after={after}&limit=7")
            found += page["items"]
            if page["next"] is None:
                return found

    async def snapshot(self, run_id: str, at: int | None = None) -> dict[str, Any]:
        query = "" if at is None else f"?at={at}"
        found: dict[str, Any] = await self.server.get(f"/runs/{run_id}/snapshot{query}")
        return found

    async def until(self, run_id: str, *statuses: str) -> None:
        async def is_so() -> bool:
            return bool((await self.snapshot(run_id))["status"] in statuses)

        await eventually(is_so, seconds=PATIENCE_SECONDS)


@asynccontextmanager
async def fresh_database(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{folder}/outrider.db"
        return
    server_url: str = request.getfixturevalue("postgres_url")
    url = await create_database(server_url)
    yield url
    await drop_database(server_url, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=STORES)
async def story(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Story]:
    folder = tmp_path_factory.mktemp("semantics")
    async with (
        fresh_database(request, folder) as database,
        Sandbox() as sandbox,
        running_server(
            folder,
            database=database,
            targets=(target("sms", "sms", sandbox.http_url),),
        ) as server,
    ):
        told = Story(server, database)
        await _play(told, sandbox)
        yield told


async def _play(story: Story, sandbox: Sandbox) -> None:
    sandbox.faults.latency_ms = SLOW_MS
    run_id = await story.start("whole", 300, requireApproval=True)
    refused = await story.server.request(
        "POST", f"/runs/{run_id}/signals", {"signal": "RETRY_STEP", "stepId": run_id}
    )
    assert refused.status == 404
    await story.signal(run_id, "APPROVE")
    await story.until(run_id, "RUNNING")
    await story.signal(run_id, "PAUSE")
    before = sandbox.requests
    await story.signal(run_id, "RESUME")
    await until(lambda: sandbox.requests > before)
    # A dead worker: its steps are another's now, one engine attempt later.
    await story.server.kill()
    await story.server.start()
    await story.signal(run_id, "PAUSE")
    await story.signal(run_id, "RETRY_STEP", stepId=await _waiting_step(story, run_id))
    sandbox.faults.latency_ms = 0
    await story.signal(run_id, "RESUME")
    await story.until(run_id, "COMPLETED")
    sandbox.faults.latency_ms = SLOW_MS
    cancelled = await story.start("cancelled", 300)
    await story.until(cancelled, "RUNNING")
    await story.signal(cancelled, "CANCEL")
    await story.until(cancelled, "CANCELLED")
    sandbox.faults.latency_ms = 0
    failed = await story.start("failed", 5)
    await story.until(failed, "COMPLETED", "FAILED")
    for name, each in story.runs.items():
        story.events[name] = await story.told(each)


async def _waiting_step(story: Story, run_id: str) -> str:
    """A step that began, and that nobody holds at this moment."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            jobs = (await story.server.get(f"/runs/{run_id}/jobs?limit=1000"))["items"]
            steps = (await story.snapshot(run_id))["steps"]
            begun = {each["stepId"] for each in steps if each["status"] != "PENDING"}
            for job in jobs:
                if job["status"] == "queued" and job["jobId"] in begun:
                    return str(job["jobId"])
            await asyncio.sleep(0.05)


def typed(events: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [event for event in events if event["eventType"] in types]


# 1.1 The sequence


async def test_1_1_run_seq_is_strictly_increasing_per_run(story: Story) -> None:
    for events in story.events.values():
        sequences = [event["runSeq"] for event in events]
        assert sequences == sorted(set(sequences))
        assert sequences[0] == 1


async def test_1_1_run_seq_is_assigned_by_the_append_authority(
    database: str, tmp_path: Path
) -> None:
    """However many append at once: one counter on the run's row, in the database."""
    async with opened(database, tmp_path, target("sms.all", "noop", "noop:")) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        drafts = [EventDraft(RunEventType.STEP_STARTED, f"step-{n}") for n in range(20)]
        await asyncio.gather(
            *(outrider.store.write(run_log.append(run_id, "1", [each], NOON)) for each in drafts)
        )
        events = await events_of(outrider, run_id)
        assert [event.run_seq for event in events] == list(range(1, 22))
        async with raw_sql(database) as raw:
            assert await raw.value("SELECT last_seq FROM campaign_runs") == 21


@pytest.mark.parametrize("column", ["run_seq", "idempotency_key"])
async def test_1_1_no_second_event_of_a_run_has_its_sequence_or_its_key(
    story: Story, column: str
) -> None:
    fresh = {"run_seq": "run_seq + 1000000", "idempotency_key": "zero"}
    fresh[column] = column
    async with raw_sql(story.database) as raw:
        key = raw.blob(bytes(32)) if fresh["idempotency_key"] == "zero" else "idempotency_key"
        with pytest.raises(Refused):
            await raw.run(
                "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt,"
                " plan_version, idempotency_key, payload, occurred_at)"
                f" SELECT run_id, {fresh['run_seq']}, 'Another', 'hand', 1, plan_version, {key},"
                f" payload, occurred_at FROM run_events WHERE run_id = '{story.runs['failed']}'"
                " AND run_seq = 1"
            )


async def test_1_1_a_hole_is_no_corruption_the_client_is_stale_resyncs_and_resumes(
    story: Story,
) -> None:
    run_id = await story.start("holed", 5)
    await story.until(run_id, "COMPLETED")
    view = RunView()
    before = await story.told(run_id)
    assert view.apply_events(before)
    async with raw_sql(story.database) as raw:
        last = await raw.value(f"SELECT last_seq FROM campaign_runs WHERE id = '{run_id}'")
        # Two numbers that were taken and never used, and an event of a later version.
        await raw.run(
            "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt,"
            " plan_version, idempotency_key, payload, occurred_at)"
            f" SELECT id, last_seq + 3, 'RunArchived', 'engine', 1, '1', {raw.blob(bytes(32))},"
            f" '{{}}', created_at FROM campaign_runs WHERE id = '{run_id}'"
        )
        await raw.run(f"UPDATE campaign_runs SET last_seq = last_seq + 3 WHERE id = '{run_id}'")
    page = (await story.server.get(f"/runs/{run_id}/events?after={view.last_event_seq}"))["items"]
    assert [event["runSeq"] for event in page] == [last + 3]
    assert not view.apply_events(page)
    assert view.stale
    assert view.apply_snapshot(await story.snapshot(run_id))
    assert (view.stale, view.last_event_seq, view.status) == (False, last + 3, "COMPLETED")


# 1.2 Append-only events


@pytest.mark.parametrize("sql", ["UPDATE run_events SET type = 'X'", "DELETE FROM run_events"])
async def test_1_2_an_event_is_never_changed_or_deleted(story: Story, sql: str) -> None:
    async with raw_sql(story.database) as raw:
        with pytest.raises(Refused, match="append-only"):
            await raw.run(sql)


async def test_1_2_every_canonical_type_has_its_emitter(story: Story) -> None:
    told = [event for events in story.events.values() for event in events]
    for event in told:
        assert event["emittedBy"] == EMITTERS[RunEventType(event["eventType"])]
    missing = set(RunEventType) - {RunEventType(event["eventType"]) for event in told}
    # Nothing failed in this story; both are told in the test below. A rollout tells its own,
    # and so do variants.
    of_their_own = ("Rollout", "Variants", "Winner")
    others = {each for each in RunEventType if each.value.startswith(of_their_own)}
    assert missing == {RunEventType.STEP_FAILED, RunEventType.RUN_FAILED} | others


EFFECTS = {
    "RunApproved": "APPROVED",
    "RunStarted": "RUNNING",
    "RunPaused": "PAUSED",
    "RunResumed": "RUNNING",
    "RunCompleted": "COMPLETED",
    "RunCancelled": "CANCELLED",
}
STEP_EFFECTS = {"StepStarted": "RUNNING", "StepCompleted": "SUCCESS", "StepSkipped": "SKIPPED"}


async def test_1_2_each_event_has_the_effect_that_its_type_says(story: Story) -> None:
    for name, events in story.events.items():
        before = "PENDING"
        for event in events:
            snapshot = await story.snapshot(story.runs[name], event["runSeq"])
            assert snapshot["lastEventSeq"] == event["runSeq"]
            assert snapshot["status"] == EFFECTS.get(event["eventType"], before)
            before = snapshot["status"]
            if event["eventType"] in STEP_EFFECTS:
                steps = {step["stepId"]: step for step in snapshot["steps"]}
                assert steps[event["stepId"]]["status"] == STEP_EFFECTS[event["eventType"]]


async def test_1_2_run_started_records_the_engines_reference(story: Story) -> None:
    run_id = story.runs["whole"]
    assert (await story.snapshot(run_id))["engineRunRef"] == f"local/{run_id}"


async def test_1_2_a_failed_step_records_its_error_and_a_failed_run_its_cause(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox:
        sandbox.change_faults({"failRate": 1.0})
        gateway = target("sms.all", "sms", sandbox.http_url, maxAttempts=1)
        async with opened(database, tmp_path, gateway) as outrider:
            run_id = await begun(outrider, await created(outrider, 5))
            await work_until_terminal(outrider, run_id)
            snapshot = await projected(outrider, run_id)
    document = snapshot_document(snapshot)
    assert document["status"] == "FAILED"
    assert document["rootCause"] == "5 of 5 messages failed, most of them with provider_failure"
    (step,) = snapshot.steps.values()
    assert step.status == "FAILED"
    assert step.error is not None
    assert (step.error.code, step.error.retryable) == ("ITEMS_FAILED", False)


async def test_1_2_a_skipped_step_records_its_reason(story: Story) -> None:
    skipped = typed(story.events["cancelled"], "StepSkipped")
    assert skipped
    assert {event["payload"]["reason"] for event in skipped} == {"cancelled"}


async def test_1_2_a_signal_accepted_does_not_change_the_status(story: Story) -> None:
    for name, events in story.events.items():
        for event in typed(events, "SignalAccepted", "SignalRejected"):
            at = event["runSeq"]
            before = await story.snapshot(story.runs[name], at - 1)
            after = await story.snapshot(story.runs[name], at)
            assert before["status"] == after["status"]
            assert before["steps"] == after["steps"]


async def test_1_2_a_refused_signal_is_recorded_as_rejected(story: Story) -> None:
    (rejected,) = typed(story.events["whole"], "SignalRejected")
    assert rejected["emittedBy"] == "authorisation"
    assert rejected["payload"]["signal"] == "RETRY_STEP"


# 1.3 Two kinds of attempts


async def test_1_3_the_engines_attempt_grows_with_a_platform_retry(story: Story) -> None:
    ends = typed(story.events["whole"], "StepCompleted")
    lost = [event for event in ends if int(event["engineAttemptId"]) > 1]
    assert lost, "the worker was killed with steps in its hands"
    assert all(event["logicalAttemptId"] == "1" for event in lost if not _retried(story, event))


def _retried(story: Story, event: dict[str, Any]) -> bool:
    accepted = typed(story.events["whole"], "SignalAccepted")
    return any(each["payload"].get("stepId") == event["stepId"] for each in accepted)


async def test_1_3_the_logical_attempt_grows_only_with_retry_step(story: Story) -> None:
    events = story.events["whole"]
    accepted = typed(events, "SignalAccepted")
    (asked,) = [e["payload"] for e in accepted if e["payload"]["signal"] == "RETRY_STEP"]
    assert asked["logicalAttemptId"] == "2"
    # A signal is no attempt of a step: it has an identity of its own in the step's place.
    assert all(e["stepId"].startswith("signal:") for e in accepted)
    assert {e["logicalAttemptId"] for e in accepted} == {"1"}
    about_steps = typed(events, "StepStarted", "StepCompleted", "StepFailed", "StepSkipped")
    again = {event["stepId"] for event in about_steps if event["logicalAttemptId"] != "1"}
    assert again == {asked["stepId"]}
    numbers = [e["logicalAttemptId"] for e in about_steps if e["stepId"] == asked["stepId"]]
    assert numbers == ["1", "2", "2"]


async def test_1_3_the_same_logical_attempt_retried_by_the_platform_is_one_event(
    story: Story,
) -> None:
    started = typed(story.events["whole"], "StepStarted")
    told = [(event["stepId"], event["logicalAttemptId"]) for event in started]
    assert len(told) == len(set(told))


async def test_1_3_the_idempotency_key_is_the_normative_hash(story: Story) -> None:
    for events in story.events.values():
        for event in events:
            fields = (
                event["runId"], event["stepId"] or "", event["logicalAttemptId"],
                event["eventType"], event["planVersion"],
            )  # fmt: skip
            expected = hashlib.sha256("|".join(fields).encode()).hexdigest()
            assert event["idempotencyKey"] == expected


# 1.4 Snapshots


async def test_1_4_a_snapshot_has_the_fields_of_the_contract(story: Story) -> None:
    snapshot = await story.snapshot(story.runs["whole"])
    assert {"runId", "status", "lastEventSeq", "steps", "artifacts"} <= set(snapshot)
    assert {"startedAt", "completedAt", "totalDurationMs"} <= set(snapshot)
    assert snapshot["lastEventSeq"] == story.events["whole"][-1]["runSeq"]
    for step in snapshot["steps"]:
        assert {"stepId", "status", "logicalAttemptId", "engineAttemptId", "artifacts"} <= set(step)
        assert isinstance(step["logicalAttemptId"], str)
    began, ended = (datetime.fromisoformat(snapshot[each]) for each in ("startedAt", "completedAt"))
    assert snapshot["totalDurationMs"] == round((ended - began) / timedelta(milliseconds=1))


async def test_1_4_a_stored_snapshot_never_changes(story: Story) -> None:
    stored = await _stored(story, story.runs["whole"])
    assert stored
    async with raw_sql(story.database) as raw:
        with pytest.raises(Refused, match="never changes"):
            await raw.run("UPDATE run_snapshots SET status = 'PENDING'")
    assert await _stored(story, story.runs["whole"]) == stored


async def _stored(story: Story, run_id: str) -> list[tuple[Any, ...]]:
    async with raw_sql(story.database) as raw:
        return await raw.run(
            "SELECT last_event_seq, status FROM run_snapshots"
            f" WHERE run_id = '{run_id}' ORDER BY last_event_seq"
        )


async def test_1_4_a_projection_is_a_new_object() -> None:
    run_id = RunId("01000000-0000-7000-8000-000000000001")
    first = RunEvent(run_id, 1, "RunApproved", NOON)
    before = project_run(run_id, [first])
    after = incremental_project(before, [RunEvent(run_id, 2, "RunStarted", NOON)])
    assert (before.status, before.last_event_seq) == ("APPROVED", 1)
    assert (after.status, after.last_event_seq) == ("RUNNING", 2)


async def test_1_4_the_projection_follows_and_no_alert_is_open(story: Story) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            stored = await _stored(story, story.runs["whole"])
            if stored and stored[-1][0] == story.events["whole"][-1]["runSeq"]:
                break
            await asyncio.sleep(0.05)
    alerts = (await story.server.get("/alerts"))["items"]
    about = {story.runs[name] for name in story.events}
    # While the server was dead nobody projected; an alert of that is over now.
    assert [each for each in alerts if each["subject"] in about and not each["resolvedAt"]] == []


# 1.5 The projector


async def test_1_5_rule_1_events_are_consumed_in_order_and_holes_invent_nothing() -> None:
    run_id = RunId("01000000-0000-7000-8000-000000000001")
    assert detect_non_contiguous(10, 12)
    assert not detect_non_contiguous(10, 11)
    started = RunEvent(run_id, 12, "RunStarted", NOON)
    base = project_run(run_id, [RunEvent(run_id, 10, "RunApproved", NOON)])
    assert incremental_project(base, [started]).last_event_seq == 12
    with pytest.raises(ValueError, match="comes after"):
        project_run(run_id, [started, RunEvent(run_id, 11, "RunPaused", NOON)])


async def test_1_5_rule_1_a_hole_pauses_resyncs_and_resumes_with_its_alert(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("sms.all", "noop", "noop:")) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        await outrider.projector.project_once()
        async with raw_sql(database) as raw:
            await raw.run("UPDATE campaign_runs SET last_seq = last_seq + 5")
        event = EventDraft(RunEventType.STEP_STARTED, "step-1")
        await outrider.store.write(run_log.append(run_id, "1", [event], NOON))
        await outrider.projector.project_once()
        assert (await outrider.run_reader.snapshot(DEFAULT_SCOPE, run_id)).last_event_seq == 7
        raised = await outrider.store.read(alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=False))
        (alert,) = [each for each in raised if "NON_CONTIGUOUS" in each.code]
        assert alert.code == "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"
        assert (alert.severity, alert.subject) == ("P2", run_id)
        assert alert.resolved_at is not None, "the watermark has advanced beyond the hole"
        async with raw_sql(database) as raw:
            stored = await raw.value("SELECT max(last_event_seq) FROM run_snapshots")
        assert stored == 7


async def test_1_5_rule_2_the_watermark_is_the_highest_sequence_applied(story: Story) -> None:
    events = story.events["whole"]
    middle = events[len(events) // 2]["runSeq"]
    assert (await story.snapshot(story.runs["whole"], middle))["lastEventSeq"] == middle
    assert (await story.snapshot(story.runs["whole"], 0))["status"] == "PENDING"


async def test_1_5_rule_3_the_snapshot_is_the_reduction_of_the_events(story: Story) -> None:
    for name, told in story.events.items():
        run_id = RunId(story.runs[name])
        events = [
            RunEvent(
                run_id,
                each["runSeq"],
                each["eventType"],
                datetime.fromisoformat(each["occurredAt"]),
                each["stepId"],
                int(each["logicalAttemptId"]),
                int(each["engineAttemptId"]) if each["engineAttemptId"] else None,
                each["payload"],
            )
            for each in told
        ]
        document = json.loads(json.dumps(snapshot_document(project_run(run_id, events))))
        assert document == await story.snapshot(run_id)


async def test_1_5_rule_4_reprocessing_is_safe_and_a_crash_resumes_at_the_watermark(
    story: Story,
) -> None:
    """The server was killed in the middle of this run; its snapshot is that of the whole log."""
    run_id = story.runs["whole"]
    before = await story.snapshot(run_id)
    await story.server.restart(gracefully=False)
    assert await story.snapshot(run_id) == before


async def test_1_5_rule_5_a_lag_above_five_seconds_raises_the_alert(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("sms.all", "noop", "noop:")) as outrider:
        run_id = await begun(outrider, await created(outrider, 5))
        late = EventDraft(RunEventType.RUN_PAUSED, occurred_at=NOON)
        await outrider.projector.project_once()
        await outrider.store.write(run_log.append(run_id, "1", [late], NOON))
        await outrider.projector.project_once()
        raised = await outrider.store.read(alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=False))
        (alert,) = raised
        assert (alert.code, alert.severity) == ("PROJECTOR_LAG_HIGH", "P2")


async def test_1_5_rule_6_unknown_types_advance_the_watermark_and_change_nothing(
    story: Story,
) -> None:
    run_id = await story.start("unknown", 5)
    await story.until(run_id, "COMPLETED")
    before = await story.snapshot(run_id)
    async with raw_sql(story.database) as raw:
        await raw.run(
            "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt,"
            " plan_version, idempotency_key, payload, occurred_at)"
            f" SELECT id, last_seq + 1, 'RunArchived', 'engine', 1, '1', {raw.blob(bytes(32))},"
            f" '{{\"new\": [1]}}', created_at FROM campaign_runs WHERE id = '{run_id}'"
        )
        await raw.run(f"UPDATE campaign_runs SET last_seq = last_seq + 1 WHERE id = '{run_id}'")
    after = await story.snapshot(run_id)
    assert after == {**before, "lastEventSeq": before["lastEventSeq"] + 1}
    assert (await story.told(run_id))[-1]["eventType"] == "RunArchived"


# 2 Secrets and artifacts


@pytest.mark.parametrize("value", ["hunter2", "sk_live_0123456789", "https://user:pass@host/"])
async def test_2_a_value_where_a_reference_to_a_secret_belongs_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"credentials|token"):
        Settings.model_validate({"targets": {"sms": {"credentials": {"token": value}}}})
    kept = Settings.model_validate({"targets": {"sms": {"credentials": {"token": "env:TOKEN"}}}})
    assert kept.targets["sms"].credentials == {"token": "env:TOKEN"}


# 3 Backpressure and the run queue


async def test_3_reject_is_429_with_retry_after(tmp_path: Path) -> None:
    rule = {"policy": OverloadPolicy.REJECT, "concurrent_runs": 1, "retry_after_seconds": 9}
    async with running_server(
        tmp_path, environment={"OUTRIDER_ADMISSION": json.dumps(rule)}, workers=0
    ) as server:
        answers = []
        for _ in range(2):
            made = await server.post("/campaigns", campaign(2))
            path = f"/campaigns/{made['campaignId']}/phases/launch/start"
            keyed = {"X-Idempotency-Key": made["campaignId"]}
            answers.append(answer := await server.request("POST", path, headers=keyed))
        assert [each.status for each in answers] == [200, 429]
        again = await server.request("POST", path, headers=keyed)
        assert "Idempotency-Replayed" not in again.headers, "nothing was executed, nothing is kept"
        assert answer.headers["Retry-After"] == "9"
        assert answer.json["error"]["code"] == "OVERLOADED"


async def test_3_queue_persists_the_run_as_pending_and_delay_schedules_it_later() -> None:
    """Both on both stores, with the reconciler, in tests/kernel/control/test_admission_gate.py."""
    rules = AdmissionTable(concurrent_runs=1).rule_of("default", "default")
    assert rules.policy is OverloadPolicy.QUEUE
    full = Load(runs=1, waiting_items=0)
    assert admit(rules, Load(0, 0)) == Admitted()
    assert admit(rules, full) == Queued()
    delaying = AdmissionTable(policy=OverloadPolicy.DELAY, concurrent_runs=1, delay_seconds=5)
    assert admit(delaying.rule(), full) == Delayed(5)
    rejecting = AdmissionTable(policy=OverloadPolicy.REJECT, concurrent_runs=1)
    assert admit(rejecting.rule(), full) == NotAdmitted(30)


async def test_3_the_request_key_is_the_normative_hash_and_unique(story: Story) -> None:
    run_id = story.runs["whole"]
    async with raw_sql(story.database) as raw:
        ((project, environment, plan, version, request, key),) = await raw.run(
            "SELECT project, environment, plan_id, plan_version, run_request_id, idempotency_key"
            f" FROM run_requests WHERE run_id = '{run_id}'"
        )
        fields = (DEFAULT_TENANT, project, environment, plan, version, request)
        assert bytes(key) == hashlib.sha256("|".join(fields).encode()).digest()
        other_key, other_request = raw.blob(bytes(32)), "'another'"
        for columns in (f"run_request_id, {other_key}", f"{other_request}, idempotency_key"):
            with pytest.raises(Refused):
                await raw.run(
                    "INSERT INTO run_requests (run_id, tenant_id, workspace_id, project,"
                    " environment, plan_id, plan_version, run_request_id, idempotency_key, status,"
                    f" created_at, updated_at) SELECT '{story.runs['failed']}', tenant_id,"
                    f" workspace_id, project, environment, plan_id, plan_version, {columns},"
                    f" status, created_at, updated_at FROM run_requests WHERE run_id = '{run_id}'"
                )


# 5 The write budget


async def test_5_the_budget_has_the_contracts_names_and_defaults() -> None:
    given = {
        "writeLatencyBudgetMs": 3000,
        "failOpenForEventClass": ["StepStarted"],
        "neverFailOpen": ["StepCompleted", "StepFailed"],
    }
    assert StateStoreSettings.model_validate(given) == StateStoreSettings()
    budget = StateStoreSettings().budget()
    assert budget.fails_open(RunEventType.STEP_STARTED)
    assert not budget.fails_open(RunEventType.STEP_COMPLETED)
    assert not budget.fails_open(RunEventType.STEP_FAILED)
