"""Conformance: reserving and closing. A key is reserved once, and only its caller closes it."""

import asyncio

import pytest

from outrider.domain.errors import StoreRefused
from outrider.domain.ids import DEFAULT_SCOPE, Fence
from outrider.domain.phases import Action
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import Verdict
from outrider.domain.suppressions import OptOut
from outrider.kernel.transactions import reserving, steering, suppressions
from outrider.kernel.transactions.jobs import Hold
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    DOUBTED,
    ELSEWHERE,
    LATE,
    NOON,
    REJECTED,
    Workshop,
    again,
    at,
)


class LedgerConformance:
    async def test_a_reserved_row_is_queued_and_open_before_anybody_is_called(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        context = await shop.claim_one()
        first, _ = await shop.open(context, 0, 1)
        item = await shop.item(first)
        assert (item.status, item.intent_status, item.attempts) == ("queued", "PENDING", 1)
        assert (item.opened_at, item.closed_at) == (NOON, None)
        assert (item.run_id, item.job_id) == (run_id, context.job.id)
        assert (item.channel, item.provider) == ("sms", "sms")
        assert await shop.outcomes(first) == [None]

    async def test_a_key_is_reserved_once(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        (first,) = await shop.open(await shop.claim_one(), 0)
        context = await shop.take_over(now=at(31))
        repeated, fresh = shop.draft(context, 0), shop.draft(context, 1)
        assert await shop.reserve(context, [repeated, fresh], now=at(31)) == {fresh.id}
        items = await shop.items(run_id)
        assert {item.id for item in items.values()} == {first, fresh.id}

    async def test_a_key_that_a_first_holder_cannot_know_of_refuses_its_window(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        context = await shop.claim_one()
        (first,) = await shop.open(context, 0)
        drafts = [shop.draft(context, 1), shop.draft(context, 0)]
        with pytest.raises(StoreRefused):
            await store.write(reserving.reserve_fresh(context, drafts, at(1)))
        assert {item.id for item in (await shop.items(run_id)).values()} == {first}

    async def test_a_first_holder_opens_a_window_with_one_statement(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        drafts = [
            shop.draft(context, 0),
            shop.draft(context, 1, status=ItemStatus.SKIPPED, reason="no_address"),
        ]
        opened = await store.write(reserving.reserve_fresh(context, drafts, at(1)))
        assert opened == {drafts[0].id}
        items = await shop.items(run_id)
        assert (items["lead-0"].status, items["lead-0"].attempts) == ("queued", 1)
        assert (items["lead-1"].status, items["lead-1"].attempts) == ("skipped", 0)

    async def test_one_statement_opens_nothing_for_a_job_that_is_lost_or_suspended(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        lost = await shop.claim_one()
        await shop.take_over(now=at(31))
        assert (
            await store.write(reserving.reserve_fresh(lost, [shop.draft(lost, 0)], at(32))) is None
        )
        other_run_id = await shop.launch(2)
        suspended = await shop.claim_one(now=at(33))
        await store.write(steering.steer_jobs(other_run_id, Action.PAUSE, at(34)))
        drafts = [shop.draft(suspended, 0)]
        assert await store.write(reserving.reserve_fresh(suspended, drafts, at(35))) is None
        assert not await shop.items(run_id) | await shop.items(other_run_id)

    async def test_a_key_is_reserved_once_however_many_try_at_the_same_time(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(5)
        await shop.claim_one()
        context = await shop.take_over(now=at(31))
        windows = [[shop.draft(context, number) for number in range(5)] for _ in range(6)]
        opened = await asyncio.gather(
            *(shop.reserve(context, window, now=at(31)) for window in windows)
        )
        won = [outbox_id for ids in opened if not isinstance(ids, Hold) for outbox_id in ids]
        assert len(won) == 5
        assert {item.id for item in (await shop.items(run_id)).values()} == set(won)

    async def test_skipped_and_failed_drafts_are_terminal_at_once(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        drafts = [
            shop.draft(context, 0, status=ItemStatus.SKIPPED, reason="no_address"),
            shop.draft(context, 1, status=ItemStatus.FAILED, reason="render_failed", error="name"),
            shop.draft(context, 2),
        ]
        assert await shop.reserve(context, drafts) == {drafts[2].id}
        items = await shop.items(run_id)
        dropped, failed = items["lead-0"], items["lead-1"]
        assert (dropped.status, dropped.reason, dropped.attempts) == ("skipped", "no_address", 0)
        assert (failed.status, failed.reason, failed.error) == ("failed", "render_failed", "name")
        assert await shop.outcomes(dropped.id) == []
        counted = await shop.accounting(run_id)
        assert (counted.skipped, counted.failed, counted.waiting) == (1, 1, 1)

    async def test_suppressed_addresses_are_skipped_inside_the_reservation(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(3)
        context = await shop.claim_one()
        drafts = [shop.draft(context, number) for number in range(3)]
        named = [draft._replace(address=f"{draft.recipient_id}@example.test") for draft in drafts]
        channel = Channel.SMS.value
        await store.write(
            suppressions.suppress(
                DEFAULT_SCOPE, channel, ["LEAD-0@example.TEST"], OptOut("opt-out"), NOON
            )
        )
        await store.write(
            suppressions.suppress(
                DEFAULT_SCOPE, "email", ["lead-1@example.test"], OptOut("opt-out"), NOON
            )
        )
        await store.write(
            suppressions.suppress(
                ELSEWHERE, channel, ["lead-2@example.test"], OptOut("opt-out"), NOON
            )
        )
        assert await shop.reserve(context, named) == {drafts[1].id, drafts[2].id}
        opted_out = (await shop.items(run_id))["lead-0"]
        assert (opted_out.status, opted_out.reason) == ("skipped", "suppressed")
        assert opted_out.opened_at is None

    async def test_an_address_may_be_suppressed_twice(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        for reason in ("opt-out", "bounce"):
            await store.write(
                suppressions.suppress(DEFAULT_SCOPE, "sms", ["+447700000000"], OptOut(reason), NOON)
            )
        context = await shop.claim_one()
        assert await shop.reserve(context, [shop.draft(context, 0)]) == set()
        assert (await shop.items(run_id))["lead-0"].status == "skipped"

    async def test_who_lost_the_job_reserves_nothing(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        zombie = await shop.claim_one()
        await shop.take_over(now=at(31))
        assert await shop.reserve(zombie, [shop.draft(zombie, 0)], now=at(32)) is Hold.LOST
        assert await shop.items(run_id) == {}

    async def test_reserving_keeps_the_lease_alive(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        await shop.open(context, 0, now=at(25))
        assert await shop.rescue(at(31)) == 0

    async def test_an_accepted_call_is_closed_as_sent(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, ACCEPTED), now=at(2))
        item = await shop.item(item_id)
        assert (item.status, item.intent_status, item.closed_at) == ("sent", "ACCEPTED", at(2))
        assert (item.provider_message_id, item.progress) == ("m-1", "ANSWERED")
        assert await shop.outcomes(item_id) == ["accepted"]

    async def test_a_late_acceptance_is_sent_and_exhausted(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, LATE))
        item = await shop.item(item_id)
        assert (item.status, item.intent_status) == ("sent", "EXHAUSTED")
        assert item.exhausted_reason == "deadline_exceeded"

    @pytest.mark.parametrize("status", [ItemStatus.CALLED, ItemStatus.POSTED])
    async def test_success_keeps_the_channels_word_for_it(
        self, store: Store, status: ItemStatus
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        verdict = Verdict(status, ACCEPTED.intent_status, ACCEPTED.progress)
        await shop.close(context, (item_id, verdict))
        assert (await shop.item(item_id)).status == status

    async def test_a_group_of_results_is_closed_each_in_its_own_way(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(4)
        context = await shop.claim_one()
        ids = await shop.open(context, 0, 1, 2, 3)
        verdicts = [ACCEPTED, REJECTED, again(60), DOUBTED]
        await shop.close(context, *zip(ids, verdicts, strict=True), now=at(1))
        sent, failed, waiting, doubted = [await shop.item(item_id) for item_id in ids]
        assert sent.status == "sent"
        assert (failed.status, failed.intent_status) == ("failed", "REJECTED")
        assert (failed.reason, failed.error) == ("invalid_recipient", "no such one")
        assert (waiting.status, waiting.next_attempt_at) == ("queued", at(60))
        assert (waiting.opened_at, waiting.reason) == (None, "provider_failure")
        assert (doubted.status, doubted.doubted_at) == ("queued", at(1))
        assert doubted.progress == "SENT_NO_ANSWER"
        outcomes = [await shop.outcomes(item_id) for item_id in ids]
        assert outcomes == [["accepted"], ["rejected"], ["rejected"], [None]]
        counted = await shop.accounting(run_id)
        assert counted.as_document() == {
            "intended": 4, "waiting": 1, "inDoubt": 1, "sent": 1, "failed": 1, "skipped": 0,
        }  # fmt: skip

    @pytest.mark.parametrize("verdict", [ACCEPTED, REJECTED, again(60), DOUBTED])
    async def test_only_the_attempt_that_was_made_can_be_closed(
        self, store: Store, verdict: Verdict
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        before = await shop.item(item_id)
        stranger = context.job._replace(fence=Fence(context.job.fence + 1))
        await shop.close(await shop.context(stranger), (item_id, verdict), now=at(1))
        await shop.close(context, (item_id, verdict), attempt=2, now=at(1))
        assert await shop.item(item_id) == before
        assert await shop.outcomes(item_id) == [None]

    @pytest.mark.parametrize("verdict", [ACCEPTED, REJECTED, again(60), DOUBTED])
    async def test_a_terminal_row_is_not_closed_a_second_time(
        self, store: Store, verdict: Verdict
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, ACCEPTED))
        before = await shop.item(item_id)
        await shop.close(context, (item_id, verdict), now=at(1))
        assert await shop.item(item_id) == before

    async def test_a_result_that_is_committed_twice_counts_once(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        # A commit whose answer was lost is retried with the same results.
        for _ in range(2):
            await shop.close(context, (item_id, again(60)))
        assert (await shop.item(item_id)).next_attempt_at == at(60)
        assert await shop.outcomes(item_id) == ["rejected"]

    async def test_a_worker_that_lost_the_job_may_still_close_the_call_it_made(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        zombie = await shop.claim_one()
        (item_id,) = await shop.open(zombie, 0)
        await shop.take_over(now=at(31))
        await shop.close(zombie, (item_id, ACCEPTED), now=at(32))
        assert (await shop.item(item_id)).status == "sent"
        assert (await shop.accounting(run_id)).sent == 1
