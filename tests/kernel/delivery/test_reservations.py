"""The reserve stage: reservations are made of committed rows, of each key one, and begin once."""

from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.transactions.jobs import Hold
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import ACCEPTED, LEASE_SECONDS, Workshop, at
from tests.support.foundations import foundation

LIMITS = Limits(lease_seconds=LEASE_SECONDS)


async def test_reserved_items_are_in_the_ledger_and_taken_keys_are_left_out(
    store: Store,
) -> None:
    shop = Workshop(store)
    run_id = await shop.launch(3)
    context = await shop.claim_one()
    reserver = Reserver(foundation(store, clock=FakeClock(at(1)), limits=LIMITS))
    first = await reserver.reserve(context, [shop.draft(context, 0)])
    assert not isinstance(first, Hold)
    await shop.close(context, (first[0].outbox_id, ACCEPTED))
    opened = await reserver.reserve(context, [shop.draft(context, number) for number in (0, 1, 2)])
    assert not isinstance(opened, Hold)
    rows = await shop.items(run_id)
    assert {each.outbox_id for each in opened} == {rows["lead-1"].id, rows["lead-2"].id}
    assert {row.status for row in rows.values()} == {"sent", "queued"}


async def test_a_worker_that_lost_the_job_reserves_nothing(store: Store) -> None:
    shop = Workshop(store)
    run_id = await shop.launch(1)
    lost = await shop.claim_one()
    await shop.take_over(now=at(LEASE_SECONDS + 1))
    reserver = Reserver(foundation(store, clock=FakeClock(at(LEASE_SECONDS + 1)), limits=LIMITS))
    assert isinstance(await reserver.reserve(lost, [shop.draft(lost, 0)]), Hold)
    assert await shop.items(run_id) == {}
