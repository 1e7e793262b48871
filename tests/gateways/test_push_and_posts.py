"""Browsers, Expo, Slack, Telegram and Bluesky: what they are asked for, and what they answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from outrider.gateways.directory import Gateways
from outrider.gateways.families.bluesky import record_key
from outrider.gateways.families.push_options import topic
from outrider.gateways.families.vapid_keys import public_text, signing_key
from outrider.gateways.sandbox import Sandbox
from outrider.gateways.simulators.web_push import decrypted, subscription
from outrider.ports.gateway import Gateway
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.broken_server import Reader, Writer, http, read_request, serving
from tests.support.provider_targets import PLANTED, TARGETS, PlantedSecrets

BROWSER = subscription("/web-push/1")
TOKEN = "ExponentPushToken[token-1]"


class Recorder:
    """Answers everything with one answer, or by the start of its path, and remembers."""

    def __init__(self, answer: bytes, **by_path: bytes) -> None:
        self.answer, self.by_path = answer, by_path
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(self, reader: Reader, writer: Writer) -> None:
        while True:
            try:
                raw = await read_request(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            head, _, body = raw.partition(b"\r\n\r\n")
            line, *lines = head.decode().split("\r\n")
            pairs = (each.partition(": ") for each in lines)
            self.requests.append((line, {name.lower(): value for name, _, value in pairs}, body))
            special = [each for name, each in self.by_path.items() if name in line]
            writer.write(special[0] if special else self.answer)


@asynccontextmanager
async def gateway_of(name: str, recorder: Recorder, **options: str) -> AsyncIterator[Gateway]:
    known = TARGETS[name]
    settings = TargetSettings(
        options={**known.options, **options}, credentials=dict(known.credentials)
    )
    async with serving(recorder.serve) as port:
        gateways = Gateways(PlantedSecrets(), targets={"t": settings})
        yield gateways.gateway("t", name, f"http://127.0.0.1:{port}")
        await gateways.close()


async def called(
    name: str, answer: bytes, reservation: Any = None, **options: str
) -> tuple[CallResult, Recorder]:
    recorder = Recorder(answer)
    addresses = {"web_push": BROWSER, "expo": TOKEN}
    async with gateway_of(name, recorder, **options) as gateway:
        result = await gateway.call(reservation or reserve(addresses.get(name, "")))
    return result, recorder


def said(status: int, document: Any, *headers: str) -> bytes:
    return http(status, json.dumps(document).encode(), *headers)


# Browsers.


async def test_a_browser_gets_what_only_it_can_read_signed_by_the_targets_key() -> None:
    result, recorder = await called("web_push", http(201, b"", "Location: /m/1"))
    assert result == Accepted("/m/1")
    ((line, headers, body),) = recorder.requests
    assert line == "POST /web-push/1 HTTP/1.1"
    assert (headers["content-encoding"], headers["ttl"]) == ("aes128gcm", "86400")
    assert (headers["topic"], headers["urgency"]) == (topic(REFERENCE), "normal")
    assert json.loads(decrypted(body) or b"") == {
        "web_push": 8030,
        "notification": {"title": "Offer", "body": "Hello", "tag": REFERENCE},
    }
    token, _, key = headers["authorization"].removeprefix("vapid t=").partition(", k=")
    private = signing_key(PLANTED)
    assert key == public_text(private)
    audience = f"http://{headers['host']}"
    claims = jwt.decode(token, private.public_key(), algorithms=["ES256"], audience=audience)
    assert claims["sub"] == "mailto:ops@example.test"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "unregistered_token"), (410, "unregistered_token"), (413, "invalid_message"),
     (400, "invalid_request")],
)  # fmt: skip
async def test_a_push_service_answers_by_status(status: int, reason: str) -> None:
    result, _ = await called("web_push", http(status, b"push subscription has expired"))
    assert isinstance(result, Rejected)
    assert result.reason == reason


@pytest.mark.parametrize(
    "endpoint",
    ["https://push.example.com/1", "http://fcm.googleapis.com/1", "https://127.0.0.1/1",
     "https://fcm.googleapis.com.evil.example/1", "file:///etc/passwd", "//evil.example/1"],
)  # fmt: skip
async def test_only_allowed_push_services_are_called(endpoint: str) -> None:
    """Endpoints come from browsers, so they could name any host."""
    result, recorder = await called("web_push", http(201, b""), reserve(subscription(endpoint)))
    assert isinstance(result, Rejected), result
    assert result.reason == "invalid_recipient"
    assert recorder.requests == []


async def test_a_subscription_whose_key_is_no_point_is_rejected() -> None:
    keys = '{"p256dh":"B' + "A" * 86 + '","auth":"' + "A" * 22 + '"}'
    broken = f'{{"endpoint":"/1","keys":{keys}}}'
    result, _ = await called("web_push", http(201, b""), reserve(broken))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_recipient"


@pytest.mark.parametrize("options", [{"urgency": "now"}, {"subject": "me"}, {"ttlSeconds": "x"}])
def test_options_of_web_push_are_checked_at_once(options: dict[str, str]) -> None:
    known = TARGETS["web_push"]
    settings = TargetSettings(
        options={**known.options, **options}, credentials=dict(known.credentials)
    )
    with pytest.raises(InvalidInput):
        Gateways(PlantedSecrets(), targets={"t": settings}).gateway("t", "web_push", "http://a")


# Expo.


async def test_expo_is_called_as_its_api_requires() -> None:
    payload = {
        "to": TOKEN, "subject": "Offer", "body": "Hello", "data": {"order": 42}, "ttlSeconds": 60,
        "expo": {"badge": 3},
    }  # fmt: skip
    ok = said(200, {"data": {"status": "ok", "id": "ticket"}})
    result, recorder = await called("expo", ok, reserve("", payload=payload), channelId="news")
    assert result == Accepted("ticket")
    ((line, headers, body),) = recorder.requests
    assert line == "POST /--/api/v2/push/send HTTP/1.1"
    assert headers["authorization"] == f"Bearer {PLANTED}"
    assert json.loads(body) == {
        "to": TOKEN, "title": "Offer", "body": "Hello", "data": {"order": 42}, "ttl": 60,
        "badge": 3, "channelId": "news",
    }  # fmt: skip


def ticket(error: str) -> bytes:
    details = {"error": error}
    return said(200, {"data": {"status": "error", "message": "why", "details": details}})


async def test_expos_tickets_say_why() -> None:
    result, _ = await called("expo", ticket("DeviceNotRegistered"))
    assert isinstance(result, Rejected)
    assert result.reason == "unregistered_token"
    result, _ = await called("expo", ticket("InvalidCredentials"))
    assert isinstance(result, Throttled)
    assert (result.reason, result.closes) == ("unauthorized", Closes.THE_ITEM)
    result, _ = await called("expo", ticket("SomethingNew"))
    assert isinstance(result, Rejected)
    assert result.reason == "invalid_request"


# Slack and Telegram.


async def test_slack_is_called_as_its_api_requires() -> None:
    result, recorder = await called("slack", said(200, {"ok": True, "ts": "1.2"}))
    assert result == Accepted("1.2")
    ((line, headers, body),) = recorder.requests
    assert line == "POST /api/chat.postMessage HTTP/1.1"
    assert headers["authorization"] == f"Bearer {PLANTED}"
    assert json.loads(body) == {
        "channel": "C123",
        "text": "*Offer*\nHello",
        "metadata": {
            "event_type": "outrider_message",
            "event_payload": {"reference": REFERENCE},
        },
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [("msg_too_long", Rejected), ("invalid_auth", Held), ("channel_not_found", Held),
     ("ratelimited", Throttled), ("fatal_error", AttemptError), ("brand_new", Rejected)],
)  # fmt: skip
async def test_slack_refuses_with_status_200(error: str, kind: type) -> None:
    result, _ = await called("slack", said(200, {"ok": False, "error": error}))
    assert isinstance(result, kind), result
    if isinstance(result, AttemptError):
        assert result.progress is Progress.SENT_NO_ANSWER


@pytest.mark.parametrize(
    ("name", "answer"),
    [("slack", said(200, {"ok": False, "error": "channel_not_found"})),
     ("telegram", said(400, {"ok": False, "description": "Bad Request: chat not found"}))],
)  # fmt: skip
async def test_a_conversation_that_is_refused_is_the_targets_or_the_messages_own_fault(
    name: str, answer: bytes
) -> None:
    everybodys, _ = await called(name, answer)
    assert isinstance(everybodys, Held)
    assert everybodys.reason == "conversation_refused"
    direct = reserve("", payload={"to": "other", "body": "Hi"})
    own, recorder = await called(name, answer, direct)
    assert isinstance(own, Rejected)
    assert own.reason == "invalid_recipient"
    assert b'"other"' in recorder.requests[0][2]


async def test_telegram_is_called_as_its_api_requires() -> None:
    ok = said(200, {"ok": True, "result": {"message_id": 7}})
    result, recorder = await called("telegram", ok, parseMode="HTML", silent="true")
    assert result == Accepted("7")
    ((line, _, body),) = recorder.requests
    assert line == f"POST /bot{PLANTED}/sendMessage HTTP/1.1"
    assert json.loads(body) == {
        "chat_id": "-100123", "text": "Offer\n\nHello", "parse_mode": "HTML",
        "disable_notification": True,
    }  # fmt: skip


async def test_telegram_says_in_the_body_when_to_return() -> None:
    busy = {"ok": False, "description": "Too Many Requests", "parameters": {"retry_after": 13}}
    result, _ = await called("telegram", said(429, busy))
    assert isinstance(result, Throttled)
    assert result.retry_after_seconds == 13.0


# Bluesky.

SESSION = said(200, {"accessJwt": "session-1"})


async def test_bluesky_writes_one_record_under_a_key_of_the_reference() -> None:
    recorder = Recorder(said(200, {"uri": "at://did/post/1"}), createSession=SESSION)
    text = "Grüße: see https://shop.example/hats, now"
    async with gateway_of("bluesky", recorder, language="en") as gateway:
        calls = [gateway.call(reserve("", subject=None, body=text)) for _ in range(5)]
        results = await asyncio.gather(*calls)
    assert results == [Accepted("at://did/post/1")] * 5
    sessions = [body for line, _, body in recorder.requests if "createSession" in line]
    assert [json.loads(each) for each in sessions] == [
        {"identifier": "news.example.test", "password": PLANTED}
    ]
    line, headers, body = recorder.requests[1]
    assert line == "POST /xrpc/com.atproto.repo.putRecord HTTP/1.1"
    assert headers["authorization"] == "Bearer session-1"
    document = json.loads(body)
    record = document.pop("record")
    assert document == {
        "repo": "news.example.test", "collection": "app.bsky.feed.post",
        "rkey": record_key(REFERENCE),
    }  # fmt: skip
    assert (record["text"], record["langs"]) == (text, ["en"])
    (facet,) = record["facets"]
    place = facet["index"]
    marked = text.encode()[place["byteStart"] : place["byteEnd"]]
    assert marked == b"https://shop.example/hats"
    assert facet["features"][0]["uri"] == "https://shop.example/hats"


def test_a_record_key_is_a_timestamp_identifier() -> None:
    """https://atproto.com/specs/tid: thirteen characters, and the highest bit is zero."""
    keys = {record_key(f"{number:064x}") for number in range(1_000)}
    assert len(keys) == 1_000
    for key in keys:
        assert len(key) == 13
        assert set(key) <= set("234567abcdefghijklmnopqrstuvwxyz")
        assert key[0] in "234567abcdefghij"
    assert record_key(REFERENCE) == record_key(REFERENCE)


async def test_an_expired_session_is_renewed_and_a_refused_one_holds_the_target() -> None:
    expired = said(400, {"error": "ExpiredToken", "message": "Token has expired"})
    recorder = Recorder(expired, createSession=SESSION)
    async with gateway_of("bluesky", recorder) as gateway:
        result = await gateway.call(reserve(""))
    assert isinstance(result, Held)
    assert sum("createSession" in line for line, _, _ in recorder.requests) == 2
    wrong = said(401, {"error": "AuthenticationRequired", "message": f"Invalid {PLANTED}"})
    recorder = Recorder(expired, createSession=wrong)
    async with gateway_of("bluesky", recorder) as gateway:
        result = await gateway.call(reserve(""))
    assert isinstance(result, Held)
    assert PLANTED not in result.detail
    assert len(recorder.requests) == 1
    recorder = Recorder(expired, createSession=said(429, {}, "Retry-After: 5"))
    async with gateway_of("bluesky", recorder) as gateway:
        result = await gateway.call(reserve(""))
    assert isinstance(result, Throttled)
    assert result.retry_after_seconds == 5.0


async def test_the_same_post_is_written_once_however_often_it_is_repeated() -> None:
    async with Sandbox() as sandbox:
        gateways = Gateways(PlantedSecrets(), targets={"t": TARGETS["bluesky"]})
        gateway = gateways.gateway("t", "bluesky", sandbox.http_url)
        results = {await gateway.call(reserve("")) for _ in range(3)}
        await gateways.close()
        assert len(results) == 1
        assert sandbox.deliveries == {REFERENCE: 1}
