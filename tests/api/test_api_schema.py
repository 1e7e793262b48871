"""The OpenAPI document is true: what it allows, and what it does not, is answered as it says."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_server import ApiServer, campaign, running_server

ROOT_KEY = "the-root-key-of-the-schema-test"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
EXAMPLES = 5
EVERY_PHASE = "examples,coverage,fuzzing"
SEED = 20261116
SECONDS = 900
SHOWN_CHARACTERS = 6_000
SHOWN_COLUMNS = 300


async def things_to_ask_for(server: ApiServer) -> dict[str, str]:
    """A campaign that ran through, and one of everything that came of it."""
    created = await server.post("/campaigns", campaign(3, phases=["launch", "report"]))
    campaign_id = created["campaignId"]
    for phase in ("launch", "report"):
        await server.post(f"/campaigns/{campaign_id}/phases/{phase}/start")
        await completed(server, campaign_id, phase)
    runs = await server.get(f"/campaigns/{campaign_id}/runs")
    run_id = runs["items"][-1]["runId"]
    items = await server.get(f"/runs/{run_id}/outbox")
    artifacts = await server.get(f"/campaigns/{campaign_id}/artifacts")
    intent = {"intentId": "order-1", "submissionTarget": "noop", "payload": {}}
    await server.post("/intents", intent)
    await server.post("/events", {"eventId": "quote-1", "trigger": "quote_rejected"})
    rule = {"trigger": "quote_sent", "channel": "sms", "audience": "lead"}
    put = await server.request("PUT", "/workflows/rules", rule)
    step = {"ruleId": put.json["id"], "stepOrder": 1, "body": "Hi {{ lead.firstName }}"}
    made = await server.post("/workflows/steps", step)
    return {
        "rule_id": put.json["id"],
        "step_id": made["id"],
        "campaign_id": campaign_id,
        "run_id": run_id,
        "phase": "launch",
        "outbox_id": items["items"][0]["outboxId"],
        "artifact_id": artifacts["items"][0]["id"],
        "intent_id": "order-1",
        "event_id": "quote-1",
    }


async def completed(server: ApiServer, campaign_id: str, phase: str) -> None:
    async with asyncio.timeout(60):
        while True:
            status = await server.get(f"/campaigns/{campaign_id}/status")
            if status["phases"][phase]["state"] == "completed":
                return
            await asyncio.sleep(0.02)


async def found_by_schemathesis(server: ApiServer, folder: Path, config: str, phases: str) -> str:
    """What it has to say where it found something; nothing where it did not."""
    (folder / "schemathesis.toml").write_text(config)
    here = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file", str(folder / "schemathesis.toml"), "run", server.address("/openapi.json"),
        "--header", f"Authorization: Bearer {ROOT_KEY}",
        "--exclude-operation-id", "watchCampaign", "--exclude-operation-id", "watchCampaigns",
        "--checks", ",".join(CHECKS),
        "--phases", phases,
        "--max-examples", str(EXAMPLES), "--seed", str(SEED),
        "--continue-on-failure", "--warnings", "off", "--no-color",
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(here),
            "SCHEMATHESIS_HOOKS": "tests.support.schema_hooks",
        },
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    if process.returncode == 0:
        return ""
    lines = (line[:SHOWN_COLUMNS] for line in said.decode(errors="replace").splitlines())
    return "\n".join(lines)[-SHOWN_CHARACTERS:] or "it failed and said nothing"


async def every_operation_was_asked(server: ApiServer) -> None:
    asked = {
        (line["method"], line["route"])
        for line in map(json.loads, server.log_lines)
        if line["event"] == "request"
    }
    paths = (await server.request("GET", "/openapi.json")).json["paths"]
    named = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    streams = {"/api/v2/campaigns/{campaign_id}/events", "/api/v2/stream"}
    assert named - asked == {("GET", path) for path in streams}


@pytest.mark.parametrize(
    ("known", "phases"),
    [
        pytest.param(False, "fuzzing", id="strangers"),
        pytest.param(True, "examples,coverage", id="things_that_exist"),
        pytest.param(True, EVERY_PHASE, id="things_that_exist-whole", marks=pytest.mark.storm),
        pytest.param(False, EVERY_PHASE, id="strangers-whole", marks=pytest.mark.storm),
    ],
)
async def test_the_openapi_document_is_true(tmp_path: Path, known: bool, phases: str) -> None:
    """Ids that exist get further than unknown ones, so those meet every case the document has; what
    is random is for unknown ones each time, and for both in a storm."""
    async with (
        running_server(tmp_path, environment={"OUTRIDER_ROOT_KEY": ROOT_KEY}) as server,
        asyncio.timeout(SECONDS),
    ):
        config = ""
        if known:
            things = await things_to_ask_for(server)
            lines = [f"{json.dumps(f'path.{name}')} = {json.dumps(value)}"
                     for name, value in things.items()]  # fmt: skip
            config = "\n".join(["[parameters]", *lines])
        found = await found_by_schemathesis(server, tmp_path, config, phases)
        assert not found, found
        # No target here takes mail: events that are to be mailed are not routed, as they should.
        errors = [line for line in server.log_lines if '"level": "error"' in line]
        assert [line for line in errors if "event_not_routed" not in line] == []
        await every_operation_was_asked(server)


async def test_every_operation_is_named_described_and_says_how_it_fails(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        document: dict[str, Any] = (await server.request("GET", "/openapi.json")).json
    names = []
    for path, operations in document["paths"].items():
        for operation in operations.values():
            names.append(operation["operationId"])
            assert operation["summary"], path
            if path.startswith("/api/v2"):
                assert operation["security"] == [{"key": []}]
                assert operation["x-required-scope"] in ("read", "operate", "admin")
                failures = {"400", "401", "403", "404", "429", "503"}
                assert failures <= operation["responses"].keys(), path
                for status in failures:
                    assert list(operation["responses"][status]["content"]) == [
                        "application/problem+json"
                    ]
    assert len(names) == len(set(names))
