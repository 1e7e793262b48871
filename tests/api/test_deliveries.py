"""What receipts say of a message, wherever the API shows the message or counts it."""

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest_asyncio
from pydantic.alias_generators import to_camel

from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.testing.launches import launch, message, people, until_terminal
from tests.api.test_receipts import TARGET, Door, opened_door, until
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


REPORT = "report"
EVENTS = ("delivered", "bounced", "complained", "read", "replied", "opted_out", "failed")
PEOPLE = 9
NOTHING = {
    "delivered": 0, "bounced": 0, "complained": 0, "read": 0, "replied": 0, "optedOut": 0,
    "failed": 0, "unknown": 0,
}  # fmt: skip


async def launched(door: Door) -> tuple[str, str, list[dict[str, Any]]]:
    """A launch that has ended: its campaign, its run, its items."""
    run_id = await launch(door.outrider, [message(Channel.SMS, TARGET)], people(PEOPLE))
    await until_terminal(door.outrider, run_id)
    campaign_id = str((await got(door, f"/runs/{run_id}"))["campaignId"])
    return campaign_id, str(run_id), (await got(door, f"/runs/{run_id}/outbox"))["items"]


async def accountings(door: Door, campaign_id: str, run_id: str) -> list[dict[str, Any]]:
    """Wherever the launch is counted."""
    phase = (await got(door, f"/campaigns/{campaign_id}/status"))["phases"]["launch"]
    [run] = (await got(door, f"/campaigns/{campaign_id}/runs"))["items"]
    [campaign] = (await got(door, "/campaigns"))["items"]
    return [
        (await got(door, f"/runs/{run_id}"))["accounting"],
        run["accounting"],
        phase["accounting"],
        phase["outcome"],
        campaign["accounting"],
        campaign["outcome"],
    ]


async def test_the_accounting_of_a_launch_adds_up_whatever_receipts_come(door: Door) -> None:
    campaign_id, run_id, items = await launched(door)
    for accounting in await accountings(door, campaign_id, run_id):
        assert accounting["delivery"] == {**NOTHING, "unknown": PEOPLE}
    told = [
        {"receiptId": f"{item['recipientId']}-{event}", "referenceId": item["reference"],
         "event": event, "permanent": event == "bounced"}
        for item, events in zip(items, itertools.permutations(EVENTS), strict=False)
        for event in events[: 1 + items.index(item) % len(EVENTS)]
    ]  # fmt: skip
    for receipt in told:
        await take(door, receipt)
        accounting = (await got(door, f"/runs/{run_id}"))["accounting"]
        assert sum(accounting["delivery"].values()) == accounting["sent"] == PEOPLE
        assert min(accounting["delivery"].values()) >= 0
    listed = (await got(door, f"/runs/{run_id}/outbox"))["items"]
    shown = Counter(to_camel(item["delivery"]["state"]) for item in listed)
    assert "none" not in shown
    expected = {**NOTHING, **shown}
    first, *others = await accountings(door, campaign_id, run_id)
    assert first["delivery"] == expected
    assert others == [first] * len(others)


async def test_a_run_says_in_a_sentence_what_receipts_report(door: Door) -> None:
    _, run_id, items = await launched(door)
    before = (await got(door, f"/runs/{run_id}/explain"))["sentences"]
    assert not [sentence for sentence in before if "receipt" in sentence]
    seen = ("delivered", "delivered", "read")
    await take(
        door,
        *(
            {"receiptId": f"r-{number}", "referenceId": item["reference"], "event": event}
            for number, (item, event) in enumerate(zip(items, seen, strict=False))
        ),
    )
    after = (await got(door, f"/runs/{run_id}/explain"))["sentences"]
    assert "Receipts report of 3 of 9 sent messages: 2 delivered, 1 read." in after


async def test_only_a_launch_has_deliveries(door: Door) -> None:
    definition = CampaignDefinition("test", (REPORT, LAUNCH), (message(Channel.SMS, TARGET),), 10)
    campaign_id, _ = await door.outrider.deployer.create(
        DEFAULT_SCOPE, definition, people(1), "test"
    )
    started = await door.inside.post(f"/campaigns/{campaign_id}/phases/{REPORT}/start")
    accounting = (await got(door, f"/runs/{started['runId']}"))["accounting"]
    assert accounting["delivery"] is None


async def test_a_certificate_holds_whatever_receipts_report(door: Door) -> None:
    _, run_id, items = await launched(door)
    before = await got(door, f"/runs/{run_id}/certificate")
    assert before["receipts"] == {
        "sent": PEOPLE, "reported": 0, "coveragePercentage": 0.0,
        "delivery": {**NOTHING, "unknown": PEOPLE},
    }  # fmt: skip
    assert "delivery" not in before["accounting"]
    bounce = {"event": "bounced", "permanent": True}
    await take(
        door,
        *(
            {**bounce, "receiptId": item["outboxId"], "referenceId": item["reference"]}
            for item in items[:3]
        ),
    )
    after = await got(door, f"/runs/{run_id}/certificate")
    assert after["receipts"] == {
        "sent": PEOPLE, "reported": 3, "coveragePercentage": 33.33,
        "delivery": {**NOTHING, "bounced": 3, "unknown": PEOPLE - 3},
    }  # fmt: skip
    moved = {"receipts", "issuedAt"}
    assert {**after, **dict.fromkeys(moved)} == {**before, **dict.fromkeys(moved)}
    assert after["holds"]
