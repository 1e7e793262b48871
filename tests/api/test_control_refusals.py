"""What a control is refused with, over HTTP: the status, the words, the log; and streams that are
ahead of their server.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.support.api_server import Answer, ApiServer, campaign, running_server
from tests.support.raw_sql import raw_sql

AHEAD = 40


@pytest.fixture
async def server(database: str, tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running_server(tmp_path, database=database, workers=0) as started:
        yield started


async def made(server: ApiServer, recipients: int = 2) -> str:
    campaign_id: str = (await server.post("/campaigns", campaign(recipients)))["campaignId"]
    return campaign_id


async def act(server: ApiServer, campaign_id: str, action: str) -> Answer:
    return await server.request("POST", f"/campaigns/{campaign_id}/phases/launch/{action}")


async def test_a_refusal_says_what_is_true_of_the_table_and_leaves_a_line_in_the_log(
    server: ApiServer,
) -> None:
    """CM: 409 texts, `current_state` of in_progress x complete, the log."""
    campaign_id = await made(server)
    assert (await act(server, campaign_id, "start")).status == 200
    complete = await act(server, campaign_id, "complete")
    assert complete.status == 409
    assert complete.json["error"]["current_state"] == "in_progress"
    assert complete.json["error"]["attempted_action"] == "complete"
    await act(server, campaign_id, "pause")
    start = await act(server, campaign_id, "start")
    assert start.status == 409
    assert start.json["error"]["code"] == "INVALID_PHASE_TRANSITION"
    assert start.json["error"]["message"] == "Cannot start a phase that is 'paused'"
    assert start.json["error"]["hint"] == "resume it instead"
    line = msgspec.json.decode(await server.logged("Cannot start a phase"))
    assert line["event"] == "phase_control_refused"
    assert line["campaign_id"] == campaign_id
    assert (line["phase"], line["attempted_action"]) == ("launch", "start")
    assert (line["code"], line["current_state"]) == ("INVALID_PHASE_TRANSITION", "paused")


async def test_a_missing_output_of_a_phase_before_is_a_conflict(server: ApiServer) -> None:
    """CM: contract 003's rerun and retry preconditions are 409 with a reason."""
    created = await server.post(
        "/campaigns", campaign(1, phases=["audience_import", "launch"], audience={"recipients": []})
    )
    campaign_id = created["campaignId"]
    async with raw_sql(server_database(server)) as raw:
        await raw.run(
            "UPDATE campaign_phases SET state = 'completed'"
            f" WHERE campaign_id = '{campaign_id}' AND phase = 'audience_import'"
        )
    refused = await act(server, campaign_id, "start")
    assert refused.status == 409, refused.body
    error = refused.json["error"]
    assert (error["code"], error["reason"]) == (
        "PHASE_PRECONDITION_FAILED", "predecessor_output_missing",
    )  # fmt: skip


def server_database(server: ApiServer) -> str:
    return server._environment["OUTRIDER_DATABASE_URL"]


async def test_an_expected_state_that_is_given_twice_is_refused(server: ApiServer) -> None:
    """CM: of two that disagree, the last one used to win."""
    campaign_id = await made(server)
    await act(server, campaign_id, "start")
    for both in ("paused&expected_state=in_progress", "in_progress&expected_state=in_progress"):
        answer = await act(server, campaign_id, f"pause?expected_state={both}")
        assert answer.status == 400
        assert answer.json["error"]["fields"][0]["path"] == "expected_state"
    status = await server.get(f"/campaigns/{campaign_id}/status")
    assert status["phases"]["launch"]["state"] == "in_progress"


async def test_a_stream_that_is_ahead_of_its_server_is_asked_to_fetch_the_snapshot(
    server: ApiServer,
) -> None:
    """CM: as after a restored backup; without a word it would be silent up to that sequence."""
    campaign_id = await made(server)
    await act(server, campaign_id, "start")
    async with server.stream(campaign_id, last_event_id=AHEAD) as stream:
        first = await stream.next()
        assert (first.type, first.id) == ("snapshot_required", "1")
        assert first.data["sequence"] == 1
        assert first.data["payload"] == {"reason": "ahead_of_server", "askedAfter": AHEAD}
        await act(server, campaign_id, "pause")
        event = await stream.next()
        assert (event.type, event.id) == ("phase_paused", "2")
    async with server.stream(campaign_id, last_event_id=1) as stream:
        assert (await stream.next()).type == "phase_paused"
