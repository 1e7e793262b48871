"""Approved templates: which parameters a message gives them, and whose fault a refused one is."""

import json
from typing import Any

import pytest

from outrider.domain.call_results import Held, Rejected
from outrider.domain.errors import InvalidInput
from outrider.gateways.directory import Gateways
from outrider.ports.gateway import Reservation
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import reserve
from tests.support.broken_server import Reader, Writer, answering, http, read_request, serving
from tests.support.provider_targets import PlantedSecrets

PHONE = "+447700900123"
BODY = {"type": "body", "parameters": [{"type": "text", "text": "Ada"}]}


def gateways_with(**options: str) -> Gateways:
    settings = TargetSettings(
        options={"phoneNumberId": "1", **options}, credentials={"accessToken": "env:X"}
    )
    return Gateways(PlantedSecrets(), targets={"t": settings})


async def template(reservation: Reservation, **options: str) -> Any:
    requests: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(http(200, b'{"messages":[{"id":"m"}]}', "Connection: close"))

    gateways = gateways_with(**options)
    async with serving(remember) as port:
        await gateways.gateway("t", "whatsapp_cloud", f"http://127.0.0.1:{port}").call(reservation)
    await gateways.close()
    document = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert document["type"] == "template"
    return document["template"]


def direct(**given: Any) -> Reservation:
    return reserve("", payload={"to": PHONE, "body": "Ada", "template": given})


async def test_a_direct_intent_names_its_template_and_all_parameters() -> None:
    found = await template(
        direct(
            name="order_shipped",
            language="de",
            header={"document": "https://shop.example/42.pdf", "filename": "Order.pdf"},
            body=["Ada", "42"],
            buttons=[None, {"url": "42"}, {"quick_reply": "STOP"}, {"copy_code": "SAVE5"}],
        )
    )
    document = {"link": "https://shop.example/42.pdf", "filename": "Order.pdf"}
    assert found == {
        "name": "order_shipped",
        "language": {"code": "de"},
        "components": [
            {"type": "header", "parameters": [{"type": "document", "document": document}]},
            {"type": "body", "parameters": [{"type": "text", "text": "Ada"},
                                            {"type": "text", "text": "42"}]},
            {"type": "button", "sub_type": "url", "index": "1",
             "parameters": [{"type": "text", "text": "42"}]},
            {"type": "button", "sub_type": "quick_reply", "index": "2",
             "parameters": [{"type": "payload", "payload": "STOP"}]},
            {"type": "button", "sub_type": "copy_code", "index": "3",
             "parameters": [{"type": "coupon_code", "coupon_code": "SAVE5"}]},
        ],
    }  # fmt: skip


async def test_named_parameters_keep_their_names() -> None:
    found = await template(direct(name="hello", header="Hi", body={"first_name": "Ada"}))
    assert found["components"] == [
        {"type": "header", "parameters": [{"type": "text", "text": "Hi"}]},
        {"type": "body", "parameters": [
            {"type": "text", "text": "Ada", "parameter_name": "first_name"}]},
    ]  # fmt: skip


async def test_a_template_without_parameters_has_no_components() -> None:
    assert await template(direct(name="hello", body=[])) == {
        "name": "hello", "language": {"code": "en_US"},
    }  # fmt: skip


async def test_a_rendered_message_has_one_parameter_a_line() -> None:
    """A parameter has no line ends, so they separate parameters."""
    found = await template(
        reserve(PHONE, subject="https://shop.example/hat.png", body="Ada\na hat\nhats/1"),
        template="offer", templateHeader="image", templateButtons="url",
    )  # fmt: skip
    image = {"link": "https://shop.example/hat.png"}
    assert found["components"] == [
        {"type": "header", "parameters": [{"type": "image", "image": image}]},
        {"type": "body", "parameters": [{"type": "text", "text": "Ada"},
                                        {"type": "text", "text": "a hat"}]},
        {"type": "button", "sub_type": "url", "index": "0",
         "parameters": [{"type": "text", "text": "hats/1"}]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {}, {"name": 5}, {"name": "a", "colour": "red"}, {"name": "a", "header": 5},
        {"name": "a", "header": {"image": "x", "video": "y"}}, {"name": "a", "body": "text"},
        {"name": "a", "body": ["two\nlines"]}, {"name": "a", "body": [""]},
        {"name": "a", "buttons": {"url": "x"}}, {"name": "a", "buttons": [{"call": "x"}]},
        {"name": "a", "buttons": [{"url": ""}]},
    ],
)  # fmt: skip
async def test_parameters_that_make_no_sense_are_rejected_before_any_traffic(
    given: dict[str, Any],
) -> None:
    gateways = gateways_with()
    gateway = gateways.gateway("t", "whatsapp_cloud", "http://127.0.0.1:1")
    result = await gateway.call(direct(**given))
    assert isinstance(result, Rejected), result
    assert result.reason == "invalid_message"
    await gateways.close()


async def test_a_refused_template_is_the_targets_or_the_messages_own_fault() -> None:
    body = json.dumps({"error": {"code": 132001, "message": "Template does not exist"}}).encode()
    gateways = gateways_with(template="offer")
    async with serving(answering(http(404, body))) as port:
        gateway = gateways.gateway("t", "whatsapp_cloud", f"http://127.0.0.1:{port}")
        everybodys = await gateway.call(reserve(PHONE, body="Ada"))
        own = await gateway.call(direct(name="typo"))
    await gateways.close()
    assert isinstance(everybodys, Held)
    assert everybodys.reason == "template_refused"
    assert isinstance(own, Rejected)
    assert own.reason == "invalid_message"


@pytest.mark.parametrize("options", [{"templateHeader": "audio"}, {"templateButtons": "url,call"}])
def test_unknown_kinds_of_header_and_button_are_said_at_once(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        gateways_with(**options).gateway("t", "whatsapp_cloud", "http://127.0.0.1")
