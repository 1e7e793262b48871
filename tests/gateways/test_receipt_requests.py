"""What gateways add to a request so that its receipts find their item, and only where asked."""

import asyncio
import json
from email.parser import BytesHeaderParser
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session

from outrider.domain.call_results import Accepted
from outrider.domain.errors import InvalidInput
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signing_keys
from outrider.gateways.directory import Gateways
from outrider.gateways.receipt_readers import TargetReaders
from outrider.settings import TargetSettings
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.broken_server import Reader, Writer, http, read_request, serving
from tests.support.receipt_targets import (
    PUBLIC_URL,
    SECRET,
    NamedSecrets,
    gateways_of,
    target_settings,
)

PHONE, MAIL = "+447700900123", "ada@example.test"


async def body_of(
    name: str, settings: TargetSettings, public_url: str | None, reference: str = REFERENCE
) -> bytes:
    """What the provider gets for a message of this target."""
    requests: list[bytes] = []

    async def remember(reader: Reader, writer: Writer) -> None:
        requests.append(await read_request(reader))
        writer.write(http(200, b"{}", "Connection: close"))

    gateways = Gateways(NamedSecrets(), targets={"mine": settings}, public_url=public_url)
    async with serving(remember) as port:
        gateway = gateways.gateway("mine", name, f"http://127.0.0.1:{port}")
        address = MAIL if name == "resend" else PHONE
        await gateway.call(reserve(address, reference=reference))
    await gateways.close()
    (request,) = requests
    return request.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("name", ["twilio_sms", "twilio_voice"])
async def test_each_message_tells_twilio_where_to_report(name: str) -> None:
    settings = target_settings(name)
    form = parse_qs((await body_of(name, settings, PUBLIC_URL)).decode())
    assert form["StatusCallback"] == [f"{PUBLIC_URL}/receipts/mine?reference={REFERENCE}"]


@pytest.mark.parametrize("name", ["twilio_sms", "twilio_voice"])
async def test_without_a_public_url_twilios_request_is_unchanged(name: str) -> None:
    form = parse_qs((await body_of(name, target_settings(name), None)).decode())
    assert "StatusCallback" not in form
    keyed = target_settings(name).model_copy(
        update={"options": {**target_settings(name).options, "apiKeySid": "SK1"}}
    )
    # What the account's token signs, an API key's secret cannot check.
    assert b"StatusCallback" not in await body_of(name, keyed, PUBLIC_URL)


async def test_resend_gets_the_reference_as_a_tag_where_its_webhooks_are_read() -> None:
    settings = target_settings("resend")
    first, second = [await body_of("resend", settings, PUBLIC_URL) for _ in range(2)]
    assert json.loads(first)["tags"] == [{"name": "outrider_reference", "value": REFERENCE}]
    # Under one Idempotency-Key the bytes are the same.
    assert first == second
    plain = TargetSettings(credentials={"apiKey": "env:MINE"})
    assert "tags" not in json.loads(await body_of("resend", plain, PUBLIC_URL))
    strange = await body_of("resend", settings, PUBLIC_URL, reference="not a tag's value")
    assert "tags" not in json.loads(strange)


async def test_whatsapp_gets_the_reference_as_it_always_did() -> None:
    body = await body_of("whatsapp_cloud", target_settings("whatsapp_cloud"), PUBLIC_URL)
    assert json.loads(body)["biz_opaque_callback_data"] == REFERENCE


class Mailroom:
    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        return "250 2.0.0 OK"


async def mailed(settings: TargetSettings) -> Envelope:
    room, loop = Mailroom(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(room, loop=loop), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    gateways = Gateways(NamedSecrets(), targets={"mine": settings})
    gateway = gateways.gateway("mine", "smtp", f"smtp://127.0.0.1:{port}")
    result = await gateway.call(reserve(MAIL))
    assert isinstance(result, Accepted), result
    await gateways.close()
    server.close()
    (envelope,) = room.envelopes
    return envelope


async def test_a_mails_envelope_carries_its_reference_sealed() -> None:
    envelope = await mailed(target_settings("smtp"))
    path = ReturnPath("bounces", "mail.example")
    assert envelope.mail_from is not None
    assert path.reference_in(signing_keys(SECRET), envelope.mail_from) == REFERENCE
    headers = BytesHeaderParser().parsebytes(envelope.original_content or b"")
    assert headers["X-Outrider-Return"] == envelope.mail_from
    assert headers["From"] == "outrider@localhost"


async def test_without_a_return_path_the_envelope_is_unchanged() -> None:
    envelope = await mailed(TargetSettings(credentials={"receiptsSecret": "env:MINE"}))
    assert envelope.mail_from == "outrider@localhost"
    assert b"X-Outrider-Return" not in (envelope.original_content or b"")


def test_a_return_path_needs_a_secret() -> None:
    settings = TargetSettings(options={"returnPath": "bounces@mail.example"})
    gateways = Gateways(NamedSecrets(), targets={"mine": settings})
    with pytest.raises(InvalidInput, match="receiptsSecret"):
        gateways.gateway("mine", "smtp", "smtp://127.0.0.1:1")


def test_the_readers_of_a_process_go_by_the_registry() -> None:
    types: dict[str, Any] = {"mine": "sms", "other": "fcm"}
    readers = TargetReaders(gateways_of("sms"), types.get)
    assert readers.reader("", "mine") is not None
    assert readers.reader("default/default/default", "mine") is not None
    for workspace, name in (
        ("", "other"),
        ("", "unknown"),
        ("nonsense", "mine"),
        ("a/b/c", "mine"),
    ):
        assert readers.reader(workspace, name) is None
