"""The API as its clients meet it: real servers in their own processes, on both databases."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outrider.domain.blocker_facts import BlockerCode
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.limits.api import ApiLimits
from outrider.telemetry import configure_logging
from outrider.testing.launches import target
from outrider.testing.postgres import PrivatePostgres, create_database
from tests.support.api_inside import serving
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """On SQLite, without a worker: nothing moves but what is asked for."""
    async with running_server(tmp_path, workers=0) as started:
        yield started


async def until(server: ApiServer, path: str, reached: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(60):
        while True:
            found = await server.get(path)
            if reached(found):
                return found
            await asyncio.sleep(0.02)


async def completed(server: ApiServer, campaign_id: str, phase: str) -> str:
    """The phase's run, when it has ended well."""
    status = await until(
        server,
        f"/campaigns/{campaign_id}/status",
        lambda seen: seen["phases"][phase]["state"] == "completed",
    )
    run_id: str = status["phases"][phase]["runId"]
    return run_id


async def test_a_campaign_from_creation_to_certificate(database: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, database=database) as server:
        document = campaign(3, phases=["launch", "report"])
        created = await server.request("POST", "/campaigns", document)
        assert created.status == 201
        campaign_id = created.json["campaignId"]
        assert created.json == {
            "campaignId": campaign_id,
            "name": "Offer",
            "recipients": 3,
            "phases": ["launch", "report"],
            "warnings": [],
            "success": True,
        }
        shown = await server.get(f"/campaigns/{campaign_id}")
        assert shown["messages"][0]["body"] == "Hi {{ firstName }}"
        preview = await server.post(f"/campaigns/{campaign_id}/preview", {"recipientId": "lead-1"})
        assert preview["body"] == "Hi Person 1"
        dry = await server.post(f"/campaigns/{campaign_id}/phases/launch/dry-run")
        assert (dry["wouldSend"], dry["alreadySent"]) == (3, 0)
        await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        run_id = await completed(server, campaign_id, "launch")
        run = await server.get(f"/runs/{run_id}")
        assert run["accounting"] == {
            "intended": 3, "waiting": 0, "inDoubt": 0, "sent": 3, "failed": 0, "skipped": 0,
            "delivery": {
                "delivered": 0, "bounced": 0, "complained": 0, "read": 0, "replied": 0,
                "optedOut": 0, "failed": 0, "unknown": 3,
            },
        }  # fmt: skip
        assert (await server.get(f"/runs/{run_id}/certificate"))["holds"] is True
        jobs = await server.get(f"/runs/{run_id}/jobs")
        assert [job["status"] for job in jobs["items"]] == ["completed"]
        [item, *_] = (await server.get(f"/runs/{run_id}/outbox"))["items"]
        whole = await server.get(f"/outbox/{item['outboxId']}")
        assert [attempt["outcome"] for attempt in whole["attempts"]] == ["accepted"]
        explained = await server.get(f"/outbox/{item['outboxId']}/explain")
        assert "was sent by noop" in explained["sentences"][0]
        assert (await server.get(f"/runs/{run_id}/explain"))["sentences"]
        events = await server.get(f"/audit?runId={run_id}")
        assert events["items"][0]["event"] == "run.deployed"
        assert events["items"][0]["actor"] == "key:first"


async def test_a_report_is_downloaded_as_it_was_written(database: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, database=database) as server:
        created = await server.post("/campaigns", campaign(2, phases=["launch", "report"]))
        campaign_id = created["campaignId"]
        for phase in ("launch", "report"):
            await server.post(f"/campaigns/{campaign_id}/phases/{phase}/start")
            await completed(server, campaign_id, phase)
        artifacts = (await server.get(f"/campaigns/{campaign_id}/artifacts"))["items"]
        assert {each["name"] for each in artifacts} >= {"results.csv", "report.html"}
        for artifact in artifacts:
            assert await server.get(f"/artifacts/{artifact['id']}") == artifact
            content = await server.request("GET", f"/artifacts/{artifact['id']}/content")
            assert hashlib.sha256(content.body).hexdigest() == artifact["sha256"]
            assert content.headers["Content-Type"] == artifact["mediaType"]
            assert content.headers["Content-Disposition"].startswith("attachment")
        for file in (tmp_path / "artifacts").rglob("results.csv"):
            file.unlink()
        lost = next(each for each in artifacts if each["name"] == "results.csv")
        assert (await server.request("GET", f"/artifacts/{lost['id']}/content")).status == 404


async def test_every_problem_of_a_campaign_comes_at_once(server: ApiServer) -> None:
    document = campaign(phases=["launch", "nothing"], batchSize=0, extra=1)
    document["messages"] = [{"id": "a", "channel": "sms", "submissionTarget": "noop"}]
    answer = await server.request("POST", "/campaigns", document)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert (problem["status"], problem["title"], problem["success"]) == (400, "Bad Request", False)
    assert problem["detail"] == problem["error"]["message"]
    assert problem["error"]["code"] == "INVALID_REQUEST"
    assert {field["path"] for field in problem["error"]["fields"]} == {
        "phases[1]", "batchSize", "extra", "messages[0].body",
    }  # fmt: skip
    assert (await server.get("/campaigns"))["items"] == []


async def test_a_campaign_names_files_of_the_server_in_vain(server: ApiServer) -> None:
    document = campaign(audience={"source": "/etc/passwd"})
    answer = await server.request("POST", "/campaigns", document)
    assert answer.status == 400
    assert answer.json["error"]["fields"][0]["path"] == "audience.source"


async def test_lists_are_read_page_by_page_newest_campaign_first(server: ApiServer) -> None:
    made = [(await server.post("/campaigns", campaign(1)))["campaignId"] for _ in range(5)]
    seen, path = [], "/campaigns?limit=2"
    while True:
        page = await server.get(path)
        seen += [item["campaignId"] for item in page["items"]]
        if page["next"] is None:
            break
        path = f"/campaigns?limit=2&after={page['next']}"
    assert seen == made[::-1]
    for query, field in (("limit=0", "limit"), ("limit=1001", "limit"), ("after=x", "after")):
        answer = await server.request("GET", f"/campaigns?{query}")
        assert answer.status == 400
        assert [each["path"] for each in answer.json["error"]["fields"]] == [field]


async def test_an_audience_is_streamed_as_csv_or_ndjson(server: ApiServer) -> None:
    document = campaign()
    del document["audience"]
    campaign_id = (await server.post("/campaigns", document))["campaignId"]
    path = f"/campaigns/{campaign_id}/audience"

    async def csv() -> AsyncIterator[bytes]:
        yield b"id,phone,firstName\n"
        for number in range(5_000):
            yield f"csv-{number},+4477{number:08d},Ada\n".encode()

    added = await server.request("POST", path, data=csv(), headers={"Content-Type": "text/csv"})
    assert added.json == {
        "campaignId": campaign_id, "recipients": 5_000, "staged": False, "success": True,
    }  # fmt: skip
    lines = b'{"id": "nd-1", "phone": "+447700900123"}\n{"id": "nd-2"}\n'
    ndjson = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    added = await server.request("POST", path, data=lines, headers=ndjson)
    assert added.json["recipients"] == 2
    assert (await server.get(f"/campaigns/{campaign_id}/status"))["recipients"] == 5_002
    bad = b'{"id": "nd-3"}\n{"id": 4}\nnothing\n'
    answer = await server.request("POST", path, data=bad, headers=ndjson)
    assert answer.status == 400
    assert [each["path"][:6] for each in answer.json["error"]["fields"]] == ["line 2", "line 3"]
    assert (await server.get(f"/campaigns/{campaign_id}/status"))["recipients"] == 5_002
    other = await server.request("POST", path, data=b"x", headers={"Content-Type": "text/plain"})
    assert other.status == 415


async def test_controls_take_what_they_expect_from_query_or_body(server: ApiServer) -> None:
    campaign_id = (await server.post("/campaigns", campaign()))["campaignId"]
    path = f"/campaigns/{campaign_id}/phases/launch"
    both = await server.request(
        "POST", f"{path}/start?expected_state=paused", {"expected_state": "failed"}
    )
    assert both.status == 400
    for query, body in (("?expected_state=", None), ("", {"expected_state": "x"}), ("", {"a": 1})):
        assert (await server.request("POST", f"{path}/start{query}", body)).status == 400
    mismatch = await server.request("POST", f"{path}/start?expected_state=paused")
    assert mismatch.status == 409
    assert mismatch.json["error"] == {
        "code": "EXPECTED_STATE_MISMATCH",
        "current_state": "not_started",
        "expected_state": "paused",
        "attempted_action": "start",
        "message": "Expected state 'paused' but current state is 'not_started'; cannot start",
    }
    answer = await server.post(
        f"{path}/start?expected_state=not_started", {"expected_state": "not_started"}
    )
    assert answer.keys() == {
        "campaignId", "phase", "state", "sequence", "changed", "runId", "waitsFor", "success",
    }  # fmt: skip
    assert (answer["state"], answer["changed"]) == ("in_progress", True)
    assert (await server.request("POST", f"{path}/explode")).status == 404
    assert (await server.request("POST", f"{path.replace('launch', 'x')}/start")).status == 404
    stopped = await server.post(f"/campaigns/{campaign_id}/stop")
    assert (stopped["phase"], stopped["state"]) == ("launch", "failed")


async def test_everyone_is_sent_to_again_only_when_that_is_confirmed(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        campaign_id = (await server.post("/campaigns", campaign()))["campaignId"]
        path = f"/campaigns/{campaign_id}/phases/launch"
        await server.post(f"{path}/start")
        first = await completed(server, campaign_id, "launch")
        refused = await server.request("POST", f"{path}/rerun", {"scope": "all"})
        assert refused.status == 409
        assert refused.json["error"]["code"] == "RERUN_PRECONDITION_FAILED"
        assert refused.json["error"]["reason"] == "confirmation_required"
        again = await server.post(f"{path}/rerun", {"scope": "all", "confirm": True})
        assert again["changed"] is True
        await until(
            server,
            f"/campaigns/{campaign_id}/runs",
            lambda runs: [run["status"] for run in runs["items"]] == ["completed"] * 2,
        )
        runs = (await server.get(f"/campaigns/{campaign_id}/runs"))["items"]
        assert [run["runId"] for run in runs] == [again["runId"], first]
        strange = await server.request("POST", f"{path}/retry", {"scope": "all"})
        assert strange.status == 400, "only a rerun has a scope"


async def test_an_intent_is_new_once_then_known_and_never_replaced(
    database: str, tmp_path: Path
) -> None:
    async with running_server(tmp_path, database=database) as server:
        body = {"intentId": "order 1-ä", "submissionTarget": "noop", "payload": {"a": [1, None]}}
        first = await server.request("POST", "/intents", body)
        assert first.status == 201
        again = await server.request("POST", "/intents", body)
        assert again.status == 200
        assert first.json.keys() == again.json.keys()
        other = await server.request("POST", "/intents", {**body, "payload": {}})
        assert other.status == 409
        assert other.json["error"]["code"] == "IDEMPOTENCY_CONFLICT"
        shown = await server.get("/intents/order%201-%C3%A4")
        assert (shown["intentId"], shown["payload"]) == (body["intentId"], body["payload"])
        unknown = {**body, "intentId": "b", "submissionTarget": "nowhere"}
        answer = await server.request("POST", "/intents", unknown)
        assert answer.status == 400
        assert answer.json["error"]["fields"][0]["path"] == "submissionTarget"


async def test_a_doubt_is_listed_and_settled_with_evidence(database: str, tmp_path: Path) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        mail = target("mail", "smtp", sandbox.smtp_url)
        async with running_server(tmp_path, database=database, targets=(mail,)) as server:
            payload = {"to": "a@example.test", "subject": "S", "body": "B"}
            intent = {"intentId": "a", "submissionTarget": "mail", "payload": payload}
            await server.post("/intents", intent)
            [doubt] = (await until(server, "/doubts", lambda found: found["items"]))["items"]
            assert doubt["recipientId"] == "a"
            path = f"/doubts/{doubt['outboxId']}/resolve"
            for body in ({"verdict": "maybe", "evidence": "x"}, {"verdict": "sent"},
                         {"verdict": "sent", "evidence": "  "}):  # fmt: skip
                assert (await server.request("POST", path, body)).status == 400
            settled = await server.post(path, {"verdict": "sent", "evidence": "seen there"})
            assert settled == {"outboxId": doubt["outboxId"], "verdict": "sent", "success": True}
            assert (await server.request("POST", path, {"verdict": "failed", "evidence": "x"})
                    ).status == 409  # fmt: skip
            assert (await server.get("/intents/a"))["status"] == "ACCEPTED"
            trail = (await server.get("/audit"))["items"]
            assert trail[-1]["detail"] == {"verdict": "sent", "evidence": "seen there",
                                           "kind": "person", "source": "key:first"}  # fmt: skip


async def test_a_registry_is_replaced_whole_or_not_at_all(
    server: ApiServer, tmp_path: Path
) -> None:
    before = (await server.get("/registry"))["targets"]
    assert [each["submissionTarget"] for each in before] == ["noop"]
    bad = {"targets": [NOOP, {**NOOP, "submissionTarget": "b", "mode": "never"}]}
    answer = await server.request("PUT", "/registry", bad)
    assert answer.status == 400
    assert [each["path"] for each in answer.json["error"]["fields"]] == ["targets[1].mode"]
    assert (await server.get("/registry"))["targets"] == before
    good = {"targets": [{**NOOP, "submissionTarget": "another"}]}
    replaced = await server.request("PUT", "/registry", good)
    assert replaced.status == 200
    assert [each["submissionTarget"] for each in replaced.json["targets"]] == ["another"]
    assert json.loads((tmp_path / "registry.json").read_text()) == good
    refused = await server.request("POST", "/campaigns", campaign())
    assert refused.json["error"]["fields"][0]["path"] == "messages[0].submissionTarget"


async def test_without_a_registry_the_server_says_so_and_takes_one(tmp_path: Path) -> None:
    missing = tmp_path / "elsewhere.json"
    environment = {"OUTRIDER_REGISTRY": str(missing)}
    async with running_server(tmp_path, workers=0, environment=environment) as server:
        for method, path, body in (
            ("GET", "/registry", None),
            ("POST", "/campaigns", campaign()),
            ("POST", "/intents", {"intentId": "a", "submissionTarget": "noop", "payload": {}}),
        ):
            answer = await server.request(method, path, body)
            assert answer.status == 503
            assert answer.json["error"]["code"] == "REGISTRY_UNAVAILABLE"
            assert str(tmp_path) not in answer.body.decode()
        put = await server.request("PUT", "/registry", {"targets": [NOOP]})
        assert put.status == 200
        assert missing.exists()
        await server.post("/campaigns", campaign())


async def test_opt_outs_are_found_however_they_were_spelt(database: str, tmp_path: Path) -> None:
    async with running_server(tmp_path, database=database) as server:
        body = {"channel": "sms", "addresses": ["+44 (77) 0000-0001", "+447700000001"]}
        assert (await server.post("/suppressions", {**body, "reason": "STOP"}))["addresses"] == 1
        [opted] = (await server.get("/suppressions"))["items"]
        assert (opted["address"], opted["reason"]) == ("+447700000001", "STOP")
        campaign_id = (await server.post("/campaigns", campaign(3)))["campaignId"]
        dry = await server.post(f"/campaigns/{campaign_id}/phases/launch/dry-run")
        assert (dry["wouldSend"], dry["skipped"]) == (2, {"suppressed": 1})
        await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        run_id = await completed(server, campaign_id, "launch")
        skipped = await server.get(f"/runs/{run_id}/outbox?status=skipped")
        assert [item["reason"] for item in skipped["items"]] == ["suppressed"]
        gone = await server.request("DELETE", "/suppressions", body)
        assert gone.json["addresses"] == 1
        assert (await server.get("/suppressions"))["items"] == []


async def test_an_internal_error_is_logged_with_its_position_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        async def preview(self, *_: object) -> dict[str, object]:
            raise RuntimeError("the password is hunter2")

    configure_logging("json")
    async with opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, NOOP) as outrider:
        outrider.__dict__["previewer"] = Broken()
        async with serving(outrider, ApiLimits()) as server:
            for headers in ({}, {"Idempotency-Key": "a"}, {"Idempotency-Key": "a"}):
                async with server.session.post(
                    f"{server.url}/campaigns/x/preview", headers={**server.headers, **headers}
                ) as answer:
                    assert answer.status == 500
                    assert "Idempotency-Replayed" not in answer.headers
                    body = await answer.json()
                assert body["error"]["code"] == "INTERNAL_ERROR"
                assert body["requestId"] == answer.headers["X-Request-ID"]
                assert "hunter2" not in json.dumps(body)
    log = capsys.readouterr().err
    assert "builtins.RuntimeError at " in log
    assert "campaigns.py" in log
    assert "hunter2" not in log


@pytest.fixture
def postgres() -> Iterator[PrivatePostgres]:
    """Not below pytest's folder, which is closed to the server's own user."""
    with tempfile.TemporaryDirectory(prefix="outrider-postgres-") as folder:
        server = PrivatePostgres(Path(folder))
        yield server
        server.close()


async def test_a_database_that_is_down_makes_503_until_it_is_back(
    tmp_path: Path, postgres: PrivatePostgres
) -> None:
    database = await create_database(postgres.url)
    async with running_server(tmp_path, database=database, workers=0) as server:
        assert (await server.request("GET", "/readyz")).status == 200
        assert (await server.request("GET", "/metrics")).status == 200
        postgres.stop_immediately()
        for method, path, body in (
            ("GET", "/campaigns", None),
            ("POST", "/campaigns", campaign()),
            ("GET", "/readyz", None),
        ):
            answer = await server.request(method, path, body)
            assert answer.status == 503, answer.body
            assert int(answer.headers["Retry-After"]) >= 1
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert "postgres" not in answer.body.decode().lower()
        assert (await server.request("GET", "/healthz")).status == 200
        metrics = await server.request("GET", "/metrics")
        assert metrics.status == 200
        assert b"outrider_items_in_doubt" not in metrics.body
        # Whoever watches is known again; a key that was never right is not.
        assert (await server.request("GET", "/metrics", key="or_unknown_key")).status != 200
        postgres.start_again()

        async def is_so() -> bool:
            return (await server.request("GET", "/readyz")).status == 200

        await eventually(is_so, seconds=60)
        await server.post("/campaigns", campaign())


async def test_metrics_count_requests_by_template_and_bypasses(
    database: str, tmp_path: Path
) -> None:
    async with running_server(tmp_path, database=database, workers=0) as server:
        campaign_id = (await server.post("/campaigns", campaign()))["campaignId"]
        await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        await server.request("GET", "/nothing")
        async with raw_sql(database) as raw:
            await raw.run(
                "UPDATE campaign_phases SET state = 'paused'"
                f" WHERE campaign_id = '{campaign_id}' AND phase = 'launch'"
            )
        page = (await server.request("GET", "/metrics")).body.decode()
    samples = [
        sample for family in text_string_to_metric_families(page) for sample in family.samples
    ]

    def value(name: str, **labels: str) -> float:
        [found] = [each for each in samples if each.name == name and each.labels == labels]
        return found.value

    start = "/api/v2/campaigns/{campaign_id}/phases/{phase}/start"
    requests, seconds = "outrider_http_requests_total", "outrider_http_request_duration_seconds"
    assert value(requests, method="POST", route=start, status="200") == 1
    assert value(requests, method="GET", route="unmatched", status="404") == 1
    assert value(f"{seconds}_count", method="POST", route=start) == 1
    assert value("outrider_transition_bypass_total") == 1
    assert value("outrider_jobs", status="queued") == 1
    assert value("outrider_sse_clients") == 0
    assert value("outrider_items_in_doubt") == 0
    # Paused until the bypass is repaired, and without a worker afterwards.
    blocked = {code: value("outrider_blocked_runs", code=code) for code in BlockerCode}
    assert sum(blocked.values()) == 1
    assert 1 in (blocked[BlockerCode.PAUSED], blocked[BlockerCode.NO_WORKER])


async def test_the_log_has_the_life_of_a_campaign_and_of_its_run(tmp_path: Path) -> None:
    """Created, every control with the state after it, and the end of a run that was stopped."""
    later = campaign(scheduledFor="2099-01-01T00:00:00Z")
    async with running_server(tmp_path, workers=1) as server:
        campaign_id = (await server.post("/campaigns", later))["campaignId"]
        started = await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
        for action in ("pause", "resume", "stop"):
            await server.post(f"/campaigns/{campaign_id}/phases/launch/{action}")
        await server.logged("run_ended")
    said = [json.loads(line) for line in server.log.splitlines() if campaign_id in line]
    lines = [line for line in said if line["event"] != "request"]
    lived = [(line["event"], line.get("state") or line.get("status")) for line in lines]
    assert lived == [
        ("campaign_created", None),
        ("phase_controlled", "in_progress"),
        ("phase_controlled", "paused"),
        ("phase_controlled", "in_progress"),
        ("phase_controlled", "failed"),
        ("run_ended", "failed"),
    ]
    created, ended = lines[0], lines[-1]
    assert (created["recipients"], created["phases"][0]) == (2, "launch")
    assert (ended["run_id"], ended["stopped"]) == (started["runId"], True)
    assert all(line["level"] == "info" for line in lines)


async def test_the_kernels_log_lines_have_the_requests_id(server: ApiServer) -> None:
    campaign_id = (await server.post("/campaigns", campaign()))["campaignId"]
    await server.request(
        "POST", f"/campaigns/{campaign_id}/phases/launch/start", headers={"X-Request-ID": "r-1"}
    )
    line = json.loads(await server.logged("phase_controlled"))
    assert line["request_id"] == "r-1"


async def test_methods_and_paths_that_are_none_get_the_same_envelope(server: ApiServer) -> None:
    for method, path, status, code in (
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("PATCH", "/campaigns", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/campaigns/", 404, "NOT_FOUND"),
    ):
        answer = await server.request(method, path)
        assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert answer.headers["Content-Type"] == "application/problem+json"
    patched = await server.request("PATCH", "/campaigns")
    assert patched.headers["Allow"] == "GET, POST"


async def test_the_front_page_loads_nothing_from_elsewhere(server: ApiServer) -> None:
    page = await server.request("GET", "/", key="")
    assert page.headers["Content-Type"].startswith("text/html")
    assert b"http://" not in page.body
    assert b"https://" not in page.body
    assert b"/console/" in page.body
