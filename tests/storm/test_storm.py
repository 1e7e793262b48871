"""The storm's own parts: the page says what was recorded, and what strikes really strikes."""

import random

import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions import recovery
from outrider.stores.postgres.store import PostgresStore
from outrider.system import SystemClock, SystemIds
from outrider.testing.postgres import create_database
from tests.storm.figures import PAGE, page_with, recorded
from tests.support.cut_line import serving
from tests.support.lost_commits import LostCommits
from tests.support.pgbouncer import PGBOUNCER, pgbouncer
from tests.support.raw_sql import raw_sql

IDS, CLOCK = SystemIds(), SystemClock()


def test_the_page_has_the_table_of_what_was_recorded() -> None:
    written = PAGE.read_text()
    assert written == page_with(written, recorded()), "python -m tests.storm --minutes 0 writes it"


def test_no_recorded_round_doubled_or_lost_a_message() -> None:
    assert all(each.held for each in recorded())


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_lost_answer_leaves_what_was_committed_and_an_error(database: str) -> None:
    line = LostCommits(database, random.Random(1), share=1.0)
    async with serving(line):
        store = PostgresStore(line.url)
        place = await store.place()
        note = recovery.recognise(place, None, "test", IDS, CLOCK.now())
        with pytest.raises(StoreUnavailable):
            await store.write(note)
        await store.close()
    assert line.lost == 1
    async with raw_sql(database) as raw:
        assert await raw.run("SELECT place FROM database_places") == [(place.name,)]


@pytest.mark.skipif(
    PGBOUNCER is None, reason="NOT TESTED: PgBouncer is not installed; scripts/machine.sh does it"
)
async def test_a_store_works_behind_pgbouncer_in_session_mode(
    postgres_url: str,
) -> None:
    database = await create_database(postgres_url)
    async with pgbouncer(database) as bouncer:
        store = PostgresStore(bouncer.url)
        await store.migrate()
        place = await store.place()
        await store.write(recovery.recognise(place, None, "test", IDS, CLOCK.now()))
        assert await store.read(recovery.quarantine()) is None
        await store.close()
