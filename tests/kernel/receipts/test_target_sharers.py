"""A target that workspaces share: its receipts find their items wherever these are, and nobody sees
or changes anything of a workspace that does not share it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, intent_key
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.kernel.transactions import audit_trail, ledger_items
from outrider.kernel.transactions.paging import FIRST
from tests.support.eventually import eventually
from tests.support.shared_targets import ACME, ANN, BETA, BOB, EVE, MOST, Shared, sharing
from tests.support.whole_runs import working


@pytest.fixture
async def shared(database: str, tmp_path: Path) -> AsyncIterator[Shared]:
    async with sharing(database, tmp_path) as scene:
        yield scene


async def message_id(shared: Shared, item: OutboxId, workspace: WorkspaceName) -> str:
    found = await shared.outrider.store.read(ledger_items.item(shared.scopes[workspace], item))
    assert found.provider_message_id
    return found.provider_message_id


async def test_receipts_find_their_items_in_whichever_workspace_shares_the_target(
    shared: Shared,
) -> None:
    ours = await shared.sent(DEFAULT_WORKSPACE_NAME, "ours")
    theirs = await shared.sent(ACME, "theirs")
    others = await shared.sent(BETA, "others", BOB)
    await shared.reported(ReceiptEvent.DELIVERED, reference=intent_key("ours"))
    await shared.reported(ReceiptEvent.READ, reference=intent_key("theirs"))
    await shared.reported(
        ReceiptEvent.BOUNCED,
        provider_message_id=await message_id(shared, others, BETA),
        permanent=True,
    )
    assert [await shared.state(each) for each in (ours, theirs, others)] == [
        "delivered", "read", "bounced",
    ]  # fmt: skip
    assert await shared.suppressed() == {"beta": [BOB]}
    assert await shared.listed() == {"default": ["r-1"], "acme": ["r-2"], "beta": ["r-3"]}
    trail = audit_trail.audit_of_workspace(shared.scopes[BETA], FIRST, MOST)
    entries = await shared.outrider.store.read(trail)
    assert "suppression.added" in {each.event for each in entries}


async def test_a_workspaces_own_url_with_the_shared_secret_is_the_same_inbox(
    shared: Shared,
) -> None:
    theirs = await shared.sent(BETA, "theirs")
    await shared.reported(ReceiptEvent.DELIVERED, at=ACME, reference=intent_key("theirs"))
    assert await shared.state(theirs) == "delivered"
    assert await shared.listed() == {"beta": ["r-1"]}


async def test_a_reference_that_two_have_chosen_finds_the_one_with_the_providers_id(
    shared: Shared,
) -> None:
    ours = await shared.sent(ACME, "order-1")
    theirs = await shared.sent(BETA, "order-1", BOB)
    key = intent_key("order-1")
    await shared.reported(ReceiptEvent.DELIVERED, reference=key)
    assert [await shared.state(each) for each in (ours, theirs)] == ["none", "none"]
    assert await shared.listed(unmatched=True) == {"default": ["r-1"]}
    await shared.reported(
        ReceiptEvent.READ, reference=key, provider_message_id=await message_id(shared, theirs, BETA)
    )
    assert [await shared.state(each) for each in (ours, theirs)] == ["none", "read"]


async def test_a_stranger_with_the_same_reference_and_message_id_gets_and_hinders_nothing(
    shared: Shared,
) -> None:
    """Eve has a target of the same name with credentials of her own: what the shared provider
    reports is never hers, whatever her items are called; and what hers reports is hers alone."""
    ours = await shared.sent(ACME, "order-1")
    hers = await shared.sent(EVE, "order-1")
    key, message = intent_key("order-1"), await message_id(shared, ours, ACME)
    await shared.reported(ReceiptEvent.DELIVERED, reference=key)
    assert [await shared.state(each) for each in (ours, hers)] == ["delivered", "none"]
    # At her own URL she may claim what she likes.
    await shared.reported(ReceiptEvent.BOUNCED, at=EVE, provider_message_id=message, permanent=True)
    await shared.reported(ReceiptEvent.COMPLAINED, at=EVE, reference=key)
    await shared.reported(
        ReceiptEvent.REPLIED, at=EVE, reference="ab" * 32, sender=BOB, text="STOP"
    )
    assert [await shared.state(each) for each in (ours, hers)] == ["delivered", "complained"]
    assert await shared.suppressed() == {"eve": sorted([ANN, BOB])}
    assert (await shared.listed())["acme"] == ["r-1"]
    # Nor does a reply to the shared number reach her.
    await shared.replied("STOP")
    assert await shared.suppressed() == {"acme": [ANN], "eve": sorted([ANN, BOB])}


async def test_a_stop_without_reference_holds_for_all_who_wrote_to_that_address(
    shared: Shared,
) -> None:
    await shared.sent(ACME, "one")
    await shared.sent(BETA, "two")
    await shared.sent(DEFAULT_WORKSPACE_NAME, "three", BOB)
    await shared.replied("STOP")
    assert await shared.suppressed() == {"acme": [ANN], "beta": [ANN]}
    assert await shared.listed() == {"acme": ["r-1"], "beta": ["r-1"]}
    reader = shared.outrider.person_reader
    assert (await reader.story(DEFAULT_SCOPE, ANN, MOST)).traces == []
    theirs = (await reader.story(shared.scopes[ACME], ANN, MOST)).traces
    assert any(each.receipt is not None for each in theirs)
    await shared.replied("START")
    assert await shared.suppressed() == {}


async def test_any_other_reply_is_shown_to_who_wrote_last_alone(shared: Shared) -> None:
    await shared.sent(BETA, "one")
    await shared.sent(ACME, "two")
    await shared.replied("My new address is …")
    assert await shared.listed() == {"acme": ["r-1"]}


async def test_a_stop_from_an_unknown_sender_waits_and_is_listed_for_the_operator(
    shared: Shared,
) -> None:
    await shared.sent(ACME, "one")
    await shared.replied("STOP", sender=BOB)
    assert await shared.suppressed() == {}
    assert await shared.listed(unmatched=True) == {"default": ["r-1"]}


async def test_the_later_word_counts_whichever_came_first(shared: Shared) -> None:
    await shared.sent(ACME, "one")
    now = shared.outrider.clock.now()
    await shared.replied("START", occurred_at=now)
    await shared.replied("STOP", occurred_at=now - timedelta(minutes=1))
    assert await shared.suppressed() == {}


async def test_a_repeat_changes_nothing_and_nobody_gets_it_twice(shared: Shared) -> None:
    theirs = await shared.sent(ACME, "one")
    for _ in range(2):
        receipt = Receipt("same", ReceiptEvent.DELIVERED, reference=intent_key("one"))
        await shared.taken(receipt)
    assert await shared.state(theirs) == "delivered"
    assert await shared.listed() == {"acme": ["same"]}


async def test_a_receipt_before_our_own_commit_is_matched_when_the_item_is_there(
    database: str, tmp_path: Path
) -> None:
    async with sharing(database, tmp_path, work=False) as shared:
        await shared.reported(ReceiptEvent.DELIVERED, reference=intent_key("late"))
        assert await shared.listed(unmatched=True) == {"default": ["r-1"]}
        async with working(shared.outrider):
            item = await shared.sent(ACME, "late")

            async def is_matched() -> bool:
                await shared.outrider.receipt_matcher.match_due()
                return await shared.state(item) == "delivered"

            await eventually(is_matched)
        assert await shared.listed() == {"acme": ["r-1"]}
        assert await shared.listed(unmatched=True) == {}
