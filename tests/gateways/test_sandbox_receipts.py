"""The simulator reports: every family's receipts reach a real server and are what was planned."""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.domain.call_results import Accepted
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.gateways.directory import Gateways
from outrider.gateways.sandbox import ReceiptPlan, Sandbox
from outrider.gateways.sandbox_receipts import WRITERS
from outrider.gateways.simulators import ses
from outrider.ports.receipts import Callback, Refusal, Verified
from outrider.testing.gateway_suite import reserve
from tests.support.receipt_targets import OPTIONS, SECRET, NamedSecrets, target_settings

MESSAGES = 40
MAIL_TYPES = ["smtp", "resend", "ses", "sendgrid", "mailgun", "postmark", "brevo", "mailjet"]
ADDRESSES = {**dict.fromkeys(MAIL_TYPES, "ada@example.test"), "push": "token-1"}
TOPIC = OPTIONS["ses"]["topicArn"]


class Door:
    """The server's door for one target: its own reader decides, and may be down for a while."""

    def __init__(self, gateway_type: str) -> None:
        self.gateway_type = gateway_type
        self.receipts: list[Receipt] = []
        self.refusals: Counter[str] = Counter()
        self.failures_left = 0
        self._changed = asyncio.Event()
        self.url, self.secret = "", SECRET
        self.gateways: Gateways | None = None

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == ses.CERTIFICATE_PATH:
            return web.Response(body=ses.certificate())
        if self.failures_left:
            self.failures_left -= 1
            return web.Response(status=503)
        assert self.gateways is not None
        reader = self.gateways.receipt_reader("mine", self.gateway_type)
        assert reader is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Callback(
            request.method, str(request.url), dict(request.query), headers, await request.read()
        )
        await reader.prepare(asked, datetime.now(UTC))
        found = reader.read(asked, datetime.now(UTC))
        if isinstance(found, Refusal):
            self.refusals[found.why] += 1
            self._changed.set()
            return web.Response(status=401)
        assert isinstance(found, Verified)
        self.receipts += found.receipts
        self._changed.set()
        return web.Response()

    async def until(self, receipts: int, refusals: int = 0) -> None:
        async with asyncio.timeout(60):
            while len(self.receipts) < receipts or self.refusals.total() < refusals:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture(params=sorted(WRITERS))
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    made = Door(request.param)
    runner = web.ServerRunner(web.Server(made.take))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    public_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made.url = f"{public_url}/receipts/mine"
    targets = {"mine": target_settings(request.param)}
    if request.param == "ses":
        targets["mine"].options["snsUrl"] = public_url
        made.secret = f"{TOPIC} {public_url}{ses.CERTIFICATE_PATH}"
    made.gateways = Gateways(NamedSecrets(), targets=targets, public_url=public_url)
    yield made
    await made.gateways.close()
    await runner.cleanup()


async def sent(door: Door, sandbox: Sandbox, count: int = MESSAGES) -> list[str]:
    """Messages through the family's own gateway, which gives its provider what it needs."""
    assert door.gateways is not None
    url = sandbox.smtp_url if door.gateway_type == "smtp" else sandbox.http_url
    gateway = door.gateways.gateway("mine", door.gateway_type, url)
    address = ADDRESSES.get(door.gateway_type, "+447700900123")
    dice = random.Random(7)
    references = [dice.randbytes(32).hex() for _ in range(count)]
    results = await asyncio.gather(
        *(gateway.call(reserve(address, reference=reference)) for reference in references)
    )
    assert all(isinstance(result, Accepted) for result in results), results
    return references


def plan(door: Door, **rates: Any) -> ReceiptPlan:
    return ReceiptPlan(door.url, door.secret, **rates)


async def test_every_message_is_reported_under_its_reference(door: Door) -> None:
    async with Sandbox(receipts=plan(door)) as sandbox:
        references = await sent(door, sandbox)
        await door.until(MESSAGES)
    assert sorted(str(receipt.reference) for receipt in door.receipts) == sorted(references)
    assert {receipt.event for receipt in door.receipts} == {ReceiptEvent.DELIVERED}
    assert not door.refusals


async def test_rates_are_what_they_are_set_to(door: Door) -> None:
    everything = plan(door, complaint_rate=1.0, stop_rate=1.0)
    possible = WRITERS[door.gateway_type].events
    wanted = {ReceiptEvent.DELIVERED, ReceiptEvent.COMPLAINED, ReceiptEvent.REPLIED} & possible
    async with Sandbox(receipts=everything) as sandbox:
        await sent(door, sandbox)
        await door.until(MESSAGES * len(wanted))
    assert Counter(receipt.event for receipt in door.receipts) == dict.fromkeys(wanted, MESSAGES)
    door.receipts.clear()
    async with Sandbox(receipts=plan(door, bounce_rate=1.0)) as sandbox:
        await sent(door, sandbox)
        await door.until(MESSAGES)
    assert {receipt.event for receipt in door.receipts} == {ReceiptEvent.BOUNCED}


async def test_late_twice_reversed_and_forged(door: Door) -> None:
    nasty = plan(door, delay_ms=20, repeat_rate=1.0, reorder_rate=1.0, forged_rate=1.0)
    door.failures_left = 3
    async with Sandbox(receipts=nasty) as sandbox:
        references = await sent(door, sandbox)
        await door.until(2 * MESSAGES, 1)
        assert sandbox.emitter is not None
        async with asyncio.timeout(60):
            while sandbox.emitter.summary()["waiting"]:
                await asyncio.gather(*sandbox.emitter._posts)
                await asyncio.sleep(0)
        counts = sandbox.emitter.summary()
    ids = Counter(receipt.receipt_id for receipt in door.receipts)
    assert set(ids.values()) == {2}
    assert {receipt.reference for receipt in door.receipts} == set(references)
    # Nobody believes a forged one, and what was refused for a moment came again.
    assert {receipt.event for receipt in door.receipts} == {ReceiptEvent.DELIVERED}
    assert counts["forged"] == MESSAGES
    assert counts.get("forgedTaken", 0) == 0
    assert counts["taken"] == 2 * MESSAGES


@pytest.mark.parametrize("door", ["sms"], indirect=True)
async def test_the_command_reports_at_the_rates_it_is_given(door: Door, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    places = ["--receipts-to", door.url, "--receipts-secret-file", str(tmp_path / "secret")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "sandbox", "--port", "0", "--smtp-port", "0", "--json",
        *places, "--bounce-rate", "1", "--forged-rate", "1",
        stdout=asyncio.subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    assert door.gateways is not None
    async with asyncio.timeout(60):
        said = json.loads(await process.stdout.readline())
    gateway = door.gateways.gateway("mine", "sms", said["http"])
    assert isinstance(await gateway.call(reserve("+447700900123")), Accepted)
    await door.until(1, 1)
    (receipt,) = door.receipts
    assert (receipt.event, receipt.permanent) == (ReceiptEvent.BOUNCED, True)
    assert door.refusals == {"forged": 1}
    process.terminate()
    assert await process.wait() == 0


async def test_the_command_requires_a_signing_secret(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider", "sandbox", "--receipts-to", "http://127.0.0.1:1",
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    output = b"".join(await process.communicate())
    assert process.returncode != 0
    assert b"--receipts-secret-file" in output
