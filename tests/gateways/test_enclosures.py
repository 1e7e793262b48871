"""A file on its way: through a real mail server, and through the simulator's own protocols."""

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outrider.domain.call_results import Accepted, Rejected
from outrider.domain.message_content import Enclosure
from outrider.domain.states import Channel
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.gateways.sandbox import Sandbox
from outrider.limits.workflows import ENCLOSURES_MAX_BYTES
from outrider.testing.gateway_suite import REFERENCE, reserve
from tests.support.mail_security import Mailroom, mail_serving
from tests.support.provider_targets import TARGETS, PlantedSecrets

MAIL = "ada@example.test"
PDF = Enclosure("Angebot für Zoë.pdf", "application/pdf", b"%PDF-1.4\n.\r\n" + bytes(range(256)))
LARGE = Enclosure("plan.bin", "application/octet-stream", b"." * (ENCLOSURES_MAX_BYTES - 1_000))


def noted(enclosure: Enclosure) -> dict[str, Any]:
    return {
        "name": enclosure.name,
        "contentType": enclosure.content_type,
        "size": len(enclosure.content),
        "sha256": hashlib.sha256(enclosure.content).hexdigest(),
    }


def entries(log_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path.read_text().splitlines()]


@pytest.fixture
async def gateways() -> AsyncIterator[Gateways]:
    gateways = Gateways(PlantedSecrets(), targets=TARGETS)
    yield gateways
    await gateways.close()


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "received.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(log_path=log_path) as sandbox:
        yield sandbox


async def test_a_real_mail_server_gets_the_text_and_the_files_byte_by_byte(
    gateways: Gateways,
) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        gateway = gateways.gateway("smtp", "smtp", f"smtp://127.0.0.1:{port}")
        result = await gateway.call(reserve(MAIL, body=".\nGrüße", enclosures=[PDF, LARGE]))
        assert isinstance(result, Accepted), result
        plain = await gateway.call(reserve(MAIL, body=".\n..two"))
        assert isinstance(plain, Accepted), plain
        await gateways.close()
    enclosing, without = mailroom.messages
    _, text, *files = enclosing.walk()
    assert text.get_payload(decode=True) == ".\r\nGrüße".encode()
    assert [part.get_filename() for part in files] == [PDF.name, LARGE.name]
    assert [part.get_payload(decode=True) for part in files] == [PDF.content, LARGE.content]
    assert without.get_payload() == ".\r\n..two\r\n"


@pytest.mark.parametrize("family", ["smtp", "resend"])
async def test_the_simulator_notes_each_file_that_it_gets(
    gateways: Gateways, sandbox: Sandbox, log_path: Path, family: str
) -> None:
    url = sandbox.smtp_url if family == "smtp" else sandbox.http_url
    gateway = gateways.gateway(family, family, url)
    result = await gateway.call(reserve(MAIL, enclosures=[PDF, LARGE]))
    assert isinstance(result, Accepted), result
    plain = await gateway.call(reserve(MAIL, reference="b7" * 32))
    assert isinstance(plain, Accepted), plain
    enclosing, without = entries(log_path)
    assert (enclosing["referenceId"], enclosing["protocol"]) == (REFERENCE, family)
    assert enclosing["attachments"] == [noted(PDF), noted(LARGE)]
    assert "attachments" not in without


@pytest.mark.parametrize(
    "attachments",
    ["quote.pdf", [5], [{"filename": "x"}], [{"filename": "", "content": "eA=="}],
     [{"filename": "x", "content": "!"}]],
)  # fmt: skip
async def test_the_simulator_refuses_attachments_that_resend_would_refuse(
    sandbox: Sandbox, attachments: object
) -> None:
    import aiohttp

    document = {"from": "a@b.test", "to": [MAIL], "text": "Hi", "attachments": attachments}
    headers = {"Authorization": "Bearer x", "Idempotency-Key": "r1"}
    async with (
        aiohttp.ClientSession(sandbox.http_url) as session,
        session.post("/emails", json=document, headers=headers) as response,
    ):
        assert response.status == 422
        assert (await response.json())["name"] == "invalid_attachment"
    assert not sandbox.deliveries


async def test_a_family_without_files_says_so_in_words(
    gateways: Gateways, sandbox: Sandbox
) -> None:
    reasons = {}
    mail = {name for name, kind in GATEWAY_TYPES.items() if kind.channel is Channel.EMAIL}
    for family in TARGETS.keys() - mail - {"noop"}:
        gateway = gateways.gateway(family, family, sandbox.http_url)
        result = await gateway.call(reserve("+447700900123", enclosures=[PDF]))
        assert isinstance(result, Rejected), family
        assert result.detail == f"{family} does not support attachments"
        reasons[family] = result.reason
    assert reasons.pop("push") == "invalid_request"
    assert set(reasons.values()) == {"invalid_message"}
    assert sandbox.requests == 0
