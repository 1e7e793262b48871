"""Conformance: an item leaves doubt by a verdict with its evidence, and its job wakes for it."""

from datetime import datetime

import pytest

from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId, Scope
from outrider.domain.jobs import Completed, Parked
from outrider.domain.states import JobOutcome
from outrider.kernel.transactions import doubts, jobs, ledger, paging
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.jobs import Hold
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    DOUBTED,
    ELSEWHERE,
    MOST,
    NOON,
    OTHER,
    Workshop,
    again,
    at,
)


class DoubtConformance:
    async def test_items_in_doubt_are_listed_in_pages(self, store: Store) -> None:
        shop = Workshop(store)
        run_id, ids = await _doubted(shop, 3)
        await _doubted(shop, 1)
        first = await store.read(doubts.doubts_page(DEFAULT_SCOPE, run_id, paging.FIRST, 2))
        rest = await store.read(doubts.doubts_page(DEFAULT_SCOPE, run_id, first[-1].id, 2))
        assert [doubt.id for doubt in [*first, *rest]] == sorted(ids)
        everywhere = await store.read(doubts.doubts_page(DEFAULT_SCOPE, None, paging.FIRST, MOST))
        assert len(everywhere) == 4
        assert (first[0].reason, first[0].attempts) == ("timeout", 1)
        assert (first[0].opened_at, first[0].doubted_at) == (NOON, at(1))
        assert await store.read(doubts.doubts_page(ELSEWHERE, None, paging.FIRST, MOST)) == []

    @pytest.mark.parametrize(
        ("verdict", "status", "intent_status", "run_status"),
        [
            (DoubtVerdict.SENT, "sent", "ACCEPTED", "completed"),
            (DoubtVerdict.FAILED, "failed", "EXHAUSTED", "failed"),
        ],
    )
    async def test_a_verdict_settles_the_item_and_then_its_job(
        self,
        store: Store,
        verdict: DoubtVerdict,
        status: str,
        intent_status: str,
        run_status: str,
    ) -> None:
        shop = Workshop(store)
        run_id, (item_id,) = await _doubted(shop, 1)
        assert await _resolve(shop, [item_id], verdict, now=at(60)) == [item_id]
        item = await shop.item(item_id)
        assert (item.status, item.intent_status) == (status, intent_status)
        assert (item.doubted_at, item.closed_at) == (None, at(60))
        assert item.exhausted_reason == ("max_attempts" if intent_status == "EXHAUSTED" else None)
        context = await shop.claim_one(now=at(60))
        assert isinstance(await shop.settle(context, now=at(61)), Completed)
        assert await shop.run_status(run_id) == run_status
        assert (await shop.accounting(run_id)).in_doubt == 0

    async def test_a_resubmission_opens_the_same_attempt_again_without_a_doubt(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        run_id, (item_id,) = await _doubted(shop, 1)
        await _resolve(shop, [item_id], DoubtVerdict.RESUBMIT, now=at(60))
        waiting = await shop.item(item_id)
        assert (waiting.status, waiting.next_attempt_at) == ("queued", at(60))
        assert await shop.outcomes(item_id) == ["disproved"]
        assert (await shop.accounting(run_id)).waiting == 1
        context = await shop.claim_one(now=at(60))
        reopened = await shop.reopen(context, item_id, now=at(61))
        assert not isinstance(reopened, Hold)
        assert [(row.attempt, row.repeats) for row in reopened] == [(1, 1)]
        assert not any(row.maybe_received for row in reopened)
        await shop.close(context, (item_id, ACCEPTED), now=at(62))
        assert await shop.settle(context, now=at(63)) == Completed(JobOutcome.COMPLETED)
        assert await shop.outcomes(item_id) == ["disproved", "accepted"]

    async def test_the_verdict_resubmit_revives_an_abandoned_job(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1, max_attempts=1)
        [item_id] = await shop.open(await shop.claim_one(), 0)
        assert await shop.rescue(at(31)) == 1
        # A job without an attempt left rests first.
        given_up = await shop.claim_one(OTHER, now=at(50))
        assert given_up.job.is_exhausted
        await store.write(ledger.bury(given_up.job, "job_dead", at(10_000), at(50)))
        assert await shop.settle(given_up, now=at(50)) == Parked(None)
        await _resolve(shop, [item_id], DoubtVerdict.RESUBMIT, now=at(60))
        revived = await shop.claim_one(now=at(60))
        assert not revived.job.is_exhausted
        assert await shop.reopen(revived, item_id, now=at(61))

    async def test_only_the_holder_of_a_job_can_give_it_up(self, store: Store) -> None:
        shop = Workshop(store)
        await shop.launch(1)
        lost = await shop.claim_one()
        [item_id] = await shop.open(lost, 0)
        await shop.close(lost, (item_id, again(5)))
        await shop.take_over(now=at(31))
        assert not await store.write(ledger.bury(lost.job, "job_dead", at(60), at(32)))
        assert (await shop.item(item_id)).status == "queued"

    async def test_a_retry_does_not_wait_for_the_verdict_on_another_item(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(2)
        lost = await shop.claim_one()
        ids = await shop.open(lost, 0, 1)
        holder = await shop.take_over(now=at(31))
        await store.write(ledger.doubt_abandoned(holder.job, at(31)))
        assert await shop.settle(holder, now=at(31)) == Parked(None)
        assert await store.write(jobs.requeue(at(32))) == 0
        await shop.close(lost, (ids[0], again(40)), now=at(33))
        assert await store.write(jobs.requeue(at(34))) == 1
        context = await shop.claim_one(now=at(34))
        assert await shop.settle(context, now=at(34)) == Parked(at(40))

    @pytest.mark.parametrize("verdict", DoubtVerdict)
    async def test_every_verdict_is_in_the_audit_log_with_its_evidence(
        self, store: Store, verdict: DoubtVerdict
    ) -> None:
        shop = Workshop(store)
        run_id, ids = await _doubted(shop, 2)
        await _resolve(shop, ids, verdict, now=at(60))
        details = [
            detail for event, detail in await shop.audit(run_id) if event == "doubt.resolved"
        ]
        told = {"verdict": verdict.value, "evidence": "the provider's log", "kind": "person"}
        assert [{**told, "source": detail["source"]} for detail in details] == details
        assert len(details) == 2

    @pytest.mark.parametrize("verdict", DoubtVerdict)
    async def test_an_item_that_is_not_in_doubt_accepts_no_verdict(
        self, store: Store, verdict: DoubtVerdict
    ) -> None:
        shop = Workshop(store)
        run_id = await shop.launch(2)
        context = await shop.claim_one()
        opened, sent = await shop.open(context, 0, 1)
        await shop.close(context, (sent, ACCEPTED))
        before = await shop.items(run_id)
        events = await shop.events(run_id)
        assert await _resolve(shop, [opened, sent], verdict, now=at(60)) == []
        assert await shop.items(run_id) == before
        assert await shop.events(run_id) == events

    async def test_a_verdict_counts_once(self, store: Store) -> None:
        shop = Workshop(store)
        _, (item_id,) = await _doubted(shop, 1)
        assert await _resolve(shop, [item_id], DoubtVerdict.SENT, now=at(60)) == [item_id]
        assert await _resolve(shop, [item_id], DoubtVerdict.FAILED, now=at(61)) == []
        assert (await shop.item(item_id)).status == "sent"

    async def test_another_workspace_cannot_resolve_our_doubts(self, store: Store) -> None:
        shop = Workshop(store)
        _, (item_id,) = await _doubted(shop, 1)
        resolved = await _resolve(
            shop, [item_id], DoubtVerdict.RESUBMIT, now=at(60), scope=ELSEWHERE
        )
        assert resolved == []
        assert (await shop.item(item_id)).doubted_at is not None

    async def test_an_item_doubted_without_an_open_attempt_takes_every_verdict(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        statuses = {}
        for verdict in DoubtVerdict:
            await shop.launch(1)
            dead = await shop.claim_one()
            (item_id,) = await shop.open(dead, 0)
            await shop.close(dead, (item_id, again(5, maybe_received=True)))
            await store.write(ledger.bury(dead.job, "job_dead", at(10_000), at(6)))
            assert await _resolve(shop, [item_id], verdict, now=at(60)) == [item_id]
            statuses[verdict] = (await shop.item(item_id)).status
            await store.write(jobs.release(dead.job, at(10**6), at(61)))
        assert statuses == {
            DoubtVerdict.SENT: "sent",
            DoubtVerdict.FAILED: "failed",
            DoubtVerdict.RESUBMIT: "queued",
        }

    async def test_a_job_stays_parked_until_its_last_doubt_is_resolved_otherwise(
        self, store: Store
    ) -> None:
        shop = Workshop(store)
        await shop.launch(2)
        zombie = await shop.claim_one()
        ids = await shop.open(zombie, 0, 1)
        context = await shop.take_over(now=at(31))
        await store.write(ledger.doubt_abandoned(context.job, at(32)))
        assert await shop.settle(context, now=at(33)) == Parked(None)
        # The lost worker's answers end the doubts one by one, without waking the job.
        await shop.close(zombie, (ids[0], ACCEPTED), now=at(34))
        assert await store.write(jobs.requeue(at(35))) == 0
        await shop.close(zombie, (ids[1], ACCEPTED), now=at(36))
        assert await store.write(jobs.requeue(at(37))) == 1
        again_ours = await shop.claim_one(now=at(37))
        assert await shop.settle(again_ours, now=at(38)) == Completed(JobOutcome.COMPLETED)


async def _doubted(shop: Workshop, count: int) -> tuple[RunId, list[OutboxId]]:
    """A run whose only job is parked because all its items are in doubt."""
    run_id = await shop.launch(count)
    context = await shop.claim_one()
    ids = await shop.open(context, *range(count))
    await shop.close(context, *((item_id, DOUBTED) for item_id in ids), now=at(1))
    assert await shop.settle(context, now=at(2)) == Parked(None)
    return run_id, ids


async def _resolve(
    shop: Workshop,
    ids: list[OutboxId],
    verdict: DoubtVerdict,
    *,
    now: datetime,
    scope: Scope = DEFAULT_SCOPE,
) -> list[OutboxId]:
    return await shop.store.write(
        doubts.resolve(scope, ids, verdict, "the provider's log", "suite", shop.ids, now)
    )
