"""Conformance: the next attempt of an item, and what a former holder of its job left behind."""

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.kernel.transactions import ledger, ledger_items, suppressions
from outrider.kernel.transactions.jobs import Hold
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import ACCEPTED, NOON, WITHHELD, Workshop, again, at


class RetryConformance:
    async def test_a_waiting_item_is_opened_again_with_the_next_number(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        before = await shop.item(item_id)
        await shop.close(context, (item_id, again(5)), now=at(1))
        reopened = await shop.reopen(context, item_id, now=at(5))
        assert not isinstance(reopened, Hold)
        (attempt,) = reopened
        assert (attempt.id, attempt.attempt) == (item_id, 2)
        assert not attempt.maybe_received
        assert attempt.submitted_at == NOON
        item = await shop.item(item_id)
        assert (item.opened_at, item.next_attempt_at) == (at(5), None)
        assert item.reference == before.reference
        assert await shop.outcomes(item_id) == ["rejected", None]

    async def test_an_attempt_of_our_own_that_is_open_is_not_opened_again(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        assert await shop.reopen(context, item_id, now=at(1)) == []
        assert (await shop.item(item_id)).attempts == 1
        assert await shop.outcomes(item_id) == [None]

    async def test_a_worker_that_lost_the_job_reopens_nothing(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        zombie = await shop.claim_one()
        (item_id,) = await shop.open(zombie, 0)
        await shop.close(zombie, (item_id, again(5)))
        await shop.take_over(now=at(31))
        assert await shop.reopen(zombie, item_id, now=at(32)) is Hold.LOST
        assert (await shop.item(item_id)).attempts == 1

    async def test_an_abandoned_call_is_archived_when_the_same_attempt_opens_again(
        self, store: Store
    ) -> None:
        """S2: contracts count attempts, and a crash makes none."""
        shop = Workshop(store)
        await shop.launch(1)
        dead = await shop.claim_one()
        (item_id,) = await shop.open(dead, 0)
        context = await shop.take_over(now=at(31))
        reopened = await shop.reopen(context, item_id, now=at(32))
        assert not isinstance(reopened, Hold)
        (attempt,) = reopened
        assert (attempt.attempt, attempt.repeats) == (1, 1)
        assert attempt.maybe_received
        assert await shop.outcomes(item_id) == ["abandoned", None]

    async def test_the_answer_of_an_abandoned_call_comes_too_late_for_its_repeat(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        zombie = await shop.claim_one()
        (item_id,) = await shop.open(zombie, 0)
        context = await shop.take_over(now=at(31))
        await shop.reopen(context, item_id, now=at(32))
        await shop.close(zombie, (item_id, ACCEPTED), now=at(33))
        assert (await shop.item(item_id)).status == "queued"
        await shop.close(context, (item_id, ACCEPTED), now=at(34))
        assert await shop.outcomes(item_id) == ["abandoned", "accepted"]

    async def test_a_repeat_that_is_given_back_is_still_the_same_attempt(
        self, store: Store
    ) -> None:
        """S2: neither handing it back nor opening it again counts."""
        shop = Workshop(store)
        await shop.launch(1)
        dead = await shop.claim_one()
        (item_id,) = await shop.open(dead, 0)
        context = await shop.take_over(now=at(31))
        await shop.reopen(context, item_id, now=at(32))
        await shop.close(context, (item_id, WITHHELD), now=at(33))
        assert (await shop.item(item_id)).attempts == 1
        reopened = await shop.reopen(context, item_id, now=at(34))
        assert not isinstance(reopened, Hold)
        assert [(row.attempt, row.repeats) for row in reopened] == [(1, 1)]
        await shop.close(context, (item_id, again(40)), now=at(35))
        between = await shop.item(item_id)
        assert (between.attempts, between.engine_attempt) == (1, 2)
        reopened = await shop.reopen(context, item_id, now=at(40))
        assert not isinstance(reopened, Hold)
        assert [(row.attempt, row.repeats) for row in reopened] == [(2, 0)]
        second = await shop.item(item_id)
        assert (second.attempts, second.engine_attempt) == (2, 1)
        assert await shop.outcomes(item_id) == ["abandoned", "rejected", None]

    async def test_an_item_abandoned_too_often_says_so_in_its_doubt(self, store: Store) -> None:
        """S2: the repeats of an attempt are bounded."""
        shop = Workshop(store)
        await shop.launch(1)
        (item_id,) = await shop.open(await shop.claim_one(), 0)
        seconds = 0
        for _ in range(CALL_REPEATS_MAX):
            seconds += 31
            context = await shop.take_over(now=at(seconds))
            await shop.reopen(context, item_id, now=at(seconds))
        last = await shop.take_over(now=at(seconds + 31))
        (row,) = await store.read(ledger.job_rows(last.job))
        assert (row.attempts, row.repeats, bool(row.is_open)) == (1, CALL_REPEATS_MAX, True)
        await store.write(ledger.doubt(last.job, [item_id], at(seconds + 32)))
        assert (await shop.item(item_id)).reason == "worker_lost_repeatedly"

    async def test_an_acceptance_by_proof_keeps_what_the_gateway_said(self, store: Store) -> None:
        """S1: nothing is erased."""
        shop = Workshop(store)
        await shop.launch(2)
        dead = await shop.claim_one()
        first, second = await shop.open(dead, 0, 1)
        context = await shop.take_over(now=at(31))
        await shop.reopen(context, first, second, now=at(32))
        proven = ACCEPTED._replace(reason="duplicate_reference", error="known since noon")
        await shop.close(context, (first, proven), (second, ACCEPTED), now=at(33))
        item = await shop.item(first)
        assert (item.status, item.reason, item.error) == (
            "sent", "duplicate_reference", "known since noon",
        )  # fmt: skip
        assert ((await shop.item(second)).status, (await shop.item(second)).reason) == (
            "sent",
            None,
        )
        attempts = await store.read(ledger_items.attempts_of(first))
        assert [(each.number, each.repeat, each.outcome, each.reason) for each in attempts] == [
            (1, 0, "abandoned", "worker_lost"),
            (1, 1, "accepted", "duplicate_reference"),
        ]

    async def test_an_opt_out_between_two_attempts_skips_the_item(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, again(5)))
        await store.write(
            suppressions.suppress(DEFAULT_SCOPE, "sms", ["+447700000000"], OptOut("stop"), at(1))
        )
        assert await shop.reopen(context, item_id, now=at(5)) == []
        item = await shop.item(item_id)
        assert (item.status, item.reason, item.next_attempt_at) == ("skipped", "suppressed", None)

    async def test_an_opt_out_after_an_unanswered_call_leaves_the_item_in_doubt(
        self, store: Store
    ) -> None:
        """A8: a repeat might be what sends it, so not even a silence is asked about again."""
        shop = Workshop(store)
        await shop.launch(1)
        context = await shop.claim_one()
        (item_id,) = await shop.open(context, 0)
        await shop.close(context, (item_id, again(5, maybe_received=True)))
        stop = OptOut("stop", SuppressionSource.STOP)
        await store.write(
            suppressions.suppress(DEFAULT_SCOPE, "sms", ["+447700000000"], stop, at(1))
        )
        assert await shop.reopen(context, item_id, now=at(5)) == []
        item = await shop.item(item_id)
        assert (item.status, item.reason, item.doubted_at) == ("queued", "suppressed", at(5))

    async def test_an_opt_out_after_a_worker_died_leaves_the_item_in_doubt_and_not_called_again(
        self, store: Store
    ) -> None:
        """A8: an attempt left open by a dead worker is not repeated to a recipient who has opted
        out since."""
        shop = Workshop(store)
        await shop.launch(1)
        (item_id,) = await shop.open(await shop.claim_one(), 0)
        stop = OptOut("stop", SuppressionSource.STOP)
        await store.write(
            suppressions.suppress(DEFAULT_SCOPE, "sms", ["+447700000000"], stop, at(1))
        )
        context = await shop.take_over(now=at(31))
        assert await shop.reopen(context, item_id, now=at(32)) == []
        item = await shop.item(item_id)
        assert (item.reason, item.doubted_at, item.maybe_received) == ("suppressed", at(32), True)
        assert await shop.outcomes(item_id) == ["abandoned"]

    async def test_attempts_left_open_by_a_former_holder_can_be_put_in_doubt(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        dead = await shop.claim_one()
        (abandoned,) = await shop.open(dead, 0)
        context = await shop.take_over(now=at(31))
        (ours,) = await shop.open(context, 1, now=at(31))
        assert await store.write(ledger.doubt_abandoned(context.job, at(32))) == 1
        assert await store.write(ledger.doubt_abandoned(context.job, at(33))) == 0
        doubted = await shop.item(abandoned)
        assert (doubted.doubted_at, doubted.reason) == (at(32), "worker_lost")
        assert (await shop.item(ours)).doubted_at is None
        counted = await shop.accounting(run_id)
        assert (counted.in_doubt, counted.waiting) == (1, 1)

    async def test_an_item_in_doubt_is_never_opened_again(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        dead = await shop.claim_one()
        (item_id,) = await shop.open(dead, 0)
        context = await shop.take_over(now=at(31))
        await store.write(ledger.doubt_abandoned(context.job, at(32)))
        assert await shop.reopen(context, item_id, now=at(33)) == []
        item = await shop.item(item_id)
        assert (item.attempts, item.doubted_at) == (1, at(32))
        assert await shop.outcomes(item_id) == [None]

    async def test_the_answer_of_a_lost_worker_ends_the_doubt(self, store: Store) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(1)
        zombie = await shop.claim_one()
        (item_id,) = await shop.open(zombie, 0)
        context = await shop.take_over(now=at(31))
        await store.write(ledger.doubt_abandoned(context.job, at(32)))
        await shop.close(zombie, (item_id, ACCEPTED), now=at(33))
        item = await shop.item(item_id)
        assert (item.status, item.doubted_at) == ("sent", None)
        assert (await shop.accounting(run_id)).in_doubt == 0

    async def test_a_job_that_is_given_up_fails_what_waits_and_doubts_what_may_have_arrived(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(4)
        dead = await shop.claim_one()
        waiting, silent, abandoned, sent = await shop.open(dead, 0, 1, 2, 3)
        await shop.close(
            dead, (waiting, again(5)), (silent, again(5, maybe_received=True)), (sent, ACCEPTED)
        )
        context = await shop.take_over(now=at(31))
        await store.write(ledger.bury(context.job, "job_dead", at(10_000), at(32)))
        failed = await shop.item(waiting)
        assert (failed.status, failed.reason) == ("failed", "job_dead")
        assert (await shop.item(silent)).doubted_at == at(32)
        assert (await shop.item(abandoned)).doubted_at == at(32)
        assert (await shop.item(sent)).status == "sent"
        counted = await shop.accounting(run_id)
        assert (counted.failed, counted.in_doubt, counted.sent) == (1, 2, 1)

    async def test_a_later_claim_finds_what_an_earlier_one_left(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(4)
        dead = await shop.claim_one()
        waiting, sent, opened = await shop.open(dead, 0, 1, 2)
        await shop.close(dead, (waiting, again(40)), (sent, ACCEPTED))
        context = await shop.take_over(now=at(31))
        rows = {row.id: row for row in await store.read(ledger.job_rows(context.job))}
        assert set(rows) == {waiting, sent, opened}
        assert (rows[waiting].next_attempt_at, bool(rows[waiting].is_open)) == (at(40), False)
        assert (rows[sent].status, bool(rows[sent].is_open)) == ("sent", False)
        assert (rows[opened].status, bool(rows[opened].is_open)) == ("queued", True)
        assert not any(row.is_doubted for row in rows.values())
