"""Idempotency keys over HTTP: what is replayed, what is refused, and who waits for whom."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.limits.api import ApiLimits
from outrider.ports.idempotency import Claimed, RequestKey, Running, StoredAnswer
from outrider.testing.launches import target
from tests.support.api_inside import serving
from tests.support.api_server import Answer, ApiServer, campaign, running_server
from tests.support.redis_server import RedisServer, running_redis
from tests.support.whole_runs import opened

REPLAYED = "Idempotency-Replayed"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["database", "redis"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ApiServer]:
    """A server without a worker that keeps its answers in the database, or in Redis."""
    environment = {}
    if request.param == "redis":
        found: RedisServer = request.getfixturevalue("redis")
        environment["OUTRIDER_REDIS_URL"] = found.url
    async with running_server(tmp_path, workers=0, environment=environment) as started:
        yield started


async def started(server: ApiServer) -> str:
    campaign_id: str = (await server.post("/campaigns", campaign()))["campaignId"]
    await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
    return campaign_id


async def act(server: ApiServer, campaign_id: str, action: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await server.request(
        "POST", f"/campaigns/{campaign_id}/phases/launch/{action}", headers=named
    )


async def last_sequence(server: ApiServer, campaign_id: str) -> int:
    sequence: int = (await server.get(f"/campaigns/{campaign_id}/status"))["lastSequence"]
    return sequence


async def test_a_repeat_gets_the_first_answer_byte_for_byte(server: ApiServer) -> None:
    campaign_id = await started(server)
    first = await act(server, campaign_id, "pause", X_Idempotency_Key="a")
    assert (first.status, first.json["changed"]) == (200, True)
    assert REPLAYED not in first.headers
    # Its other name is the same key.
    for header in ("X_Idempotency_Key", "Idempotency_Key"):
        again = await act(server, campaign_id, "pause", **{header: "a"})
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers[REPLAYED] == "true"
        assert again.headers["Content-Type"] == first.headers["Content-Type"]
        assert again.headers["X-Request-ID"] != first.headers["X-Request-ID"]
    assert await last_sequence(server, campaign_id) == 2
    other = await act(server, campaign_id, "pause", Idempotency_Key="b")
    assert (other.status, other.json["changed"]) == (200, False)


async def test_creating_under_a_key_creates_once(server: ApiServer) -> None:
    key = {"Idempotency-Key": "create"}
    answers = [await server.post("/campaigns", campaign(), headers=key) for _ in range(3)]
    assert len({answer["campaignId"] for answer in answers}) == 1
    assert len((await server.get("/campaigns"))["items"]) == 1


async def test_errors_are_replayed_too(server: ApiServer) -> None:
    campaign_id = await started(server)
    refused = await act(server, campaign_id, "resume", X_Idempotency_Key="a")
    assert refused.status == 200, "it is in progress already"
    conflict = await act(server, campaign_id, "rerun", X_Idempotency_Key="b")
    await act(server, campaign_id, "stop")
    invalid = await act(server, campaign_id, "pause", X_Idempotency_Key="c")
    assert invalid.status == 409
    await act(server, campaign_id, "retry")
    again = await act(server, campaign_id, "pause", X_Idempotency_Key="c")
    assert (again.status, again.body) == (409, invalid.body)
    assert again.headers["Content-Type"] == "application/problem+json"
    assert again.headers[REPLAYED] == "true"
    assert (await act(server, campaign_id, "rerun", X_Idempotency_Key="b")).body == conflict.body


async def test_a_key_of_another_request_is_refused(server: ApiServer) -> None:
    campaign_id = await started(server)
    await act(server, campaign_id, "pause", X_Idempotency_Key="a")
    path = f"/campaigns/{campaign_id}/phases/launch/pause"
    for other, body in (
        (f"{path}?expected_state=paused", None),
        (path, {"expected_state": "paused"}),
        (path, {"expected_state": "unknown"}),
    ):
        answer = await server.request("POST", other, body, headers={"Idempotency-Key": "a"})
        assert answer.status == 422
        assert answer.json["error"]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert await last_sequence(server, campaign_id) == 2


async def test_one_key_may_be_used_for_two_campaigns_and_for_two_actions(
    server: ApiServer,
) -> None:
    """CM: a key is a method's and a path's, so a timestamp may serve as one."""
    key = "1700000000"
    both = [await started(server), await started(server)]
    for campaign_id in both:
        for action in ("pause", "resume"):
            answer = await act(server, campaign_id, action, X_Idempotency_Key=key)
            assert (answer.status, answer.json["changed"]) == (200, True)
            again = await act(server, campaign_id, action, X_Idempotency_Key=key)
            assert (again.body, again.headers[REPLAYED]) == (answer.body, "true")
        assert await last_sequence(server, campaign_id) == 3


async def test_of_many_at_once_one_executes_and_all_get_its_answer(server: ApiServer) -> None:
    key = {"X-Idempotency-Key": "together"}
    answers = await asyncio.gather(
        *(server.request("POST", "/campaigns", campaign(500), headers=key) for _ in range(12))
    )
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert sum(answer.headers.get(REPLAYED) == "true" for answer in answers) == 11
    assert len((await server.get("/campaigns"))["items"]) == 1


async def test_two_different_keys_or_an_unfit_one_are_refused(server: ApiServer) -> None:
    campaign_id = await started(server)
    both = await act(server, campaign_id, "pause", X_Idempotency_Key="a", Idempotency_Key="b")
    assert both.status == 400
    assert {field["path"] for field in both.json["error"]["fields"]} == {
        "X-Idempotency-Key",
        "Idempotency-Key",
    }
    same = await act(server, campaign_id, "pause", X_Idempotency_Key="a", Idempotency_Key="a")
    assert same.status == 200
    for unfit in ("x" * 256, "tab\tin it", "é"):
        answer = await act(server, campaign_id, "resume", Idempotency_Key=unfit)
        assert answer.status == 400, unfit
    assert await last_sequence(server, campaign_id) == 2


async def test_nothing_is_replayed_to_a_client_without_a_key(server: ApiServer) -> None:
    campaign_id = await started(server)
    path, headers = f"/campaigns/{campaign_id}/phases/launch/pause", {"X-Idempotency-Key": "a"}
    assert (await server.request("POST", path, headers=headers)).status == 200
    assert (await server.request("POST", path, headers=headers, key="none")).status == 401


async def test_an_uploaded_audience_is_added_once(server: ApiServer) -> None:
    created = await server.post("/campaigns", campaign(1))
    path = f"/campaigns/{created['campaignId']}/audience"
    headers = {"Content-Type": "text/csv", "Idempotency-Key": "upload"}
    body = b"id,phone\nlead-x,+447700900123\n"
    first = await server.request("POST", path, data=body, headers=headers)
    again = await server.request("POST", path, data=body, headers=headers)
    assert first.json["recipients"] == 1
    assert (again.body, again.headers[REPLAYED]) == (first.body, "true")
    other = await server.request("POST", path, data=body + b"x,\n", headers=headers)
    assert other.status == 422


async def test_a_key_created_under_an_idempotency_key_is_still_shown_only_once(
    server: ApiServer,
) -> None:
    body = {"name": "ci", "scopes": ["read"]}
    headers = {"Idempotency-Key": "k"}
    first = await server.post("/keys", body, headers=headers)
    again = await server.post("/keys", body, headers=headers)
    assert first["key"].startswith("outrider_")
    assert again == {**first, "key": None}


class Slow:
    """An idempotency store at which somebody else is always at it."""

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self.claims = 0

    async def claim(self, _key: RequestKey) -> Claimed:
        self.claims += 1
        return self.claimed

    async def finish(self, *_: Any) -> None: ...

    async def abandon(self, *_: Any) -> None: ...


async def test_a_caller_that_waits_too_long_for_the_first_is_asked_to_retry_later(
    tmp_path: Path,
) -> None:
    async with opened(
        f"sqlite:///{tmp_path}/outrider.db", tmp_path, target("noop", "noop", "noop:")
    ) as outrider:
        busy = Slow(Running())
        outrider.__dict__["idempotency"] = busy
        async with serving(outrider, ApiLimits(idempotency_wait_seconds=1.0)) as server:
            async with server.session.post(
                f"{server.url}/campaigns",
                json=campaign(),
                headers={**server.headers, "Idempotency-Key": "a"},
            ) as answer:
                assert answer.status == 409
                assert (await answer.json())["error"]["code"] == "IDEMPOTENCY_IN_PROGRESS"
                assert int(answer.headers["Retry-After"]) >= 1
            assert busy.claims > 1
            busy.claimed = StoredAnswer(418, "application/json", '{"tea": true}')
            async with server.session.post(
                f"{server.url}/campaigns", headers={**server.headers, "Idempotency-Key": "a"}
            ) as answer:
                assert (answer.status, await answer.text()) == (418, '{"tea": true}')
