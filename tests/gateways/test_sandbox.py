"""The provider simulator: what it accepts, how it misbehaves on request, what its log proves."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from outrider.domain.call_results import Accepted, AttemptError, Progress, Rejected, Throttled
from outrider.gateways.directory import Gateways
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.secrets.store import LocalSecrets
from tests.support.broken_server import REFERENCE, StallingSandbox, reservation

SMS = {"referenceId": "r1", "to": "+447700900123", "message": "Hi"}
PUSH = {"referenceId": "r1", "token": "t1", "title": "", "body": "Hi"}


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "requests.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(log_path=log_path) as sandbox:
        yield sandbox


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    gateways = Gateways(LocalSecrets())
    yield gateways
    await gateways.close()


@pytest.fixture
async def session(sandbox: Sandbox) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(sandbox.http_url) as session:
        yield session


async def post(
    session: aiohttp.ClientSession, path: str, document: object
) -> tuple[int, dict[str, Any]]:
    async with session.post(path, json=document) as response:
        return response.status, await response.json()


def entries(log_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path.read_text().splitlines()]


async def test_a_message_is_accepted_delivered_and_logged(
    session: aiohttp.ClientSession, log_path: Path
) -> None:
    status, answer = await post(session, "/sms/send", SMS)
    assert status == 200
    assert answer["status"] == "accepted"
    assert answer["referenceId"] == "r1"
    assert answer["gatewayMessageId"]
    (entry,) = entries(log_path)
    assert entry.pop("at")
    assert entry == {
        "protocol": "sms",
        "referenceId": "r1",
        "to": "+447700900123",
        "outcome": "accepted",
        "delivered": True,
    }


@pytest.mark.parametrize(
    ("path", "document", "reason"),
    [
        ("/sms/send", [], "invalid_request"),
        ("/sms/send", {**SMS, "referenceId": ""}, "invalid_request"),
        ("/sms/send", {**SMS, "referenceId": 5}, "invalid_request"),
        ("/sms/send", {**SMS, "to": "07700900123"}, "invalid_recipient"),
        ("/sms/send", {**SMS, "to": "+44\n"}, "invalid_recipient"),
        ("/sms/send", {**SMS, "message": ""}, "invalid_message"),
        ("/push/send", {"referenceId": "r1"}, "invalid_request"),
        ("/push/send", {**PUSH, "token": "unregistered-7"}, "unregistered_token"),
    ],
)
async def test_an_invalid_request_is_rejected_with_its_reason(
    session: aiohttp.ClientSession, sandbox: Sandbox, path: str, document: object, reason: str
) -> None:
    status, answer = await post(session, path, document)
    assert status == 400
    assert (answer["status"], answer["reason"]) == ("rejected", reason)
    assert sandbox.received()["delivered"] == 0


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
async def test_bytes_that_are_not_json_are_an_invalid_request(
    session: aiohttp.ClientSession, body: bytes
) -> None:
    async with session.post("/sms/send", data=body) as response:
        assert response.status == 400
        assert (await response.json())["reason"] == "invalid_request"


async def test_a_huge_request_is_refused(session: aiohttp.ClientSession) -> None:
    huge = {**SMS, "message": "x" * 2_000_000}
    status, answer = await post(session, "/sms/send", huge)
    assert status == 413
    assert answer["reason"] == "invalid_request"


RESEND = {"from": "a@example.test", "to": ["b@example.test"], "subject": "S", "text": "Hi"}
TELNYX = {"from": "+15550001111", "to": "+447700900123", "text": "Hi"}


@pytest.mark.parametrize(
    ("path", "document", "status"), [("/emails", RESEND, 409), ("/v2/messages", TELNYX, 422)]
)
async def test_another_request_under_a_known_key_is_refused_as_resend_and_telnyx_do(
    session: aiohttp.ClientSession, sandbox: Sandbox, path: str, document: Any, status: int
) -> None:
    headers = {"Idempotency-Key": "r1", "Authorization": "Bearer key"}
    bodies = [document, document, {**document, "text": "Hello"}, document]
    found = []
    for body in bodies:
        async with session.post(path, json=body, headers=headers) as response:
            found.append((response.status, await response.read()))
    assert [each for each, _ in found] == [200, 200, status, 200]
    assert found[0] == found[1] == found[3]
    assert sandbox.outcomes == {"accepted": 1, "duplicate_reference": 2, "other_request": 1}
    assert sandbox.deliveries == {"r1": 1}


async def test_a_second_request_with_an_accepted_reference_is_not_delivered(
    session: aiohttp.ClientSession, sandbox: Sandbox, log_path: Path
) -> None:
    await post(session, "/sms/send", SMS)
    _, answer = await post(session, "/sms/send", SMS)
    assert answer["reason"] == "duplicate_reference"
    assert references_delivered(log_path) == {"r1": 1}
    assert sandbox.received() == {
        "requests": 2,
        "delivered": 1,
        "duplicates": 0,
        "outcomes": {"accepted": 1, "duplicate_reference": 1},
    }


async def test_without_dedupe_a_second_request_is_delivered_again(
    session: aiohttp.ClientSession, sandbox: Sandbox, log_path: Path
) -> None:
    sandbox.faults.dedupe = False
    for _ in range(2):
        _, answer = await post(session, "/sms/send", SMS)
        assert answer["status"] == "accepted"
    assert references_delivered(log_path) == {"r1": 2}
    assert sandbox.received()["duplicates"] == 1


async def test_a_failed_reference_is_not_remembered(
    session: aiohttp.ClientSession, sandbox: Sandbox
) -> None:
    sandbox.faults.fail_rate = 1.0
    _, answer = await post(session, "/push/send", PUSH)
    assert (answer["status"], answer["reason"]) == ("rejected", "provider_failure")
    sandbox.faults.fail_rate = 0.0
    _, answer = await post(session, "/push/send", PUSH)
    assert answer["status"] == "accepted"


async def test_a_provider_that_has_the_message_never_says_that_it_failed(
    session: aiohttp.ClientSession, sandbox: Sandbox
) -> None:
    await post(session, "/sms/send", SMS)
    sandbox.faults.fail_rate = 1.0
    _, answer = await post(session, "/sms/send", SMS)
    assert answer["reason"] == "duplicate_reference"


async def test_a_dropped_request_was_delivered_and_its_repetition_says_so(
    sandbox: Sandbox, gateways: Gateways, log_path: Path
) -> None:
    gateway = gateways.gateway("target", "sms", sandbox.http_url)
    sandbox.faults.drop_rate = 1.0
    for _ in range(2):
        dropped = await gateway.call(reservation())
        assert isinstance(dropped, AttemptError)
        assert dropped.progress is Progress.SENT_NO_ANSWER
    assert references_delivered(log_path) == {REFERENCE: 1}
    sandbox.faults.drop_rate = 0.0
    repeated = await gateway.call(reservation())
    assert isinstance(repeated, Rejected)
    assert repeated.reason == "duplicate_reference"
    outcomes = [(entry["outcome"], entry["delivered"]) for entry in entries(log_path)]
    assert outcomes == [("dropped", True), ("dropped", False), ("duplicate_reference", False)]


async def test_a_throttled_request_is_not_delivered_and_says_when_to_retry(
    sandbox: Sandbox, gateways: Gateways
) -> None:
    sandbox.change_faults({"throttleRate": 1.0, "retryAfterSeconds": 7})
    result = await gateways.gateway("target", "push", sandbox.http_url).call(reservation("token"))
    assert result == Throttled("HTTP 429", 7.0)
    assert sandbox.received()["delivered"] == 0


async def test_the_log_line_is_written_before_the_answer_leaves(log_path: Path) -> None:
    async with (
        StallingSandbox(log_path=log_path) as sandbox,
        aiohttp.ClientSession(sandbox.http_url) as session,
    ):
        answer = asyncio.create_task(post(session, "/sms/send", SMS))
        await sandbox.stalled.wait()
        assert references_delivered(log_path) == {"r1": 1}
        assert not answer.done()
        sandbox.released.set()
        assert (await answer)[0] == 200


async def test_the_same_seed_gives_the_same_outcomes() -> None:
    faults = Faults(fail_rate=0.3, drop_rate=0.3, throttle_rate=0.2, seed=7)
    histories = []
    for _ in range(2):
        sandbox = Sandbox(faults)
        histories.append(
            [sandbox.decide("sms", f"r{number}", "", dedupes=True) for number in range(200)]
        )
    assert histories[0] == histories[1]
    assert len(set(histories[0])) == 4


async def test_faults_are_changed_live_and_answered_back(
    sandbox: Sandbox, session: aiohttp.ClientSession
) -> None:
    async with session.put("/sandbox/faults", json={"failRate": 1, "latencyMs": 2.5}) as response:
        assert response.status == 200
        changed = await response.json()
    async with session.get("/sandbox/faults") as response:
        assert await response.json() == changed
    assert (sandbox.faults.fail_rate, sandbox.faults.latency_ms) == (1.0, 2.5)
    assert sandbox.faults.dedupe is True
    _, answer = await post(session, "/sms/send", SMS)
    assert answer["reason"] == "provider_failure"


@pytest.mark.parametrize(
    "changes",
    [{"failRate": 2}, {"failRate": "much"}, {"latencyMs": -1}, {"dedupe": 1}, {"fialRate": 1}, []],
)
async def test_bad_faults_are_refused_and_change_nothing(
    sandbox: Sandbox, session: aiohttp.ClientSession, changes: object
) -> None:
    async with session.put("/sandbox/faults", json=changes) as response:
        assert response.status == 400
        assert (await response.json())["error"]
    assert sandbox.faults == Faults()


async def test_received_is_served_and_other_paths_are_not(session: aiohttp.ClientSession) -> None:
    await post(session, "/sms/send", SMS)
    async with session.get("/sandbox/received") as response:
        assert (await response.json())["requests"] == 1
    async with session.get("/sms/send") as response:
        assert response.status == 404


# Mail.


async def test_mail_is_delivered_and_logged_under_its_reference(
    sandbox: Sandbox, gateways: Gateways, log_path: Path
) -> None:
    gateway = gateways.gateway("target", "smtp", sandbox.smtp_url)
    result = await gateway.call(reservation("ada@example.test", body="Grüße"))
    assert isinstance(result, Accepted)
    (entry,) = entries(log_path)
    assert (entry["protocol"], entry["to"]) == ("smtp", "ada@example.test")
    assert references_delivered(log_path) == {REFERENCE: 1}


@pytest.mark.parametrize(
    ("address", "faults", "reason"),
    [
        ("reject-me@example.test", {}, "invalid_recipient"),
        ("ada@example.test", {"failRate": 1}, "message_refused"),
    ],
)
async def test_mail_that_is_refused_is_logged_and_not_delivered(
    sandbox: Sandbox, gateways: Gateways, address: str, faults: dict[str, Any], reason: str
) -> None:
    sandbox.change_faults(faults)
    result = await gateways.gateway("target", "smtp", sandbox.smtp_url).call(reservation(address))
    assert isinstance(result, Rejected)
    assert result.reason == reason
    assert sandbox.received()["requests"] == 1
    assert sandbox.received()["delivered"] == 0


async def test_mail_that_is_throttled_is_logged_and_not_delivered(
    sandbox: Sandbox, gateways: Gateways
) -> None:
    sandbox.change_faults({"throttleRate": 1})
    gateway = gateways.gateway("target", "smtp", sandbox.smtp_url)
    result = await gateway.call(reservation("ada@example.test"))
    assert isinstance(result, Throttled), result
    assert sandbox.received()["requests"] == 1
    assert sandbox.received()["delivered"] == 0


async def test_dropped_mail_was_delivered_and_repeating_it_is_a_duplicate(
    sandbox: Sandbox, gateways: Gateways, log_path: Path
) -> None:
    gateway = gateways.gateway("target", "smtp", sandbox.smtp_url)
    sandbox.faults.drop_rate = 1.0
    result = await gateway.call(reservation("ada@example.test"))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "connection_lost")
    sandbox.faults.drop_rate = 0.0
    assert isinstance(await gateway.call(reservation("ada@example.test")), Accepted)
    assert references_delivered(log_path) == {REFERENCE: 2}
    assert sandbox.received()["duplicates"] == 1
