"""The inbox: a receipt is taken once, never changes, and its fold is the same in any order."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import (
    Delivery,
    Receipt,
    ReceiptEvent,
    fold,
    rank,
    state_of,
)
from outrider.kernel.transactions import deliveries, receipts
from outrider.kernel.transactions.deliveries import FoldedReceipt, MovedDeliveries
from outrider.kernel.transactions.receipts import TakenReceipt
from outrider.ports.store import Store, Transaction
from outrider.system import SystemIds
from outrider.testing.store_suite.workshop import ELSEWHERE, NOON, at
from tests.support.raw_sql import raw_sql

TARGET = "sms.realtime"
IDS = SystemIds()


def delivered(receipt_id: str, **fields: object) -> TakenReceipt:
    return TakenReceipt(TARGET, Receipt(receipt_id, ReceiptEvent.DELIVERED, **fields))  # type: ignore[arg-type]


async def test_a_repeat_of_a_receipt_is_not_taken_again(store: Store) -> None:
    first, second = delivered("r-1"), delivered("r-2", reason="again")
    assert await store.write(receipts.take(DEFAULT_SCOPE, [first, first], IDS, NOON)) == [first]
    both = [delivered("r-1", reason="something else"), second]
    assert await store.write(receipts.take(DEFAULT_SCOPE, both, IDS, at(1))) == [second]
    waiting = await store.write(receipts.claim(10, 10, at(1)))
    assert {(each.receipt_id, each.reason) for each in waiting} == {("r-1", ""), ("r-2", "again")}


async def test_two_servers_that_get_the_same_receipts_in_another_order_do_not_collide(
    store: Store,
) -> None:
    """Each would wait for a row that the other has written."""
    for number in range(10):
        told = [delivered(f"r-{number}-{each}") for each in range(300)]
        taken = await asyncio.gather(
            store.write(receipts.take(DEFAULT_SCOPE, told, IDS, NOON)),
            store.write(receipts.take(DEFAULT_SCOPE, told[::-1], IDS, NOON)),
        )
        assert sum(map(len, taken)) == len(told)


async def test_targets_and_workspaces_have_their_own_ids(store: Store) -> None:
    other_target = TakenReceipt("sms.other", delivered("r-1").receipt)
    both = [delivered("r-1"), other_target]
    assert len(await store.write(receipts.take(DEFAULT_SCOPE, both, IDS, NOON))) == 2
    assert len(await store.write(receipts.take(ELSEWHERE, both, IDS, NOON))) == 2
    assert len(await store.read(receipts.page(ELSEWHERE, None, 10))) == 2
    assert len(await store.read(receipts.page(ELSEWHERE, TARGET, 10))) == 1


async def test_every_field_comes_back_as_it_was_given(store: Store) -> None:
    told = Receipt(
        "r-\x001", ReceiptEvent.REPLIED, "ab" * 32, "m-1", True, "free text", "+447700900001",
        "STOP", at(-5),
    )  # fmt: skip
    taken = TakenReceipt(TARGET, told, OptOutWord.STOP)
    await store.write(receipts.take(DEFAULT_SCOPE, [taken], IDS, NOON))
    [kept] = await store.read(receipts.page(DEFAULT_SCOPE, TARGET, 10))
    assert kept[1:] == (
        TARGET, "r-\\x001", ReceiptEvent.REPLIED, "ab" * 32, "m-1", True, "free text",
        "+447700900001", "STOP", OptOutWord.STOP, at(-5), NOON, None, None, 0, NOON,
    )  # fmt: skip
    assert await store.read(receipts.receipt(DEFAULT_SCOPE, kept.id)) == kept


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE receipts SET event = 'delivered'",
        "UPDATE receipts SET reason = 'another'",
        "DELETE FROM receipts",
    ],
)
async def test_the_database_refuses_to_change_a_receipt(
    store: Store, database: str, change: str
) -> None:
    await store.write(receipts.take(DEFAULT_SCOPE, [delivered("r-1")], IDS, NOON))
    async with raw_sql(database) as raw:
        with pytest.raises(Exception, match="never"):
            await raw.run(change)


async def test_a_receipt_of_no_known_kind_is_refused(database: str) -> None:
    async with raw_sql(database) as raw:
        with pytest.raises(Exception, match=r"(?i)check"):
            await raw.run(
                "INSERT INTO receipts (id, tenant_id, workspace_id, submission_target, receipt_id,"
                " event, permanent, reason, received_at) SELECT id, tenant_id, id, 't', 'r',"
                " 'eaten', skipped, '', created_at FROM (SELECT id, tenant_id, created_at,"
                " 1 = 2 AS skipped FROM workspaces) w"
            )


def folded(outbox_id: OutboxId, run_id: RunId, receipt: Receipt) -> FoldedReceipt | None:
    state = state_of(receipt.event)
    if state is None:
        return None
    delivery = Delivery(state, receipt.permanent, receipt.reason, receipt.occurred_at or NOON)
    return FoldedReceipt(
        outbox_id, run_id, delivery, rank(receipt.event, permanent=receipt.permanent),
        receipt.receipt_id,
    )  # fmt: skip


TOLD = st.builds(
    lambda event, permanent, seconds, number: (event, permanent, seconds, number),
    st.sampled_from(ReceiptEvent),
    st.booleans(),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.integers(0, 1_000_000),
)


@given(st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_order_and_any_windows_fold_to_the_same_delivery(
    folding_store: "FoldingStore", data: st.DataObject
) -> None:
    told = data.draw(st.lists(TOLD, max_size=12, unique_by=lambda each: each[3]))
    all_receipts = [
        Receipt(
            f"r-{number}", event, permanent=permanent, reason=f"reason {number}",
            occurred_at=None if seconds is None else NOON + timedelta(seconds=seconds),
        )
        for event, permanent, seconds, number in told
    ]  # fmt: skip
    ordered = data.draw(st.permutations(all_receipts))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ordered)), max_size=3)))
    edges = [0, *cuts, len(ordered)]
    windows = [ordered[start:end] for start, end in pairwise(edges)]
    folding_store.check(windows, fold((each, NOON) for each in all_receipts))


def folded_and_counted(strongest: FoldedReceipt) -> Transaction[None]:
    changed = yield from deliveries.fold([strongest])
    moved = [MovedDeliveries(DEFAULT_SCOPE, TARGET, *each[1:]) for each in changed]
    yield from deliveries.sum_up(moved, NOON)


class FoldingStore:
    """Runs each example on items of its own."""

    def __init__(self, store: Store, run: object) -> None:
        self._store = store
        self._run = run

    def check(self, windows: Sequence[Sequence[Receipt]], expected: Delivery) -> None:
        self._run(self._check(windows, expected))  # type: ignore[operator]

    async def _check(self, windows: Sequence[Sequence[Receipt]], expected: Delivery) -> None:
        outbox_id, run_id = OutboxId(IDS.new()), RunId(IDS.new())
        for window in windows:
            counted = [folded(outbox_id, run_id, each) for each in window]
            strongest = max(
                (each for each in counted if each is not None),
                key=lambda each: (each.rank, each.delivery.at, each.receipt_id),
                default=None,
            )
            if strongest is not None:
                await self._store.write(folded_and_counted(strongest))
        found = await self._store.read(deliveries.of_items([outbox_id]))
        assert found.get(outbox_id, Delivery()) == expected
        counts = await self._store.read(deliveries.of_run(run_id))
        assert counts == ({} if expected == Delivery() else {expected.state: 1})


@pytest.fixture(params=["sqlite", "postgres"])
def folding_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    import asyncio
    import shutil

    from outrider.stores.postgres.store import PostgresStore
    from outrider.stores.sqlite.store import SqliteStore

    with asyncio.Runner() as runner:
        if request.param == "sqlite":
            file = tmp_path_factory.mktemp("folding") / "outrider.db"
            shutil.copy(request.getfixturevalue("sqlite_template"), file)
            store: Store = SqliteStore(file)
        else:
            pool = request.getfixturevalue("database_pool")
            store = PostgresStore(runner.run(pool.take()))
        yield FoldingStore(store, runner.run)
        runner.run(store.close())
