"""One person's whole story and the search, over real HTTP on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from yarl import URL

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope
from outrider.domain.states import Channel
from outrider.testing.launches import launch, message, people, until_terminal
from tests.api.test_receipts import TARGET, Door, opened_door, until
from tests.support.standard_receipts import body_of

PHONE = "+447700000001"
TYPED = "+44 7700 000-001"
"""As people write the number of lead-1."""


@pytest_asyncio.fixture
async def door(database: str, tmp_path: Path) -> AsyncIterator[Door]:
    async with opened_door(database, tmp_path) as made:
        yield made


async def asked(door: Door, path: str, key: str | None = None) -> tuple[int, Any]:
    url = URL(door.inside.url + path, encoded=True)
    headers = {"Authorization": f"Bearer {key or door.inside.key}"}
    async with door.inside.session.get(url, headers=headers) as answer:
        return answer.status, await answer.json()


async def got(door: Door, path: str) -> Any:
    status, document = await asked(door, path)
    assert status == 200, document
    return document


async def person(door: Door, address: str, query: str = "") -> Any:
    return await got(door, f"/people/{quote(address, safe='')}{query}")


async def hits(door: Door, words: str) -> list[tuple[str, str]]:
    found = await got(door, f"/search?q={quote(words, safe='')}")
    return [(each["kind"], each["id"]) for each in found["items"]]


async def campaign_run(door: Door) -> str:
    run_id = await launch(door.outrider, [message(Channel.SMS, TARGET)], people(3))
    await until_terminal(door.outrider, run_id)
    return run_id


async def workflow_event(door: Door) -> None:
    """An event whose rule sends one message to lead-1."""
    rule = {"trigger": "quote_sent", "channel": "sms", "audience": "lead"}
    made = await _put(door, "/workflows/rules", rule)
    step = {
        "ruleId": made["id"], "stepOrder": 1, "body": "Hi", "submissionTarget": TARGET,
        "recipientConfig": {"includeLeadContact": True},
    }  # fmt: skip
    await _put(door, "/workflows/steps", step)
    lead = {"id": "lead-1", "phone": PHONE}
    await door.inside.post(
        "/events", {"eventId": "q-1", "trigger": "quote_sent", "subject": {"lead": lead}}
    )

    async def sent() -> bool:
        items = (await got(door, "/events/q-1"))["items"]
        return bool(items) and items[0]["status"] == "succeeded"

    await until(sent)


async def _put(door: Door, path: str, body: object) -> Any:
    url = door.inside.url + path
    async with door.inside.session.put(url, json=body, headers=door.inside.headers) as answer:
        assert answer.status in (200, 201), await answer.text()
        return await answer.json()


async def whole_life(door: Door) -> tuple[str, Any]:
    """A campaign, an event and an intent reach lead-1, who then answers STOP."""
    run_id = await campaign_run(door)
    await workflow_event(door)
    intent = await door.sent("order-1", PHONE)
    told = {"referenceId": intent.reference}
    await door.post(body_of({**told, "receiptId": "r-1", "event": "delivered"}))
    stop = {"event": "replied", "from": PHONE, "text": "STOP"}
    await door.post(body_of({**told, **stop, "receiptId": "r-2"}))

    async def opted_out() -> bool:
        return bool((await got(door, "/suppressions"))["items"])

    await until(opted_out)

    async def matched() -> bool:
        return not await door.listed("?matched=false") and len(await door.listed()) == 2

    await until(matched)
    return run_id, intent


async def test_a_persons_story_has_everything_of_one_address_newest_first(door: Door) -> None:
    run_id, intent = await whole_life(door)
    story = await person(door, TYPED)
    assert (story["address"], story["kind"], story["complete"]) == (PHONE, "phone", True)
    assert story["recipientIds"] == ["lead-1"]
    assert {(each["kind"], each["address"]) for each in story["addresses"]} == {
        ("email", "lead1@example.test"), ("push_token", "token-lead-1"),
    }  # fmt: skip
    kinds = sorted(each["kind"] for each in story["items"])
    assert kinds == ["event", "item", "item", "item", "item", "receipt", "receipt", "suppression"]
    assert (story["total"], story["next"]) == (8, None)
    times = [each["at"] for each in story["items"]]
    assert times == sorted(times, reverse=True)
    items = [each["item"] for each in story["items"] if each["kind"] == "item"]
    # The newest is the answer to STOP.
    assert items[1]["outboxId"] == intent.id
    assert (items[3]["runId"], items[3]["campaignName"]) == (run_id, "test")
    assert {each["address"] for each in items} == {PHONE}
    [event] = [each["event"] for each in story["items"] if each["kind"] == "event"]
    assert event["eventId"] == "q-1"
    assert {"sms": 1}.items() <= {
        each["channel"]: each["items"] for each in event["routes"]
    }.items()
    [opt_out] = [each["suppression"] for each in story["items"] if each["kind"] == "suppression"]
    assert (opt_out["channel"], opt_out["source"]) == ("sms", "stop")
    events = {each["receipt"]["event"] for each in story["items"] if each["kind"] == "receipt"}
    assert events == {"delivered", "replied"}

    # The same story, page by page.
    read, cursor = [], ""
    while cursor is not None:
        page = await person(door, PHONE, f"?limit=2{cursor and f'&after={cursor}'}")
        assert 0 < len(page["items"]) <= 2
        read += page["items"]
        cursor = page["next"]
    assert read == story["items"]


async def test_a_recipient_id_has_the_items_of_all_addresses_and_their_opt_outs(door: Door) -> None:
    await whole_life(door)
    story = await person(door, "lead-1")
    assert (story["address"], story["kind"]) == ("lead-1", "recipient")
    # The intent names an address and no recipient, but the reply and the opt-out are its address's.
    kinds = sorted(each["kind"] for each in story["items"])
    assert kinds == ["event", "item", "item", "receipt", "suppression"]
    by_mail = await person(door, "LEAD1@Example.test")
    assert (by_mail["address"], by_mail["kind"]) == ("LEAD1@example.test", "email")
    assert by_mail["items"] == []
    assert by_mail["recipientIds"] == ["lead-1"]


async def test_an_unknown_person_has_an_empty_story_and_nonsense_is_refused(door: Door) -> None:
    story = await person(door, "nobody@example.test")
    assert (story["items"], story["total"], story["recipientIds"]) == ([], 0, [])
    for path in ("/people/%20", "/people/a%00b", "/search?q=%20", "/search?q=", "/search"):
        status, refused = await asked(door, path)
        assert (status, refused["error"]["code"]) == (400, "INVALID_REQUEST"), path


async def test_another_workspace_cannot_find_it(door: Door) -> None:
    run_id, intent = await whole_life(door)
    scope = await door.outrider.key_keeper.open_workspace("another", "project", "production")
    _, key = await door.outrider.key_keeper.create(scope, "b", {KeyScope.ADMIN}, "test")
    for address in (PHONE, "lead-1", "lead1@example.test"):
        status, story = await asked(door, f"/people/{quote(address, safe='')}", key)
        assert (status, story["items"], story["recipientIds"]) == (200, [], [])
    for words in (PHONE, "lead-1", "q-1", "order-1", run_id, intent.id, intent.reference, "test"):
        status, found = await asked(door, f"/search?q={quote(words, safe='')}", key)
        assert (status, found["items"]) == (200, []), words


async def test_one_search_finds_whatever_the_text_is_of(door: Door) -> None:
    run_id, intent = await whole_life(door)
    campaign_id = (await got(door, f"/runs/{run_id}"))["campaignId"]
    assert await hits(door, TYPED) == [("person", TYPED)]
    assert await hits(door, "lead-1") == [("person", "lead-1")]
    assert await hits(door, "token-lead-2") == [("person", "token-lead-2")]
    assert await hits(door, "Lead2@example.TEST") == [("person", "Lead2@example.TEST")]
    assert await hits(door, campaign_id) == [("campaign", campaign_id)]
    assert await hits(door, "TES") == [("campaign", campaign_id)]
    assert await hits(door, run_id) == [("run", run_id)]
    assert await hits(door, "q-1") == [("event", "q-1")]
    assert await hits(door, "order-1") == [("intent", "order-1")]
    for of_item in (intent.id, intent.reference, intent.provider_message_id):
        assert of_item is not None
        assert await hits(door, of_item) == [("item", intent.id)]
    assert await hits(door, "no such thing") == []


@pytest.mark.parametrize("address", ["a/b@example.test", "+44%2F1", "id/with?odd#characters"])
async def test_an_address_with_odd_characters_reaches_its_page(door: Door, address: str) -> None:
    assert (await person(door, address))["items"] == []


async def erased(door: Door, address: str, query: str = "", key: str | None = None) -> Any:
    url = URL(f"{door.inside.url}/people/{quote(address, safe='')}/erase{query}", encoded=True)
    headers = {"Authorization": f"Bearer {key or door.inside.key}"}
    async with door.inside.session.post(url, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_a_person_is_erased_by_whoever_may_write(door: Door) -> None:
    await campaign_run(door)
    keys = door.outrider.key_keeper
    _, reader = await keys.create(DEFAULT_SCOPE, "reader", {KeyScope.READ}, "test")
    assert (await erased(door, TYPED, key=reader))[0] == 403
    status, listed = await erased(door, TYPED, "?dryRun=true")
    assert (status, listed["dryRun"], listed["complete"]) == (200, True, False)
    assert (await person(door, TYPED))["total"] == 1
    status, done = await erased(door, TYPED)
    assert (status, done["complete"], done["tables"]) == (200, True, listed["tables"])
    assert (await person(door, TYPED))["total"] == 0
    assert (await person(door, people(3)[2].phone or ""))["total"] == 1
