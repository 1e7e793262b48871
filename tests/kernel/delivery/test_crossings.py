"""Where several rules meet in one item: what is on record stays true, and nobody gets stuck."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.suppressions import OptOut, SuppressionSource
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.transactions import closing, doubts, jobs, ledger, ledger_items, suppressions
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.ledger import JobContext, Member
from outrider.kernel.transactions.reserving import Draft
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.launches import launch, message, observe, people, target
from outrider.testing.store_suite.workshop import (
    ACCEPTED,
    CONTRACT,
    LEASE_SECONDS,
    ONE,
    OTHER,
    REJECTED,
    Workshop,
    again,
    at,
)
from tests.support.controls import control
from tests.support.eventually import eventually
from tests.support.foundations import foundation
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened, work_until, work_until_terminal

STOP = OptOut("said STOP", SuppressionSource.STOP)


async def resubmit(shop: Workshop, item: OutboxId, seconds: float) -> None:
    settled = await shop.store.write(
        doubts.resolve(
            DEFAULT_SCOPE, [item], DoubtVerdict.RESUBMIT, "not in its log", "somebody", shop.ids,
            at(seconds),
        )
    )  # fmt: skip
    assert settled == [item]


async def test_an_acceptance_is_kept_that_comes_after_a_verdict_had_the_call_repeated(
    store: Store,
) -> None:
    """X16 and D24: the repeat is the same attempt, and yet another call."""
    shop = Workshop(store)
    await shop.launch(1)
    frozen = await shop.claim_one()
    (item,) = await shop.open(frozen, 0)
    second = await shop.take_over(now=at(60))
    await store.write(ledger.doubt(second.job, [item], at(60)))
    await resubmit(shop, item, 61)
    reopened = await shop.reopen(second, item, now=at(62))
    assert not isinstance(reopened, Hold)
    assert [(each.attempt, each.repeats) for each in reopened] == [(1, 1)]
    await shop.close(second, (item, ACCEPTED), now=at(63))

    thawed = ClosedAttempt(item, 1, frozen.job.fence, at(70), ACCEPTED)
    own = ClosedAttempt(item, 1, second.job.fence, at(63), ACCEPTED)
    await store.write(closing.close([thawed], at(70)))
    await store.write(closing.note_late([thawed, own], shop.ids, at(70)))
    late = await store.read(ledger_items.late_acceptances_of(item))
    assert [each.answered_at for each in late] == [at(70)]


async def test_an_acceptance_that_still_counts_is_not_late(store: Store) -> None:
    """The verdict said that it never arrived, and nobody has called again yet."""
    shop = Workshop(store)
    await shop.launch(1)
    frozen = await shop.claim_one()
    (item,) = await shop.open(frozen, 0)
    second = await shop.take_over(now=at(60))
    await store.write(ledger.doubt(second.job, [item], at(60)))
    await resubmit(shop, item, 61)
    thawed = ClosedAttempt(item, 1, frozen.job.fence, at(70), ACCEPTED)
    await store.write(closing.close([thawed], at(70)))
    await store.write(closing.note_late([thawed], shop.ids, at(70)))
    assert (await shop.item(item)).status == ItemStatus.SENT
    assert await store.read(ledger_items.late_acceptances_of(item)) == []


async def test_a_repeat_that_met_an_opt_out_can_be_called_again_and_archived(store: Store) -> None:
    """A8 and D24: each call of an attempt is in the history once, under a number of its own."""
    shop = Workshop(store)
    await shop.launch(1)
    (item,) = await shop.open(await shop.claim_one(), 0)
    second = await shop.take_over(now=at(60))
    await shop.reopen(second, item, now=at(60))
    third = await shop.take_over(now=at(120))
    address = (await shop.item(item)).address
    assert address is not None
    await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [address], STOP, at(121)))
    assert await shop.reopen(third, item, now=at(122)) == []
    assert (await shop.item(item)).reason == "suppressed"
    await store.write(suppressions.lift(DEFAULT_SCOPE, "sms", [address], None))
    await resubmit(shop, item, 123)
    reopened = await shop.reopen(third, item, now=at(124))
    assert not isinstance(reopened, Hold)
    assert [(each.attempt, each.repeats) for each in reopened] == [(1, 2)]
    await shop.close(third, (item, again(130)), now=at(125))
    assert await shop.outcomes(item) == ["abandoned", "abandoned", "rejected"]


async def test_a_fresh_window_skips_a_key_held_by_an_ended_item_and_reserves_the_rest(
    store: Store,
) -> None:
    """B2: whether its holder has ended or not, the whole window is refused, and reserved singly."""
    shop = Workshop(store)
    await shop.launch(4, batch_size=2)
    first, second = [await shop.context(job) for job in await shop.claim(most=2)]
    (holder,) = await shop.open(first, 0)
    await shop.close(first, (holder, ACCEPTED))
    shared = shop.draft(first, 0).key
    held = [shop.draft(second, 2)._replace(key=shared), shop.draft(second, 3)]
    reserver = Reserver(
        foundation(store, clock=FakeClock(at(1)), limits=Limits(lease_seconds=LEASE_SECONDS))
    )
    opened = await reserver.reserve(second, held)
    assert not isinstance(opened, Hold)
    assert [each.outbox_id for each in opened] == [held[1].id]
    rows = await store.read(ledger.job_rows(second.job))
    assert sorted(row.status for row in rows) == ["queued", "skipped"]


async def retried_after_failing(outrider: Outrider, shop: Workshop) -> tuple[RunId, OutboxId]:
    """A retry of two who were refused; its run, and the refused item of the first of them."""
    run_id = await shop.launch(2)
    job = await shop.claim_one(now=outrider.clock.now())
    refused, other = await shop.open(job, 0, 1, now=outrider.clock.now())
    await shop.close(job, (refused, REJECTED), (other, REJECTED), now=outrider.clock.now())
    await shop.settle(job, now=outrider.clock.now())
    run, _ = await observe(outrider, run_id)
    retried = await control(outrider, run.campaign_id, Action.RETRY)
    assert retried.run_id is not None
    return retried.run_id, refused


async def accept_late(database: str, item: OutboxId) -> None:
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO late_acceptances (outbox_id, attempt, fence, answered_at, recorded_at)"
            f" VALUES ('{item}', 1, 1, '2026-01-01T12:00:00.000000Z',"
            " '2026-01-01T12:00:00.000000Z')"
        )


async def test_one_who_waits_in_a_retry_and_was_accepted_before_is_skipped_alone(
    database: str, tmp_path: Path
) -> None:
    """X16: the worker of the run before thawed while the retry was under way."""
    async with (
        Sandbox() as sandbox,
        opened(
            database, tmp_path, target(CONTRACT.submission_target, "sms", sandbox.http_url)
        ) as outrider,
    ):
        shop = Workshop(outrider.store)
        run_id, refused = await retried_after_failing(outrider, shop)
        job, now = await shop.claim_one(now=outrider.clock.now()), outrider.clock.now()
        (waiting,) = await shop.open(job, 0, now=now)
        await shop.close(job, (waiting, again(0)), now=now)
        await outrider.store.write(jobs.release(job.job, now, now))
        await accept_late(database, refused)
        counted = await work_until_terminal(outrider, run_id)
        assert counted == Accounting(intended=2, sent=1, skipped=1)
        assert (await shop.item(waiting)).reason == "accepted_late"


async def test_a_recipient_accepted_before_a_stopped_retry_reached_them_is_not_sent_to_again(
    database: str, tmp_path: Path
) -> None:
    """X16 and D9: what a stop leaves over is retried, and they are no part of it."""
    async with (
        Sandbox() as sandbox,
        opened(
            database, tmp_path, target(CONTRACT.submission_target, "sms", sandbox.http_url)
        ) as outrider,
    ):
        shop = Workshop(outrider.store)
        run_id, refused = await retried_after_failing(outrider, shop)
        await accept_late(database, refused)
        run, _ = await observe(outrider, run_id)
        await control(outrider, run.campaign_id, Action.STOP)
        counted = await work_until_terminal(outrider, run_id)
        assert counted == Accounting(intended=2, skipped=2)
        third = await control(outrider, run.campaign_id, Action.RETRY)
        assert third.run_id is not None
        counted = await work_until_terminal(outrider, third.run_id)
        assert counted == Accounting(intended=1, sent=1)


async def test_a_job_that_is_given_up_while_calls_are_out_leaves_them_in_doubt(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2 and D3: what broke the job off broke its calls off too, and nobody comes back to them."""
    windows: Counter[int] = Counter()
    draft = ItemDrafter.draft

    async def breaks_in_the_second_window(
        self: ItemDrafter, context: JobContext, members: Sequence[Member]
    ) -> list[Draft]:
        windows[context.job.fence] += 1
        if windows[context.job.fence] > 1:
            # Its first window is being called by now, as were those of earlier holders.
            await eventually(lambda: sandbox.requests >= len(windows))
            raise RuntimeError("the same each time")
        return await draft(self, context, members)

    monkeypatch.setattr(ItemDrafter, "draft", breaks_in_the_second_window)
    monkeypatch.setattr("outrider.kernel.delivery.campaign_delivery.DRAFT_WINDOW_ITEMS", 1)
    limits = replace(IMPATIENT, job_max_attempts=1)
    async with (
        Sandbox(Faults(latency_ms=2_000)) as sandbox,
        opened(
            database, tmp_path, target(CONTRACT.submission_target, "sms", sandbox.http_url),
            limits=limits, targets={},
        ) as outrider,
    ):  # fmt: skip
        run_id = await launch(
            outrider, [message(Channel.SMS, CONTRACT.submission_target)], people(100)
        )
        counted = await work_until(outrider, run_id, lambda seen: seen.waiting == 0)
        assert counted == Accounting(intended=100, in_doubt=2, skipped=98)


async def test_a_verdict_waits_for_every_worker_that_called_the_attempt(store: Store) -> None:
    """X6 and D24: not only for the last one that repeated it, nor only while it is open."""
    shop = Workshop(store)
    await shop.launch(2)
    repeated, opted_out = await shop.open(await shop.claim_one(), 0, 1)
    second = await shop.take_over(now=at(60))
    await shop.reopen(second, repeated, now=at(60))
    address = (await shop.item(opted_out)).address
    assert address is not None
    await store.write(suppressions.suppress(DEFAULT_SCOPE, "sms", [address], STOP, at(61)))
    await shop.reopen(second, opted_out, now=at(62))
    third = await shop.take_over(now=at(120))
    await store.write(ledger.doubt(third.job, [repeated], at(121)))
    found = await store.read(doubts.lost_holders(DEFAULT_SCOPE, [repeated, opted_out]))
    assert sorted((each.outbox_id, each.worker_id) for each in found) == sorted(
        [(repeated, ONE), (repeated, OTHER), (opted_out, ONE)]
    )
