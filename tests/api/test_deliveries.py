"""What receipts say of a message, wherever the API shows the message or counts it."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.api.test_receipts import Door, opened_door, until
from tests.support.standard_receipts import body_of

NONE = {"state": "none", "permanent": False, "reason": "", "at": None}
AT = "2026-03-01T10:00:00Z"


@pytest_asyncio.fixture
async def door(database: str, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened_door(database, tmp_path) as made:
        yield made


async def got(door: Door, path: str) -> dict[str, Any]:
    url = door.inside.url + path
    async with door.inside.session.get(url, headers=door.inside.headers) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def take(door: Door, *receipts: Mapping[str, Any]) -> None:
    """Taken and matched."""
    assert (await door.post(body_of(*receipts)))[0] == 200

    async def matched() -> bool:
        return not await door.listed("?matched=false")

    await until(matched)


async def test_an_item_shows_what_its_receipts_say_wherever_it_is_shown(door: Door) -> None:
    item = await door.sent("order-1", "+447700900001")
    assert (await got(door, f"/outbox/{item.id}"))["delivery"] == NONE
    assert (await got(door, "/intents/order-1"))["delivery"] == NONE
    told = {"referenceId": item.reference, "occurredAt": AT}
    await take(door, {**told, "receiptId": "r-1", "event": "delivered"})
    delivered = {**NONE, "state": "delivered", "at": AT}
    assert (await got(door, f"/outbox/{item.id}"))["delivery"] == delivered
    assert (await got(door, "/intents/order-1"))["delivery"] == delivered
    explained = (await got(door, f"/outbox/{item.id}/explain"))["sentences"]
    assert f"Delivered at {AT}, as the provider reported." in explained
    bounce = {"event": "bounced", "permanent": True, "reason": "no such number"}
    await take(door, {**told, **bounce, "receiptId": "r-2"})
    assert (await got(door, f"/outbox/{item.id}"))["delivery"] == {
        "state": "bounced", "permanent": True, "reason": "no such number", "at": AT,
    }  # fmt: skip
    explained = (await got(door, f"/outbox/{item.id}/explain"))["sentences"]
    assert explained[-1] == (f"Bounced for good, as the provider reported at {AT}: no such number.")


async def test_a_repeated_intent_is_answered_with_its_delivery(door: Door) -> None:
    item = await door.sent("order-1", "+447700900001")
    await take(door, {"receiptId": "r-1", "referenceId": item.reference, "event": "read"})
    body = {
        "intentId": "order-1", "submissionTarget": item.submission_target,
        "payload": {"to": "+447700900001", "message": "Hi"},
    }  # fmt: skip
    answered = await door.inside.post("/intents", body)
    assert isinstance(answered["delivery"], dict)
    assert answered["delivery"]["state"] == "read"
