"""A direct intent's payload belongs to its client and its gateway: it goes on as it came."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, intent_key
from outrider.domain.keys import KeyScope
from outrider.limits.api import ApiLimits
from outrider.testing.launches import registry, target
from tests.support.api_inside import Inside, serving
from tests.support.whole_runs import opened

PAYLOAD = (
    '{ "zeta": 1E2,\n "to":"+447700900123", "a":1, "b":1.0, "deep":{"y":-0.0,"x":"\\u00e9é"} }'
)


class Listener:
    """A gateway that keeps every body it got, to the byte."""

    def __init__(self) -> None:
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue()
        self.url = ""

    async def take(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        await self.bodies.put(body)
        reference = json.loads(body)["referenceId"]
        return web.json_response({"status": "accepted", "referenceId": reference})

    async def next(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.bodies.get()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    listener = Listener()
    runner = web.ServerRunner(web.Server(listener.take))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    listener.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield listener
    finally:
        await runner.cleanup()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as listener:
        yield listener


@pytest.fixture
async def outrider(database: str, tmp_path: Path, listener: Listener) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, target("sms", "sms", listener.url)) as outrider:
        yield outrider


async def post(inside: Inside, body: str) -> tuple[int, Any]:
    headers = {**inside.headers, "Content-Type": "application/json"}
    async with inside.session.post(f"{inside.url}/intents", data=body, headers=headers) as answer:
        return answer.status, await answer.json()


def intent(intent_id: str, payload: str, submission_target: str = "sms") -> str:
    return (
        f'{{"payload": {payload}, "intentId": "{intent_id}",'
        f' "submissionTarget": "{submission_target}"}}'
    )


async def test_a_payload_reaches_its_gateway_unchanged(
    outrider: Outrider, listener: Listener
) -> None:
    """M9: keys in their order, numbers as they were spelt, only the reference before them."""
    async with serving(outrider, ApiLimits(), run_worker=True) as inside:
        for intent_id, payload in (("order-1", PAYLOAD), ("order-2", "{}"), ("order-3", "{ }")):
            assert (await post(inside, intent(intent_id, payload)))[0] == 201
            sent = await listener.next()
            reference = f'{{"referenceId":"{intent_key(intent_id)}"'
            fields = payload.removeprefix("{")
            separator = "" if payload.strip("{ }") == "" else ","
            assert sent.decode() == f"{reference}{separator}{fields}"


async def test_another_spelling_of_a_payload_is_the_same_intent(
    outrider: Outrider, listener: Listener
) -> None:
    """M9: a client that spells its payload otherwise the second time submits nothing new."""
    async with serving(outrider, ApiLimits(), run_worker=False) as inside:
        first = '{"a": 1, "b": 1E2}'
        assert (await post(inside, intent("order-1", first)))[0] == 201
        for same in ('{"b": 100, "a": 1.0}', '{"a":1,"b":100.0}'):
            assert (await post(inside, intent("order-1", same)))[0] == 200
        for other in ('{"a": true, "b": 100}', '{"a": "1", "b": 100}', '{"a": 1}'):
            status, answer = await post(inside, intent("order-1", other))
            assert (status, answer["error"]["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert listener.bodies.empty()


async def test_a_reference_of_the_clients_own_is_refused_and_not_overwritten(
    outrider: Outrider,
) -> None:
    """M9: what would be lost on the way is refused at the door, by its name."""
    async with serving(outrider, ApiLimits(), run_worker=False) as inside:
        status, answer = await post(inside, intent("order-1", '{"referenceId": "mine", "to": "x"}'))
    assert status == 400
    assert [each["path"] for each in answer["error"]["fields"]] == ["payload.referenceId"]


async def test_a_repeat_is_answered_as_before_when_its_target_has_left_the_registry(
    outrider: Outrider, listener: Listener
) -> None:
    """M1: whoever repeats a request that was taken gets its answer, whatever changed since."""
    async with serving(outrider, ApiLimits(), run_worker=False) as inside:
        assert (await post(inside, intent("order-1", PAYLOAD)))[0] == 201
        remaining = registry(target("other", "sms", listener.url))
        async with inside.session.put(
            f"{inside.url}/registry", data=remaining,
            headers={**inside.headers, "Content-Type": "application/json"},
        ) as replaced:  # fmt: skip
            assert replaced.status == 200
        status, answer = await post(inside, intent("order-1", PAYLOAD))
        assert (status, answer["intentId"], answer["submissionTarget"]) == (200, "order-1", "sms")
        assert (await post(inside, intent("order-1", "{}")))[0] == 409
        status, answer = await post(inside, intent("order-2", PAYLOAD))
        assert status == 400
        assert [each["path"] for each in answer["error"]["fields"]] == ["submissionTarget"]


async def test_an_intent_shows_the_contract_it_was_submitted_under(
    outrider: Outrider, listener: Listener
) -> None:
    """M13: also after its target got another one; another workspace does not see the gateway."""
    async with serving(outrider, ApiLimits(), run_worker=False) as inside:
        status, first = await post(inside, intent("order-1", PAYLOAD))
        expected = {
            "submissionTarget": "sms", "gatewayType": "sms", "gatewayUrl": listener.url,
            "mode": "realtime", "policy": "max_attempts", "maxAttempts": 5,
            "terminalOutcomes": [],
        }  # fmt: skip
        assert (status, first["contract"]) == (201, expected)
        stricter = registry(target("sms", "sms", listener.url, policy="one_shot"))
        await outrider.registry_follower.replace(DEFAULT_SCOPE, stricter, "test")
        url = f"{inside.url}/intents/order-1"
        async with inside.session.get(url, headers=inside.headers) as answer:
            assert (await answer.json())["contract"] == expected
        _, second = await post(inside, intent("order-2", PAYLOAD))
        assert second["contract"]["policy"] == "one_shot"
        scope = await outrider.key_keeper.open_workspace("other", "other", "production")
        _, key = await outrider.key_keeper.create(scope, "b", {KeyScope.OPERATE}, "test")
        headers = {"Authorization": f"Bearer {key}"}
        async with aiohttp.ClientSession(headers=headers) as stranger:
            body = json.loads(intent("order-1", PAYLOAD))
            async with stranger.post(f"{inside.url}/intents", json=body) as answer:
                assert (await answer.json())["contract"]["gatewayUrl"] is None
