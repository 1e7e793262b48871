"""Who may see and do what: every route of the OpenAPI document, walked as a stranger would."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import pytest_asyncio

from outrider.bootstrap import open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.kernel.transactions import receipts
from outrider.limits.access import FAILED_AUTH_BURST
from outrider.limits.api import ApiLimits
from outrider.settings import Settings
from tests.support.api_server import Answer, ApiServer, campaign, running_server
from tests.support.raw_sql import raw_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULE = {"trigger": "quote_sent", "channel": "sms", "audience": "lead"}
STEP = {"stepOrder": 1, "body": "A hidden text"}
ORIGIN = "https://console.example.test"
PREFIX = "/api/v2"


class Operation(NamedTuple):
    method: str
    path: str
    name: str
    scope: str


class Scene(NamedTuple):
    """One server; tenant A's things on it; keys of A with each scope; a key of tenant B."""

    server: ApiServer
    things: dict[str, str]
    keys: dict[str, str]
    stranger: str
    operations: list[Operation]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("security")
    environment = {"OUTRIDER_CORS_ORIGINS": json.dumps([ORIGIN])}
    async with running_server(folder, environment=environment) as server:
        things = await tenant_things(server)
        keys = {"admin": server.key}
        for scope in ("read", "operate"):
            made = await server.post("/keys", {"name": scope, "scopes": [scope]})
            keys[scope] = made["key"]
            things["key_id"] = made["id"]
        stranger = await other_tenants_key(folder)
        things["letter_id"] = await dead_letter(folder, things["run_id"])
        things["receipt_id"] = await unmatched_receipt(folder)
        yield Scene(server, things, keys, stranger, await operations_of(server))


async def tenant_things(server: ApiServer) -> dict[str, str]:
    """One of everything that has an id."""
    created = await server.post("/campaigns", campaign(2, phases=["launch", "report"]))
    campaign_id = created["campaignId"]
    for phase in ("launch", "report"):
        await server.post(f"/campaigns/{campaign_id}/phases/{phase}/start")
        async with asyncio.timeout(60):
            while True:
                status = await server.get(f"/campaigns/{campaign_id}/status")
                if status["phases"][phase]["state"] == "completed":
                    break
                await asyncio.sleep(0.02)
    run_id = status["phases"]["launch"]["runId"]
    items = (await server.get(f"/runs/{run_id}/outbox"))["items"]
    artifacts = (await server.get(f"/campaigns/{campaign_id}/artifacts"))["items"]
    intent = {"intentId": "order-1", "submissionTarget": "noop", "payload": {}}
    await server.post("/intents", intent)
    await server.post("/events", {"eventId": "quote-1", "trigger": "quote_rejected"})
    await server.post("/suppressions", {"channel": "sms", "addresses": ["+447700900999"]})
    policy = await server.request("PUT", "/workflows/policy", {"timeZone": "Pacific/Chatham"})
    assert policy.status == 200
    put = await server.request("PUT", "/workflows/rules", RULE)
    rule_id = put.json["id"]
    step = await server.post("/workflows/steps", {**STEP, "ruleId": rule_id})
    return {
        "rule_id": rule_id,
        "step_id": step["id"],
        "campaign_id": campaign_id,
        "run_id": run_id,
        "phase": "launch",
        "submission_target": "noop",
        "outbox_id": items[0]["outboxId"],
        "artifact_id": artifacts[0]["id"],
        "intent_id": "order-1",
        "event_id": "quote-1",
        "address": "+447700900999",
    }


async def dead_letter(folder: Path, run_id: str) -> str:
    """One event that a sink was not told, and the alert of that."""
    letter_id = "01000000-0000-7000-8000-00000000dead"
    async with raw_sql(f"sqlite:///{folder}/outrider.db") as raw:
        await raw.run(
            "INSERT INTO event_bus_dead_letters (id, tenant_id, workspace_id, sink, run_id,"
            f" run_seq, attempts, error, created_at) SELECT '{letter_id}', tenant_id,"
            f" workspace_id, 'audit', id, 1, 20, 'down', created_at FROM campaign_runs"
            f" WHERE id = '{run_id}'"
        )
        await raw.run(
            "INSERT INTO alerts (id, tenant_id, workspace_id, code, severity, subject, message,"
            f" detail, raised_at, last_seen_at) SELECT '{letter_id}', tenant_id, workspace_id,"
            f" 'PROJECTOR_LAG_HIGH', 'P2', id, 'late', '{{}}', created_at, created_at"
            f" FROM campaign_runs WHERE id = '{run_id}'"
        )
    return letter_id


async def unmatched_receipt(folder: Path) -> str:
    """One that a provider sent about an item that nobody knows."""
    settings = Settings(database_url=f"sqlite:///{folder}/outrider.db")
    receipt = Receipt("r-1", ReceiptEvent.BOUNCED, provider_message_id="unheard of")
    async with open_outrider(settings) as outrider:
        await outrider.receipt_intake.take_in(DEFAULT_SCOPE, "noop", [receipt])
        (stored,) = await outrider.store.read(receipts.page(DEFAULT_SCOPE, None, 10))
    return stored.id


async def other_tenants_key(folder: Path) -> str:
    settings = Settings(database_url=f"sqlite:///{folder}/outrider.db")
    async with open_outrider(settings) as outrider:
        scope = await outrider.key_keeper.open_workspace("another", "project", "production")
        _, text = await outrider.key_keeper.create(scope, "b", {KeyScope.ADMIN}, "test")
        return text


async def operations_of(server: ApiServer) -> list[Operation]:
    document = (await server.request("GET", "/openapi.json")).json
    found = [
        Operation(method.upper(), path, each["operationId"], each["x-required-scope"])
        for path, methods in document["paths"].items()
        for method, each in methods.items()
        if path.startswith(PREFIX)
    ]
    assert len(found) > 30
    return found


TARGET_CONTROLS = ("pauseTarget", "resumeTarget", "resetTarget")

BODIES: dict[str, Any] = {
    "createCampaign": campaign(),
    "emitEvent": {"eventId": "b-1", "trigger": "quote_rejected"},
    "submitIntent": {"intentId": "b-1", "submissionTarget": "noop", "payload": {}},
    "createKey": {"name": "b", "scopes": ["read"]},
    "suppress": {"channel": "sms", "addresses": ["+447700900111"]},
    "unsuppress": {"channel": "sms", "addresses": ["+447700900999"]},
    "resolveDoubt": {"verdict": "sent", "evidence": "I say so"},
    "matchReceipt": {"outboxId": "01000000-0000-7000-8000-00000000dead"},
    "submitIntents": {"intents": []},
    "resolveDoubts": {"verdict": "sent", "evidence": "I say so"},
    "rehearseEvent": {"trigger": "quote_rejected"},
    "signalRun": {"signal": "CANCEL"},
    "putRule": RULE,
    "replaceRule": RULE,
    "createStep": STEP,
    "putStep": STEP,
    "replaceStep": STEP,
    "applyWorkflows": {"rules": []},
    "replaceWorkflowPolicy": {},
}


async def ask(scene: Scene, operation: Operation, key: str) -> Answer:
    path = operation.path.removeprefix(PREFIX).format(**scene.things)
    given: dict[str, Any] = {"json": BODIES.get(operation.name)}
    if operation.name == "addAudience":
        given = {"data": b"id\nx\n", "headers": {"Content-Type": "text/csv"}}
    return await scene.server.request(operation.method, path, key=key, **given)


def with_ids(scene: Scene) -> Iterator[Operation]:
    return (operation for operation in scene.operations if "{" in operation.path)


async def test_another_tenants_objects_do_not_exist(scene: Scene) -> None:
    walked = 0
    for operation in with_ids(scene):
        if operation.name in (*TARGET_CONTROLS, "getPerson", "erasePerson"):
            continue
        answer = await ask(scene, operation, scene.stranger)
        assert answer.status == 404, (operation, answer.body)
        assert answer.json["error"]["code"] == "NOT_FOUND"
        walked += 1
    assert walked > 20


async def test_another_tenant_does_not_control_the_targets_that_all_share(scene: Scene) -> None:
    controls = [each for each in scene.operations if each.name in TARGET_CONTROLS]
    assert len(controls) == len(TARGET_CONTROLS)
    for operation in controls:
        answer = await ask(scene, operation, scene.stranger)
        assert answer.status == 403, (operation, answer.body)
        assert answer.json["error"]["code"] == "INSUFFICIENT_SCOPE"
    [line] = [
        each
        for each in (await scene.server.get("/targets"))["targets"]
        if each["submissionTarget"] == scene.things["submission_target"]
    ]
    assert line["state"] is None


async def test_lists_show_nothing_of_another_tenant(scene: Scene) -> None:
    hidden = [scene.things[name] for name in ("campaign_id", "run_id", "outbox_id", "letter_id",
                                                  "rule_id", "step_id", "event_id")]  # fmt: skip
    hidden += ["A hidden text", "quote_sent"]
    hidden += ["447700900999", "key:first", scene.things["key_id"], "Pacific/Chatham"]
    hidden += [scene.things["intent_id"], (await scene.server.get("/callbacks/secret"))["secret"]]
    lists = [each for each in scene.operations if each.method == "GET" and "{" not in each.path]
    assert {each.name for each in lists} == {
        "listCampaigns", "listDoubts", "countDoubts", "listSuppressions", "listKeys", "listAudit",
        "getRegistry",
        "listDeadLetters", "listAlerts", "getWorkflowPolicy", "getWorkflows", "listEvents",
        "listRules", "listSteps", "listTargets", "listBypasses", "countTrouble", "watchCampaigns",
        "listIntents", "getCallbackSecret", "listReceipts", "listWorkers", "search",
    }  # fmt: skip
    for operation in lists:
        if operation.name in ("watchCampaigns", "listWorkers", "search"):
            continue
        answer = await ask(scene, operation, scene.stranger)
        assert answer.status == 200
        for text in hidden:
            assert text not in answer.body.decode(), operation
    for path in ("/bus/dead-letters", "/alerts"):
        assert scene.things["letter_id"] in json.dumps(await scene.server.get(path))
    for query in (f"campaignId={scene.things['campaign_id']}", f"runId={scene.things['run_id']}"):
        answer = await scene.server.request("GET", f"/audit?{query}", key=scene.stranger)
        assert answer.status == 404
    answer = await scene.server.request(
        "GET", f"/doubts?runId={scene.things['run_id']}", key=scene.stranger
    )
    assert answer.status == 404


async def test_search_and_a_persons_history_show_nothing_of_another_tenant(scene: Scene) -> None:
    for name in ("campaign_id", "run_id", "outbox_id", "intent_id", "event_id", "address"):
        path = f"/search?q={quote(scene.things[name], safe='')}"
        assert (await scene.server.get(path))["items"], name
        assert (await scene.server.request("GET", path, key=scene.stranger)).json["items"] == []
    path = f"/people/{quote(scene.things['address'], safe='')}"
    assert (await scene.server.get(path))["items"]
    assert (await scene.server.request("GET", path, key=scene.stranger)).json["items"] == []


async def test_another_tenant_does_not_see_the_workers_that_all_share(scene: Scene) -> None:
    assert (await scene.server.get("/workers"))["items"]
    answer = await scene.server.request("GET", "/workers", key=scene.stranger)
    assert answer.status == 403
    assert answer.json["error"]["code"] == "INSUFFICIENT_SCOPE"


async def test_the_owner_sees_all_of_it(scene: Scene) -> None:
    """Else the walks above would prove nothing."""
    for operation in with_ids(scene):
        if operation.method == "GET" and operation.name != "watchCampaign":
            answer = await ask(scene, operation, scene.keys["read"])
            assert answer.status == 200, (operation, answer.body)


async def test_a_stranger_cannot_take_an_intents_id_away(scene: Scene) -> None:
    mine = {"intentId": "shared-1", "submissionTarget": "noop", "payload": {}}
    await scene.server.post("/intents", mine)
    theirs = {**mine, "payload": {"other": 1}}
    answer = await scene.server.request("POST", "/intents", theirs, key=scene.stranger)
    assert answer.status == 201
    assert (await scene.server.get("/intents/shared-1"))["payload"] == {}


async def test_without_a_key_every_route_is_closed(scene: Scene) -> None:
    for operation in scene.operations:
        answer = await ask(scene, operation, "")
        assert answer.status == 401, operation
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json["error"]["code"] == "UNAUTHENTICATED"


async def test_a_key_with_too_small_a_scope_changes_nothing(scene: Scene) -> None:
    refused = 0
    for operation in scene.operations:
        if operation.method != "GET" and operation.name != "signalRun":
            assert operation.scope in ("operate", "admin"), operation
        for key in ("read", "operate"):
            if [*KeyScope].index(KeyScope(key)) >= [*KeyScope].index(KeyScope(operation.scope)):
                continue
            answer = await ask(scene, operation, scene.keys[key])
            assert answer.status == 403, operation
            assert answer.json["error"]["code"] == "INSUFFICIENT_SCOPE"
            refused += 1
    assert refused > 15


async def test_a_signal_is_let_in_to_be_refused_on_record(scene: Scene) -> None:
    path = f"/runs/{scene.things['run_id']}"
    answer = await scene.server.request(
        "POST", f"{path}/signals", {"signal": "CANCEL"}, key=scene.keys["read"]
    )
    assert answer.status == 403
    assert answer.json["error"]["code"] == "SIGNAL_FORBIDDEN"
    told = (await scene.server.get(f"{path}/events"))["items"][-1]
    assert (told["eventType"], told["payload"]["by"]) == ("SignalRejected", "key:read")


async def test_keys_registry_and_rules_are_for_admins(scene: Scene) -> None:
    needed = {operation.name: operation.scope for operation in scene.operations}
    for name in ("listKeys", "createKey", "revokeKey", "replaceRegistry", "applyWorkflows",
                 "putRule", "replaceRule", "deleteRule", "createStep", "putStep", "replaceStep",
                 "deleteStep", *TARGET_CONTROLS):  # fmt: skip
        assert needed[name] == "admin"


async def test_a_revoked_key_opens_nothing(scene: Scene) -> None:
    made = await scene.server.post("/keys", {"name": "short", "scopes": ["read"]})
    assert (await scene.server.request("GET", "/campaigns", key=made["key"])).status == 200
    revoked = await scene.server.request("DELETE", f"/keys/{made['id']}")
    assert revoked.json["revokedAt"] is not None
    assert (await scene.server.request("GET", "/campaigns", key=made["key"])).status == 401


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/openapi.json", "/keys", "/none"])
async def test_every_answer_protects_its_reader(scene: Scene, path: str) -> None:
    headers = (await scene.server.request("GET", path)).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    # The console's files are nobody's secret; they are asked for anew each time.
    assert headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")
    assert "Server" not in headers
    assert "Access-Control-Allow-Origin" not in headers


async def test_only_the_named_origins_may_read_answers(scene: Scene) -> None:
    for origin, allowed in (
        (ORIGIN, ORIGIN),
        ("https://evil.example.test", None),
        (f"{ORIGIN}.evil.example", None),
        ("null", None),
    ):
        answer = await scene.server.request("GET", "/campaigns", headers={"Origin": origin})
        assert answer.headers.get("Access-Control-Allow-Origin") == allowed
        assert "Access-Control-Allow-Credentials" not in answer.headers
        preflight = await scene.server.request(
            "OPTIONS",
            "/campaigns",
            headers={"Origin": origin, "Access-Control-Request-Method": "POST"},
            key="",
        )
        assert preflight.headers.get("Access-Control-Allow-Origin") == allowed
        assert preflight.status == (200 if allowed else 400)


async def test_a_request_id_is_taken_if_it_is_fit_and_made_if_not(scene: Scene) -> None:
    for given, taken in (("order-1.A_b", True), ("x" * 101, False), ("a b", False), ("é", False)):
        answer = await scene.server.request("GET", "/none", headers={"X-Request-ID": given})
        assert (answer.headers["X-Request-ID"] == given) is taken
        assert answer.json["requestId"] == answer.headers["X-Request-ID"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read(scene: Scene) -> None:
    host, port = scene.server.url.removeprefix("http://").split(":")
    for path, most in (
        ("/intents", ApiLimits.body_max_bytes),
        ("/campaigns", ApiLimits.campaign_max_bytes),
        (f"/campaigns/{scene.things['campaign_id']}/audience", ApiLimits.upload_max_bytes),
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST {PREFIX}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
            f" {scene.server.key}\r\nContent-Type: text/csv\r\n"
            f"Content-Length: {most + 1}\r\n\r\n".encode()
        )
        async with asyncio.timeout(60):
            assert b" 413 " in await reader.readline()
        writer.close()


async def test_a_body_without_a_length_is_cut_at_the_limit(scene: Scene) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    answer = await scene.server.request(
        "POST", "/intents", data=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status == 413
    assert answer.json["error"]["code"] == "BODY_TOO_LARGE"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"x": NaN}}',
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"x": 1e999}}',
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"x": "\\u0000"}}',
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"\\ud800": 1}}',
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"x": "\\udfff"}}',
        b'{"intentId": "n", "intentId": "m", "submissionTarget": "noop", "payload": {}}',
        b'{"intentId": "a|b", "submissionTarget": "noop", "payload": {}}',
        b'{"intentId": "n", "submissionTarget": "noop", "payload": {"x": ' + b"9" * 5000 + b"}}",
        b'\xff\xfe{"intentId": 1}',
        b"nul\x00",
        b"",
        b"null",
        b"[]",
        b'"text"',
    ],
    ids=range(16),
)
async def test_malformed_json_is_the_clients_mistake(scene: Scene, body: bytes) -> None:
    answer = await scene.server.request(
        "POST", "/intents", data=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 400, answer.body
    assert answer.json["error"]["code"] == "INVALID_REQUEST"
    assert answer.json["error"]["fields"]
    for path in ("/campaigns", "/registry"):
        method = "PUT" if path == "/registry" else "POST"
        answer = await scene.server.request(
            method, path, data=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status == 400, answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/campaigns/%00/status",
        "/runs/%ff",
        "/intents/%00%0a",
        "/outbox/..",
        "/events/%00%0a",
        "/events/a%0a/explain",
    ],
)
async def test_ids_that_cannot_be_are_not_found(scene: Scene, path: str) -> None:
    assert (await scene.server.request("GET", path)).status == 404


async def test_metrics_need_a_key_even_from_this_machine(scene: Scene) -> None:
    """XM: a proxy on this machine that sends no X-Forwarded-For cannot be told from it."""
    assert (await scene.server.request("GET", "/metrics", key="")).status == 401
    metrics = await scene.server.request("GET", "/metrics", key=scene.keys["read"])
    assert metrics.status == 200
    for name, thing in scene.things.items():
        if name not in ("phase", "submission_target"):
            assert thing not in metrics.body.decode()


async def test_metrics_can_be_opened_to_this_machine_and_not_to_what_is_forwarded(
    tmp_path: Path,
) -> None:
    opening = {"OUTRIDER_METRICS_WITHOUT_KEY": "true"}
    async with running_server(tmp_path, environment=opening, workers=0) as server:
        assert (await server.request("GET", "/metrics", key="")).status == 200
        forwarded = {"X-Forwarded-For": "127.0.0.1"}
        seen = await server.request("GET", "/metrics", headers=forwarded, key="")
        assert seen.status == 401


async def test_the_log_has_ids_and_neither_keys_nor_queries_nor_bodies(scene: Scene) -> None:
    await scene.server.request(
        "DELETE", "/suppressions?channel=email&address=secret@example.test",
        headers={"X-Request-ID": "look-for-me"},
    )  # fmt: skip
    line = json.loads(await scene.server.logged("look-for-me"))
    assert line["route"] == "/api/v2/suppressions"
    assert (line["method"], line["status"]) == ("DELETE", 200)
    assert line["duration_ms"] > 0
    assert line["tenant_id"] == "00000000-0000-7000-8000-000000000001"
    log = scene.server.log
    assert "secret@example.test" not in log
    assert "447700900999" not in log
    for key in (*scene.keys.values(), scene.stranger):
        assert key not in log
        assert key.rpartition("_")[2] not in log


async def test_wrong_keys_have_to_wait_and_good_ones_do_not(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        assert (await server.request("GET", "/campaigns")).status == 200
        statuses = [
            (await server.request("GET", "/campaigns", key=f"wrong-{number}")).status
            for number in range(FAILED_AUTH_BURST)
        ]
        assert set(statuses) == {401}
        limited = await server.request("GET", "/campaigns", key="wrong again")
        assert limited.status == 429
        assert int(limited.headers["Retry-After"]) >= 1
        assert limited.json["error"]["code"] == "TOO_MANY_FAILED_AUTHENTICATIONS"
        # Somebody else's mistakes do not shut out who is known already.
        assert (await server.request("GET", "/campaigns")).status == 200
        # No key at all is no guess, and is told what is missing.
        assert (await server.request("GET", "/campaigns", key="")).status == 401
        metrics = (await server.request("GET", "/metrics")).body.decode()
        assert f"outrider_auth_failures_total {FAILED_AUTH_BURST}.0" in metrics
