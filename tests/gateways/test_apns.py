"""Apple's push service: what it is asked for, what its answers mean, and how far a call got when
something happens to its connection or only to its stream."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest

from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.gateways import access_tokens, http2_connection
from outrider.gateways.access_tokens import AccessTokens
from outrider.gateways.directory import Gateways
from outrider.gateways.families import apns_tokens
from outrider.gateways.families.apns import OURS, REASONS, ApnsGateway
from outrider.gateways.families.vapid_keys import signing_key
from outrider.gateways.http_client import HttpClient
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.gateways.sandbox_http2 import Http2Faults
from outrider.ports.gateway import Gateway
from outrider.ports.target_check import CheckableGateway, CheckFailure, CheckStep
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.broken_server import Behaviour, answering, http, serving
from tests.support.http2_server import (
    ACCEPTED,
    Http2Answer,
    Http2Provider,
    Http2Request,
    deaf_after_one,
)
from tests.support.mail_security import certificate
from tests.support.provider_targets import DEVICE, PLANTED, TARGETS, PlantedSecrets

SECONDS = 10.0
NOTHING: Mapping[str, str] = {}
MANY = 60


def settings(options: Mapping[str, str] = NOTHING, seconds: float | None = None) -> TargetSettings:
    known = TARGETS["apns"]
    return TargetSettings(
        options={**known.options, **options}, credentials=dict(known.credentials),
        timeout_seconds=seconds,
    )  # fmt: skip


@asynccontextmanager
async def gateway_at(
    url: str, options: Mapping[str, str] = NOTHING, seconds: float | None = None
) -> AsyncIterator[Any]:
    gateways = Gateways(PlantedSecrets(), targets={"t": settings(options, seconds)})
    try:
        async with asyncio.timeout(SECONDS):
            yield gateways.gateway("t", "apns", url)
    finally:
        await gateways.close()


async def called_at(behave: Behaviour, reservation: Any = None, **options: str) -> CallResult:
    async with serving(behave) as port, gateway_at(f"http://127.0.0.1:{port}", options) as apple:
        result: CallResult = await apple.call(reservation or reserve(DEVICE))
    return result


async def heard(reservation: Any = None, **options: str) -> Http2Request:
    provider = Http2Provider(lambda _: ACCEPTED)
    assert await called_at(provider, reservation, **options) == Accepted("the-id")
    (request,) = provider.requests
    return request


def refusing(status: int, reason: str, *headers: tuple[str, str]) -> Http2Provider:
    body = json.dumps({"reason": reason, "timestamp": 1_763_000_000_000}).encode()
    return Http2Provider(lambda _: Http2Answer(status, body, headers))


async def many(gateway: Gateway) -> dict[str, CallResult]:
    references = [f"{number:064x}" for number in range(MANY)]
    calls = (gateway.call(reserve(DEVICE, reference=each)) for each in references)
    return dict(zip(references, await asyncio.gather(*calls), strict=True))


# The request.


async def test_apple_is_called_as_its_api_requires() -> None:
    request = await heard()
    headers = request.headers
    scheme, _, token = headers.pop("authorization").partition(" ")
    assert scheme == "bearer"
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "KEY123", "typ": "JWT"}
    claims = jwt.decode(token, signing_key(PLANTED).public_key(), algorithms=["ES256"])
    assert set(claims) == {"iss", "iat"}
    assert claims["iss"] == "TEAM45"
    del headers[":authority"], headers["content-length"]
    assert headers == {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/3/device/{DEVICE}",
        "user-agent": "outrider",
        "apns-id": str(uuid.uuid5(uuid.NAMESPACE_URL, REFERENCE)),
        "apns-collapse-id": REFERENCE,
        "apns-topic": "test.example.shop",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "x-outrider-reference": REFERENCE,
    }
    alert = {"title": "Offer", "body": "Hello"}
    assert json.loads(request.body) == {"aps": {"alert": alert, "sound": "default"}}


async def test_a_message_has_its_own_options_over_its_targets() -> None:
    payload = {
        "to": DEVICE, "subject": "Offer", "body": "Hello", "data": {"order": 42}, "ttlSeconds": 0,
        "apns": {
            "headers": {"apns-priority": "1", "apns-collapse-id": "order-42"},
            "payload": {"aps": {"badge": 3, "alert": {"subtitle": "New"}}},
        },
    }  # fmt: skip
    request = await heard(reserve("", payload=payload), priority="5", ttlSeconds="60")
    assert request.headers["apns-priority"] == "1"
    assert request.headers["apns-collapse-id"] == "order-42"
    assert request.headers["apns-expiration"] == "0"
    assert json.loads(request.body) == {
        "order": 42,
        "aps": {
            "alert": {"title": "Offer", "body": "Hello", "subtitle": "New"},
            "sound": "default",
            "badge": 3,
        },
    }


async def test_a_background_notification_shows_nothing() -> None:
    request = await heard(pushType="background", ttlSeconds="3600")
    assert request.headers["apns-push-type"] == "background"
    assert request.headers["apns-priority"] == "5"
    assert int(request.headers["apns-expiration"]) > 1_763_000_000
    assert json.loads(request.body) == {"aps": {"content-available": 1}}


@pytest.mark.parametrize(
    "own",
    [{"apns": {"headers": {"authorization": "x"}}}, {"apns": {"headers": {"apns-id": "x"}}},
     {"apns": {"headers": {"apns-topic": "a\r\nb"}}}, {"apns": {"headers": {"apns-priority": 5}}},
     {"apns": {"headers": {"apns-collapse-id": "x" * 65}}}, {"apns": {"payload": []}},
     {"ttlSeconds": -1}, {"data": {"text": "x" * 4_097}}],
)  # fmt: skip
async def test_what_apple_would_refuse_is_refused_before_any_traffic(own: dict[str, Any]) -> None:
    provider = Http2Provider(lambda _: ACCEPTED)
    payload = {"to": DEVICE, "body": "Hello", **own}
    result = await called_at(provider, reserve("", payload=payload))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_message"
    assert provider.requests == []


@pytest.mark.parametrize(
    "options",
    [{"pushType": "loud"}, {"priority": "7"}, {"pushType": "background", "priority": "10"},
     {"ttlSeconds": "x"}, {"topic": " "}, {"caFile": "/nowhere.pem"}],
)  # fmt: skip
def test_options_of_apns_are_checked_at_once(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Gateways(PlantedSecrets(), targets={"t": settings(options)}).gateway(
            "t", "apns", "https://a"
        )


# The answers.


@pytest.mark.parametrize("reason", REASONS)
async def test_a_reason_about_the_message_rejects_it(reason: str) -> None:
    status = 410 if REASONS[reason] == "unregistered_token" else 400
    result = await called_at(refusing(status, reason))
    assert result == Rejected(REASONS[reason], reason)


@pytest.mark.parametrize("reason", OURS)
async def test_a_reason_about_us_holds_the_target(reason: str) -> None:
    status = 403 if OURS[reason] == "unauthorized" else 400
    assert await called_at(refusing(status, reason)) == Held(OURS[reason], reason)


async def test_too_many_to_one_device_are_no_reason_to_stop_sending_to_others() -> None:
    wait = ("retry-after", "7")
    result = await called_at(refusing(429, "TooManyRequests", wait))
    assert result == Throttled("TooManyRequests", 7.0, Closes.THE_ITEM)
    result = await called_at(refusing(429, "TooManyProviderTokenUpdates", wait))
    assert result == Throttled("TooManyProviderTokenUpdates", 7.0, Closes.THE_DOOR)
    for reason in ("ServiceUnavailable", "Shutdown"):
        assert await called_at(refusing(503, reason)) == Throttled(reason)


async def test_an_answer_that_proves_nothing_leaves_the_call_in_doubt() -> None:
    for provider, code in (
        (refusing(500, "InternalServerError"), "http_500"),
        (Http2Provider(lambda _: Http2Answer(502, b"<html>")), "http_502"),
        (Http2Provider(lambda _: Http2Answer(404, b"<html>")), "http_404"),
        (Http2Provider(lambda _: Http2Answer(200)), "invalid_answer"),
        (Http2Provider(lambda _: b"HTTP/1.1 200 OK\r\n\r\n"), "connection_lost"),
        (Http2Provider(lambda _: None), "connection_lost"),
    ):
        result = await called_at(provider)
        assert isinstance(result, AttemptError), result
        assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, code)


async def test_an_answer_that_is_too_long_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "HTTP_ANSWER_MAX_BYTES", 1_000)
    long = Http2Answer(200, b"x" * 2_000, ACCEPTED.headers)
    result = await called_at(Http2Provider(lambda _: long))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "invalid_answer")


async def test_the_simulator_echoes_our_id() -> None:
    async with Sandbox() as sandbox, gateway_at(sandbox.http2.url) as apple:
        result = await apple.call(reserve(DEVICE))
    assert result == Accepted(str(uuid.uuid5(uuid.NAMESPACE_URL, REFERENCE)))


# The token.


async def test_a_token_is_renewed_between_20_and_60_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_763_000_000.0
    monkeypatch.setattr(apns_tokens, "time", SimpleNamespace(time=lambda: now))
    provider = Http2Provider(lambda _: ACCEPTED)
    client = HttpClient()
    access_tokens._of_clients[client] = AccessTokens(seconds=lambda: now)
    gateways = Gateways(PlantedSecrets(), client, targets={"t": settings(), "u": settings()})
    async with serving(provider) as port:
        for minute in range(0, 120, 5):
            now = 1_763_000_000.0 + minute * 60
            for name in ("t", "u"):
                gateway = gateways.gateway(name, "apns", f"http://127.0.0.1:{port}")
                assert isinstance(await gateway.call(reserve(DEVICE)), Accepted)
        await gateways.close()
    tokens = list(dict.fromkeys(each.headers["authorization"] for each in provider.requests))
    issued = [
        jwt.decode(each.split()[1], options={"verify_signature": False})["iat"] for each in tokens
    ]
    ages = [after - before for before, after in pairwise(issued)]
    assert ages
    assert all(20 * 60 <= age < 60 * 60 for age in ages)


async def test_only_a_token_older_than_20_minutes_is_replaced_when_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_763_000_000.0
    monkeypatch.setattr(apns_tokens, "time", SimpleNamespace(time=lambda: now))
    provider = refusing(403, "ExpiredProviderToken")
    async with serving(provider) as port, gateway_at(f"http://127.0.0.1:{port}") as apple:
        assert isinstance(await apple.call(reserve(DEVICE)), Held)
        assert len(provider.requests) == 1
        now += 21 * 60
        assert isinstance(await apple.call(reserve(DEVICE)), Held)
        assert len(provider.requests) == 3
    assert len({each.headers["authorization"] for each in provider.requests}) == 2


async def test_a_key_that_is_none_is_said_at_once_and_never_quoted() -> None:
    class Wrong:
        def resolve(self, references: Any, workspace: Any) -> dict[str, str]:  # noqa: ARG002
            return dict.fromkeys(references, "not-a-key")

    with pytest.raises(InvalidInput, match="'privateKey' is not a P-256 key") as refused:
        Gateways(Wrong(), targets={"t": settings()}).gateway("t", "apns", "https://a")
    assert "not-a-key" not in str(refused.value)


# Connections and streams.


async def test_many_calls_share_one_connection_within_what_the_server_allows() -> None:
    faults = Faults(http2=Http2Faults(streams_max=3))
    async with Sandbox(faults) as sandbox, gateway_at(sandbox.http2.url) as apple:
        results = await many(apple)
        assert sandbox.http2.connections == 1
        assert sandbox.deliveries == dict.fromkeys(results, 1)
    assert all(isinstance(each, Accepted) for each in results.values())


async def test_a_call_that_was_not_processed_is_made_once_more_by_itself() -> None:
    faults = Faults(seed=1, http2=Http2Faults(refuse_rate=0.5))
    async with Sandbox(faults) as sandbox, gateway_at(sandbox.http2.url) as apple:
        results = await many(apple)
        accepted = [each for each, result in results.items() if isinstance(result, Accepted)]
        assert sandbox.deliveries == dict.fromkeys(accepted, 1)
    # Three quarters of all, where one try alone would reach a half.
    assert len(accepted) > MANY * 0.6


@pytest.mark.parametrize("fault", [Http2Faults(goaway_rate=1.0), Http2Faults(refuse_rate=1.0)])
async def test_what_the_server_says_it_did_not_process_was_not_sent(fault: Http2Faults) -> None:
    async with (
        Sandbox(Faults(http2=fault)) as sandbox,
        gateway_at(sandbox.http2.url) as apple,
    ):
        result = await apple.call(reserve(DEVICE))
        assert isinstance(result, AttemptError)
        assert (result.progress, result.code) == (Progress.NOT_SENT, "stream_refused")
        assert not sandbox.requests
        sandbox.faults.http2 = Http2Faults()
        assert isinstance(await apple.call(reserve(DEVICE)), Accepted)
        assert sandbox.deliveries == {REFERENCE: 1}


async def test_a_stream_that_is_reset_after_it_was_taken_is_in_doubt_alone() -> None:
    faults = Faults(http2=Http2Faults(reset_rate=1.0))
    async with Sandbox(faults) as sandbox, gateway_at(sandbox.http2.url) as apple:
        result = await apple.call(reserve(DEVICE))
        assert isinstance(result, AttemptError)
        assert result.progress is Progress.SENT_NO_ANSWER
        assert sandbox.deliveries == {REFERENCE: 1}
        sandbox.faults.http2 = Http2Faults()
        assert isinstance(await apple.call(reserve(DEVICE)), Accepted)
        assert sandbox.http2.connections == 1


class _Waiting(Sandbox):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.asked.set()
        await self.may_answer.wait()


async def test_a_goaway_does_not_end_the_calls_before_it() -> None:
    async with _Waiting() as sandbox, gateway_at(sandbox.http2.url) as apple:
        early = asyncio.ensure_future(apple.call(reserve(DEVICE, reference="early")))
        await sandbox.asked.wait()
        sandbox.faults.http2 = Http2Faults(goaway_rate=1.0)
        late = await apple.call(reserve(DEVICE, reference="late"))
        assert not early.done()
        assert isinstance(late, AttemptError)
        assert late.progress is Progress.NOT_SENT
        sandbox.may_answer.set()
        assert isinstance(await early, Accepted)
        assert sandbox.deliveries == {"early": 1}


async def test_whatever_happens_a_result_agrees_with_what_the_provider_received() -> None:
    http2 = Http2Faults(streams_max=20, goaway_rate=0.1, refuse_rate=0.1, reset_rate=0.1)
    faults = Faults(drop_rate=0.05, seed=7, http2=http2)
    async with Sandbox(faults) as sandbox, gateway_at(sandbox.http2.url) as apple:
        results = await many(apple)
        delivered = sandbox.deliveries
    kinds = set()
    for reference, result in results.items():
        match result:
            case Accepted():
                assert delivered[reference] == 1
            case AttemptError(Progress.NOT_SENT):
                assert delivered[reference] == 0
            case AttemptError(Progress.SENT_NO_ANSWER):
                assert delivered[reference] <= 1
            case _:
                raise AssertionError(result)
        kinds.add(getattr(result, "progress", None))
    assert {None, Progress.SENT_NO_ANSWER} <= kinds


async def test_a_slow_answer_is_not_waited_for_longer_than_the_target_allows() -> None:
    slow = Faults(latency_ms=400)
    async with Sandbox(slow) as sandbox, gateway_at(sandbox.http2.url, seconds=0.2) as apple:
        result = await apple.call(reserve(DEVICE))
        assert isinstance(result, AttemptError)
        assert (result.progress, result.code) == (Progress.SENT_NO_ANSWER, "timeout")
        sandbox.faults.latency_ms = 0
        assert isinstance(await apple.call(reserve(DEVICE)), Accepted)
        assert sandbox.http2.connections == 1


async def test_a_connection_that_died_quietly_is_replaced_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http2_connection, "HTTP2_FRESH_SECONDS", 0.05)
    monkeypatch.setattr(http2_connection, "HTTP2_PING_SECONDS", 0.1)
    async with serving(deaf_after_one) as port, gateway_at(f"http://127.0.0.1:{port}") as apple:
        assert isinstance(await apple.call(reserve(DEVICE)), Accepted)
        await asyncio.sleep(0.06)
        assert isinstance(await apple.call(reserve(DEVICE)), Accepted)


async def test_a_server_that_does_not_speak_http2_gets_nothing(tmp_path: Path) -> None:
    result = await called_at(answering(http(400, b"what?")))
    assert isinstance(result, AttemptError)
    assert (result.progress, result.code) == (Progress.NOT_SENT, "connect_failed")
    trusted = certificate(tmp_path)
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0,
                                        ssl=trusted.context)  # fmt: skip
    port = server.sockets[0].getsockname()[1]
    async with gateway_at(f"https://127.0.0.1:{port}", {"caFile": str(trusted.file)}) as apple:
        result = await apple.call(reserve(DEVICE))
    server.close()
    assert isinstance(result, AttemptError)
    assert result.progress is Progress.NOT_SENT
    assert "does not speak HTTP/2" in result.detail


async def test_a_certificate_that_is_not_trusted_holds_the_target() -> None:
    async with Sandbox() as sandbox, gateway_at(sandbox.http2.url, {"caFile": ""}) as apple:
        result = await apple.call(reserve(DEVICE))
        assert isinstance(result, Held)
        assert result.reason == "tls_failure"
        assert not sandbox.requests


# The check.


@pytest.mark.parametrize(
    ("status", "reason", "step", "says"),
    [(403, "InvalidProviderToken", CheckStep.CREDENTIAL, "'privateKey'"),
     (400, "TopicDisallowed", CheckStep.REQUEST, "'topic'")],
)  # fmt: skip
async def test_a_check_says_what_is_wrong_with_the_target(
    status: int, reason: str, step: CheckStep, says: str
) -> None:
    provider = refusing(status, reason)
    async with serving(provider) as port, gateway_at(f"http://127.0.0.1:{port}") as apple:
        assert isinstance(apple, ApnsGateway)
        assert isinstance(apple, CheckableGateway)
        finding = await apple.check(2.0)
    assert isinstance(finding, CheckFailure)
    assert finding.step is step
    assert reason in finding.message
    assert says in f"{finding.message} {finding.hint}"
    (request,) = provider.requests
    assert request.headers[":path"] == f"/3/device/{'0' * 64}"
