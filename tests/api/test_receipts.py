"""The receipts door over real HTTP: statuses as API.md says, and nothing lost or believed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.workspaces import WorkspaceName
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import deliveries, keys, ledger_items, receipts, suppressions
from outrider.limits.api import ApiLimits
from outrider.limits.receipts import CALLBACK_MAX_BYTES, ReceiptLimits
from outrider.testing.launches import target
from tests.support.api_inside import Inside, serving
from tests.support.standard_receipts import StandardReaders, body_of, signed
from tests.support.whole_runs import opened

TARGET, OTHER = "sms.main", "sms.other"
SECRET, OTHERS_SECRET, TENANTS_SECRET = b"s" * 32, b"o" * 32, b"t" * 32
TENANT = WorkspaceName("acme", "shop", "production")
PATIENCE_SECONDS = 60
DELIVERED = {"receiptId": "r-1", "referenceId": "ab" * 32, "event": "delivered"}


@dataclass(frozen=True)
class Door:
    inside: Inside
    outrider: Outrider
    sandbox: Sandbox

    async def post(
        self,
        body: bytes,
        *,
        secret: bytes | None = SECRET,
        path: str = TARGET,
        headers: Mapping[str, str] | None = None,
        at: float | None = None,
    ) -> tuple[int, Any]:
        host, port = self.inside.address
        signature = signed(secret, body, at=at) if secret is not None else {}
        from yarl import URL

        url = URL(f"http://{host}:{port}/receipts/{path}", encoded=True)
        async with self.inside.session.post(
            url, data=body, headers={**signature, **(headers or {})}
        ) as answer:
            return answer.status, json.loads(await answer.read())

    async def listed(self, query: str = "") -> list[dict[str, Any]]:
        url = f"{self.inside.url}/receipts{query}"
        async with self.inside.session.get(url, headers=self.inside.headers) as answer:
            assert answer.status == 200, await answer.text()
            found: list[dict[str, Any]] = (await answer.json())["items"]
            return found

    async def sent(self, intent_id: str, to: str) -> ledger_items.Item:
        submission = Submission(intent_id, TARGET, {"to": to, "message": "Hi"})
        stored, _ = await self.outrider.submissions.submit(DEFAULT_SCOPE, submission)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                item = await self.outrider.store.read(
                    ledger_items.item(DEFAULT_SCOPE, stored.outbox_id)
                )
                if item.status != "queued":
                    return item
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened_door(
    database: str, folder: Path, limits: ReceiptLimits | None = None
) -> AsyncIterator[Door]:
    async with Sandbox() as sandbox:
        targets = [target(name, "sms", sandbox.http_url) for name in (TARGET, OTHER)]
        async with opened(database, folder, *targets) as outrider:
            readers = StandardReaders(
                {
                    ("default/default/default", TARGET): SECRET,
                    ("default/default/default", OTHER): OTHERS_SECRET,
                    (str(TENANT), TARGET): TENANTS_SECRET,
                }
            )
            outrider.__dict__["receipt_readers"] = readers
            outrider.__dict__["reply_keyword"] = lambda text: (
                OptOutWord.STOP if text.strip().upper() == "STOP" else None
            )
            if limits is not None:
                outrider.__dict__["receipt_limits"] = limits
            async with serving(outrider, ApiLimits(), run_worker=True) as inside:
                yield Door(inside, outrider, sandbox)


@pytest_asyncio.fixture
async def door(database: str, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened_door(database, tmp_path) as made:
        yield made


async def until(reached: Any) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if found := await reached():
                return found
            await asyncio.sleep(0.01)


async def test_a_receipt_is_durable_when_it_is_answered(door: Door) -> None:
    assert await door.post(body_of(DELIVERED)) == (200, {"success": True, "taken": 1})
    [listed] = await door.listed()
    assert (listed["receiptId"], listed["event"]) == ("r-1", "delivered")
    assert (listed["referenceId"], listed["matched"]) == ("ab" * 32, False)


async def test_a_repeat_changes_nothing(door: Door) -> None:
    await door.post(body_of(DELIVERED))
    again = body_of({**DELIVERED, "event": "bounced"}, DELIVERED)
    assert await door.post(again) == (200, {"success": True, "taken": 0})
    assert [each["event"] for each in await door.listed()] == ["delivered"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"secret": None}, 401),
        ({"secret": b"x" * 32}, 401),
        ({"secret": OTHERS_SECRET}, 401),
        ({"at": time.time() - 3_600}, 401),
        ({"path": "sms.unknown"}, 404),
        ({"path": "acme%2Fshop%2Fnowhere/sms.main"}, 404),
        ({"path": "acme/sms.main"}, 404),
    ],
)
async def test_an_unsigned_receipt_is_refused_and_not_written(
    door: Door, given: dict[str, Any], status: int
) -> None:
    answered, problem = await door.post(body_of(DELIVERED), **given)
    assert (answered, problem["success"]) == (status, False)
    assert await door.listed() == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"receipts": 1}', b'{"receipts": [{}]}', b"\xff\xfe"]
)
async def test_garbage_is_400_and_nothing_of_it_is_written(door: Door, body: bytes) -> None:
    assert (await door.post(body))[0] == 400
    assert await door.listed() == []


async def test_a_body_over_the_limit_is_413(door: Door) -> None:
    exact = body_of(DELIVERED) + b" " * (CALLBACK_MAX_BYTES - len(body_of(DELIVERED)))
    assert (await door.post(exact))[0] == 200
    host, port = door.inside.address
    url = f"http://{host}:{port}/receipts/{TARGET}"
    body = exact + b" "
    # The server closes the connection without reading: its status is all that is sure to arrive.
    async with door.inside.session.post(url, data=body, headers=signed(SECRET, body)) as answer:
        assert answer.status == 413

    async def in_pieces() -> AsyncIterator[bytes]:
        yield exact
        yield b" "

    async with door.inside.session.post(
        url, data=in_pieces(), headers=signed(SECRET, body)
    ) as answer:
        assert answer.status == 413
    assert len(await door.listed()) == 1


async def test_a_handshake_is_answered_and_writes_nothing(door: Door) -> None:
    host, port = door.inside.address
    url = f"http://{host}:{port}/receipts/{TARGET}?challenge=1234"
    async with door.inside.session.get(url) as answer:
        assert (answer.status, await answer.text()) == (200, "1234")
    assert await door.listed() == []


@pytest.mark.parametrize("written", ["acme:shop:production", "acme%2Fshop%2Fproduction"])
async def test_a_workspace_with_its_own_secrets_has_its_own_receipts(
    door: Door, written: str
) -> None:
    scope = await door.outrider.store.write(
        keys.open_workspace(TENANT, door.outrider.ids, door.outrider.clock.now())
    )
    path = f"{written}/{TARGET}"
    assert (await door.post(body_of(DELIVERED), path=path))[0] == 401
    assert (await door.post(body_of(DELIVERED), path=path, secret=TENANTS_SECRET))[0] == 200
    assert await door.listed() == []
    assert len(await door.outrider.store.read(receipts.page(scope, None, 10))) == 1


async def test_the_receipt_of_a_delivered_intent_is_published(door: Door) -> None:
    item = await door.sent("i-1", "+447700900001")
    told = {"receiptId": "r-9", "referenceId": item.reference, "event": "delivered"}
    assert (await door.post(body_of(told)))[0] == 200

    async def matched() -> Any:
        return (await door.outrider.store.read(deliveries.of_items([item.id]))).get(item.id)

    assert (await until(matched)).state.value == "delivered"
    [listed] = await door.listed("?matched=true")
    assert (listed["outboxId"], listed["matchedBy"]) == (item.id, "reference")
    assert await door.listed("?matched=false") == []


async def test_an_opt_out_holds_back_the_next_message_within_a_second(door: Door) -> None:
    item = await door.sent("i-1", "+447700900001")
    told = {
        "receiptId": "r-9", "referenceId": item.reference, "event": "replied",
        "from": "+447700900001", "text": "stop",
    }  # fmt: skip
    await door.post(body_of(told))
    began = time.monotonic()

    async def suppressed() -> Any:
        page = suppressions.page(DEFAULT_SCOPE, suppressions.FIRST, 10)
        return await door.outrider.store.read(page)

    [found] = await until(suppressed)
    assert time.monotonic() - began < 1.0
    assert (found.address, found.source.value) == ("+447700900001", "stop")
    assert (await door.sent("i-2", "+447700900001")).reason == "suppressed"


async def test_an_unmatched_receipt_is_matched_by_hand(door: Door) -> None:
    item = await door.sent("i-1", "+447700900001")
    await door.post(body_of({"receiptId": "r-9", "gatewayMessageId": "?", "event": "read"}))
    [waiting] = await until(lambda: door.listed(f"?matched=false&submissionTarget={TARGET}"))
    assert await door.listed(f"?matched=false&submissionTarget={OTHER}") == []
    answer = await door.inside.post(f"/receipts/{waiting['id']}/match", {"outboxId": item.id})
    assert answer == {"success": True, "receiptId": waiting["id"], "outboxId": item.id}
    assert await door.listed("?matched=false") == []
    url = f"{door.inside.url}/receipts/{waiting['id']}/match"
    body = {"outboxId": item.id}
    async with door.inside.session.post(url, json=body, headers=door.inside.headers) as again:
        assert again.status == 409


async def test_a_flood_is_answered_with_429_and_when_to_come_again(
    database: str, tmp_path: Path
) -> None:
    limits = ReceiptLimits(sought_max=20, sought_trust_seconds=0.0)
    async with opened_door(database, tmp_path, limits) as door:
        flood = [
            {"receiptId": f"f-{n}", "referenceId": f"{n:064x}", "event": "read"} for n in range(20)
        ]
        assert (await door.post(body_of(*flood)))[0] == 200

        async def refused() -> Any:
            answered = await door.post(body_of({**DELIVERED, "receiptId": "more"}))
            return answered if answered[0] == 429 else None

        await until(refused)
        assert (await door.post(body_of(DELIVERED), path=OTHER, secret=OTHERS_SECRET))[0] == 200
        known = {each["receiptId"] for each in await door.listed(f"?submissionTarget={TARGET}")}
        assert known >= {each["receiptId"] for each in flood}


async def test_receipts_are_counted_by_target_and_event(door: Door) -> None:
    await door.post(body_of(DELIVERED, {**DELIVERED, "receiptId": "r-2", "event": "bounced"}))
    host, port = door.inside.address
    async with door.inside.session.get(
        f"http://{host}:{port}/metrics", headers=door.inside.headers
    ) as answer:
        page = await answer.text()
    assert f'outrider_receipts_total{{event="delivered",target="{TARGET}"}} 1.0' in page
    assert f'outrider_receipts_total{{event="bounced",target="{TARGET}"}} 1.0' in page
