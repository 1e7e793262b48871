"""A window's columns are matched by their names, in whatever order the kernel gives them."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

import pytest

from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.restored_database import DatabasePlace
from outrider.kernel.transactions import audience
from outrider.ports.store import Announced, Result, Statement, Store, Transaction, ask
from outrider.system import SystemIds
from outrider.testing.store_suite.doubts import DoubtConformance
from outrider.testing.store_suite.ledger import LedgerConformance

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)


def turned_round(statement: Statement) -> Statement:
    if statement.window is None:
        return statement
    window = dict(reversed(list(statement.window.items())))
    return Statement(statement.name, statement.params, window, statement.alone)


def script_turned_round(transaction: Transaction[Result]) -> Transaction[Result]:
    """The same script; the columns of each window come the other way round."""
    try:
        statement = next(transaction)
        while True:
            statement = transaction.send((yield turned_round(statement)))
    except StopIteration as done:
        result: Result = done.value
        return result
    finally:
        transaction.close()


class TurnedStore:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def scheme(self) -> str:
        return self._store.scheme

    async def write(self, transaction: Transaction[Result]) -> Result:
        return await self._store.write(script_turned_round(transaction))

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await self._store.read(script_turned_round(transaction))

    async def migrate(self) -> Sequence[str]:
        return await self._store.migrate()

    async def verify_schema(self) -> None:
        await self._store.verify_schema()

    async def ping(self) -> None:
        await self._store.ping()

    def announcements(self, of: Announced) -> AsyncIterator[None]:
        return self._store.announcements(of)

    async def place(self) -> DatabasePlace:
        return await self._store.place()

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        self._store.stay_at(place, moved)

    def abandon(self) -> None:
        self._store.abandon()

    def give_way(self, while_true: Callable[[], bool]) -> None:
        self._store.give_way(while_true)

    async def forget_removed(self) -> bool:
        return await self._store.forget_removed()

    async def close(self) -> None:
        await self._store.close()


class TestWindowsTurnedRound(LedgerConformance, DoubtConformance):
    """The suite's hot path, over windows whose columns come in another order."""

    @pytest.fixture
    def store(self, store: Store) -> Store:
        return TurnedStore(store)


ENTRY: dict[str, object] = {
    "tenant_id": DEFAULT_SCOPE.tenant_id,
    "workspace_id": DEFAULT_SCOPE.workspace_id,
    "campaign_id": None,
    "run_id": None,
    "job_id": None,
    "outbox_id": None,
    "actor": "ana",
    "event": "campaign.created",
    "detail": '{"name": "spring"}',
    "content": "5a" * 32,
}


async def test_a_window_whose_columns_change_places_writes_the_same_rows(store: Store) -> None:
    ids = SystemIds()
    for turn in range(len(ENTRY) + 1):
        columns = list(({"id": ids.new()} | ENTRY).items())
        window = {name: [value] for name, value in columns[turn:] + columns[:turn]}
        await store.write(ask("insert_audit", window, now=NOW))
    page = ask(
        "audit_of_workspace",
        tenant_id=DEFAULT_SCOPE.tenant_id,
        workspace_id=DEFAULT_SCOPE.workspace_id,
        after="00000000-0000-0000-0000-000000000000",
        most=100,
    )
    written = [tuple(row)[1:] for row in await store.read(page)]
    assert written == [(NOW, "ana", "campaign.created", None, None, None, '{"name": "spring"}')] * (
        len(ENTRY) + 1
    )


async def test_a_window_without_one_of_its_columns_is_refused(store: Store) -> None:
    entry = {"id": SystemIds().new()} | ENTRY
    window = {name: [value] for name, value in entry.items() if name != "detail"}
    with pytest.raises(KeyError, match="detail"):
        await store.write(ask("insert_audit", window, now=NOW))


async def test_a_window_of_recipients_that_were_all_refused_writes_nothing(store: Store) -> None:
    campaign_id = CampaignId(SystemIds().new())
    assert await store.write(audience.add_members(campaign_id, 0, [None, None])) == 0
