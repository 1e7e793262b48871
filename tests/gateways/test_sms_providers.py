"""What SMS providers are asked for, to the letter, what their answers mean, and their records."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    Accepted,
    CallResult,
    Closes,
    Held,
    Rejected,
    Throttled,
)
from outrider.domain.evidence import Finding, LookedUp
from outrider.domain.ids import IdempotencyKey
from outrider.gateways.directory import Gateways
from outrider.gateways.sandbox import Sandbox
from outrider.ports.gateway import Gateway, LookUpQuestion
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.broken_server import Reader, Writer, answering, http, read_request, serving
from tests.support.look_up_witness import LookUpWitness, Reply
from tests.support.provider_targets import PLANTED, TARGETS, PlantedSecrets
from tests.support.receipt_targets import PUBLIC_URL, NamedSecrets, target_settings

PHONE = "+447700900123"
BARE = "447700900123"
BASIC = base64.b64encode(f"AC123:{PLANTED}".encode()).decode()
KEY_AND_SECRET = base64.b64encode(f"{PLANTED}:{PLANTED}".encode()).decode()


@asynccontextmanager
async def gateway_at(name: str, url: str, **changes: Any) -> AsyncIterator[Gateway]:
    settings = TARGETS[name].model_copy(update=changes)
    gateways = Gateways(PlantedSecrets(), targets={"t": settings})
    yield gateways.gateway("t", name, url)
    await gateways.close()


async def heard(gateway_of: Any) -> tuple[str, dict[str, str], Any]:
    """The request line, headers and document of one call."""
    requests: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(http(200, b"{}", "Connection: close"))

    async with serving(remember) as port:
        await gateway_of(f"http://127.0.0.1:{port}")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    return line, headers, json.loads(body)


REQUESTS = [
    ("telnyx", "/v2/messages", f"Bearer {PLANTED}",
     {"to": PHONE, "text": "Hello", "from": "+15550001111"}),
    ("vonage", "/v1/messages", f"Basic {KEY_AND_SECRET}",
     {"message_type": "text", "channel": "sms", "to": BARE, "from": "15550001111",
      "text": "Hello", "client_ref": REFERENCE}),
    ("sinch", "/xms/v1/plan/batches", f"Bearer {PLANTED}",
     {"to": [BARE], "body": "Hello", "client_reference": REFERENCE, "from": "+15550001111"}),
    ("infobip", "/sms/3/messages", f"App {PLANTED}",
     {"messages": [{"sender": "+15550001111", "content": {"text": "Hello"},
                    "destinations": [{"to": BARE, "messageId": REFERENCE}],
                    "webhooks": {"callbackData": REFERENCE}}]}),
    ("plivo", "/v1/Account/AC123/Message/", f"Basic {BASIC}",
     {"dst": BARE, "text": "Hello", "src": "15550001111"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "authorization", "document"), REQUESTS)
async def test_a_provider_is_called_as_its_api_requires(
    name: str, path: str, authorization: str, document: Any
) -> None:
    async def call(url: str) -> None:
        async with gateway_at(name, url) as gateway:
            await gateway.call(reserve(PHONE))

    line, headers, found = await heard(call)
    assert line == f"POST {path} HTTP/1.1"
    assert headers["authorization"] == authorization
    assert found == document
    if name == "telnyx":
        assert headers["idempotency-key"] == REFERENCE


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("telnyx", "webhook_url", f"{PUBLIC_URL}/receipts/t?reference={REFERENCE}"),
        ("plivo", "url", f"{PUBLIC_URL}/receipts/t?reference={REFERENCE}"),
        ("sinch", "callback_url", f"{PUBLIC_URL}/receipts/t"),
    ],
)
async def test_a_message_says_where_it_is_reported(name: str, field: str, value: str) -> None:
    async def call(url: str) -> None:
        targets = {"t": target_settings(name)}
        gateways = Gateways(NamedSecrets(), targets=targets, public_url=PUBLIC_URL)
        await gateways.gateway("t", name, url).call(reserve(PHONE))
        await gateways.close()

    _, _, document = await heard(call)
    assert document[field] == value


@pytest.mark.parametrize("name", ["telnyx", "resend"])
async def test_the_same_message_is_the_same_request_to_the_byte_wherever_it_is_made(
    name: str,
) -> None:
    """Another process repeats it, years of dict and clock changes later."""
    bodies: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        bodies.append((await read_request(reader)).partition(b"\r\n\r\n")[2])
        writer.write(http(200, b"{}", "Connection: close"))

    to = "ada@example.test" if name == "resend" else PHONE
    async with serving(remember) as port:
        for _ in range(2):
            targets = {"t": target_settings(name)}
            gateways = Gateways(NamedSecrets(), targets=targets, public_url=PUBLIC_URL)
            await gateways.gateway("t", name, f"http://127.0.0.1:{port}").call(reserve(to))
            await gateways.close()
    first, second = bodies
    assert first == second
    assert first


async def test_telnyx_refuses_another_request_under_a_known_key_without_a_code_of_its_own() -> None:
    known = {"code": "10015", "title": "Bad Request", "detail": "Idempotency-Key was used before"}
    result = await answered("telnyx", 422, {"errors": [known]})
    assert isinstance(result, Rejected)
    assert result.reason == DUPLICATE_REFERENCE


async def test_telnyx_gets_a_key_in_its_own_alphabet() -> None:
    async def call(url: str) -> None:
        async with gateway_at("telnyx", url) as gateway:
            await gateway.call(reserve(PHONE, reference="order 1/2"))

    _, headers, _ = await heard(call)
    assert len(headers["idempotency-key"]) == 64


def telnyx(code: str) -> Any:
    return {"errors": [{"code": code, "title": "why", "detail": "because"}]}


def vonage(code: int) -> Any:
    return {"type": f"https://developer.vonage.com/api-errors/messages#{code}", "title": "why"}


def infobip(name: str, group: str = "REJECTED") -> Any:
    status = {"groupName": group, "name": name, "description": "why"}
    return {"messages": [{"messageId": "m-1", "status": status}]}


async def answered(name: str, status: int, document: Any) -> CallResult:
    async with (
        serving(answering(http(status, json.dumps(document).encode()))) as port,
        gateway_at(name, f"http://127.0.0.1:{port}") as gateway,
    ):
        return await gateway.call(reserve(PHONE))


@pytest.mark.parametrize(
    ("name", "status", "document", "message_id"),
    [
        ("telnyx", 200, {"data": {"id": "m-1"}}, "m-1"),
        ("vonage", 202, {"message_uuid": "m-1"}, "m-1"),
        ("sinch", 201, {"id": "m-1"}, "m-1"),
        ("infobip", 200, infobip("PENDING_ACCEPTED", "PENDING"), "m-1"),
        ("plivo", 202, {"message_uuid": ["m-1"]}, "m-1"),
    ],
)
async def test_a_yes_carries_the_providers_message_id(
    name: str, status: int, document: Any, message_id: str
) -> None:
    assert await answered(name, status, document) == Accepted(message_id)


@pytest.mark.parametrize(
    ("name", "status", "document", "reason"),
    [
        ("telnyx", 400, telnyx("40310"), "invalid_recipient"),
        ("telnyx", 400, telnyx("40300"), "suppressed"),
        ("telnyx", 400, telnyx("40302"), "invalid_message"),
        ("vonage", 422, vonage(1170), "invalid_recipient"),
        ("vonage", 422, vonage(1050), "suppressed"),
        ("vonage", 422, vonage(1150), "invalid_request"),
        ("sinch", 400, {"code": "syntax_invalid_json", "text": "why"}, "invalid_request"),
        ("sinch", 403, {"code": "missing_parameter", "text": "why"}, "invalid_request"),
        ("infobip", 200, infobip("REJECTED_DESTINATION"), "invalid_recipient"),
        ("infobip", 200, infobip("REJECTED_DND"), "suppressed"),
        ("infobip", 200, infobip("REJECTED_NEW"), "invalid_request"),
        ("infobip", 400, {"errorCode": "E400", "description": "why"}, "invalid_request"),
        ("plivo", 400, {"error": "dst is wrong"}, "invalid_request"),
    ],
)
async def test_a_no_is_a_reason_of_the_taxonomy(
    name: str, status: int, document: Any, reason: str
) -> None:
    result = await answered(name, status, document)
    assert isinstance(result, Rejected), result
    assert (result.reason, bool(result.detail)) == (reason, True)


@pytest.mark.parametrize(
    ("name", "status", "document", "reason"),
    [
        ("telnyx", 401, telnyx("10009"), "unauthorized"),
        ("telnyx", 400, telnyx("40305"), "sender_refused"),
        ("vonage", 402, vonage(1070), "unauthorized"),
        ("sinch", 401, {}, "unauthorized"),
        ("infobip", 200, infobip("REJECTED_NOT_ENOUGH_CREDITS"), "account_refused"),
        ("plivo", 401, {"error": "authentication failed"}, "unauthorized"),
    ],
)
async def test_a_refusal_of_us_holds_the_target(
    name: str, status: int, document: Any, reason: str
) -> None:
    result = await answered(name, status, document)
    assert isinstance(result, Held), result
    assert (result.reason, result.closes) == (reason, Closes.THE_DOOR)


@pytest.mark.parametrize(
    ("name", "document"), [("vonage", vonage(1120)), ("infobip", infobip("REJECTED_SENDER"))]
)
async def test_a_sender_that_one_country_refuses_makes_only_its_messages_wait(
    name: str, document: Any
) -> None:
    result = await answered(name, 200 if name == "infobip" else 422, document)
    assert isinstance(result, Throttled), result
    assert (result.reason, result.closes) == ("sender_refused", Closes.THE_ITEM)


# Their records. Slack's and Bluesky's are asked in the same way.

LISTING = ["sinch", "infobip", "plivo", "slack", "bluesky"]


def question(reference: str, to: str) -> LookUpQuestion:
    now = datetime.now(UTC)
    span = timedelta(minutes=5)
    return LookUpQuestion(IdempotencyKey(reference), now - span, now + span, now, to, None, "Hello")


@pytest.mark.parametrize("name", LISTING)
async def test_what_a_provider_has_is_found_and_nothing_else(name: str) -> None:
    to = "" if name in ("slack", "bluesky") else PHONE
    async with Sandbox() as sandbox, gateway_at(name, sandbox.http_url) as gateway:
        for number in range(20):
            other = reserve(to and f"+4477009001{number:02d}", reference=f"{number:064x}")
            assert isinstance(await gateway.call(other), Accepted)
        assert (await gateway.look_up([question("b" * 64, to)]))[
            IdempotencyKey("b" * 64)
        ].finding is Finding.ABSENT
        result = await gateway.call(reserve(to))
        assert isinstance(result, Accepted)
        found = (await gateway.look_up([question(REFERENCE, to)]))[IdempotencyKey(REFERENCE)]
        assert found.finding is Finding.FOUND
        assert found.provider_message_ids == (result.provider_message_id,)


NO_ANSWERS = [
    Reply(200, b"{}"),
    Reply(200, b"<html>Sign in</html>", "text/html"),
    Reply(200, b"null"),
    Reply(500, b'{"error":"InternalServerError"}'),
    Reply(404, b'{"error":"not_found"}'),
    Reply(200, b'{"ok":false,"error":"missing_scope","messages":[]}'),
    Reply(429, b"{}", headers={"Retry-After": "7"}),
]


async def said_of(name: str, reply: Reply) -> LookedUp:
    to = "" if name in ("slack", "bluesky") else PHONE
    async with LookUpWitness() as witness, gateway_at(name, witness.url) as gateway:
        witness.always = reply
        said = await gateway.look_up([question(REFERENCE, to)])
        assert witness.asked
    return said[IdempotencyKey(REFERENCE)]


@pytest.mark.parametrize("name", LISTING)
@pytest.mark.parametrize("reply", NO_ANSWERS, ids=lambda each: f"{each.status}-{each.body[:20]!r}")
async def test_an_answer_that_is_none_proves_nothing(name: str, reply: Reply) -> None:
    """Taken for an empty list, it would send everybody a second message."""
    said = await said_of(name, reply)
    assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)
    assert PLANTED not in said.detail


async def test_a_list_that_ignores_our_reference_proves_nothing() -> None:
    page = {"count": 40, "batches": [{"id": "x", "client_reference": "another"}]}
    said = await said_of("sinch", Reply(200, json.dumps(page).encode()))
    assert (said.finding, said.is_silence) == (Finding.UNKNOWN, True)
    assert "other references" in said.detail


async def test_a_list_about_another_number_proves_nothing() -> None:
    sent = {
        "message_uuid": "m", "message_time": datetime.now(UTC).isoformat(),
        "to_number": "447700900999", "from_number": "15550001111",
    }  # fmt: skip
    page = {"objects": [sent], "meta": {"next": None}}
    said = await said_of("plivo", Reply(200, json.dumps(page).encode()))
    assert "another number" in said.detail


async def test_a_message_that_infobip_has_and_rejected_is_left_to_a_person() -> None:
    status = {"groupName": "REJECTED", "name": "REJECTED_NETWORK"}
    logs = {"results": [{"messageId": REFERENCE, "status": status}]}
    said = await said_of("infobip", Reply(200, json.dumps(logs).encode()))
    assert (said.finding, said.is_silence) == (Finding.UNKNOWN, False)


async def test_a_plivo_message_of_another_sender_is_unclear() -> None:
    sent = {
        "message_uuid": "m", "message_time": datetime.now(UTC).isoformat(sep=" "),
        "to_number": BARE, "from_number": "15550009999",
    }  # fmt: skip
    page = {"objects": [sent], "meta": {"next": None}}
    said = await said_of("plivo", Reply(200, json.dumps(page).encode()))
    assert (said.finding, said.unclear_ids) == (Finding.ABSENT, ("m",))
