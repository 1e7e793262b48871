"""Behind Debian's PgBouncer: a session per client works, shared ones are refused."""

import pytest

from outrider.domain.errors import StoreError
from outrider.stores.postgres.store import PostgresStore
from tests.support.pgbouncer import PGBOUNCER, pgbouncer

pytestmark = [
    pytest.mark.empty_database,
    pytest.mark.skipif(
        PGBOUNCER is None, reason="PGBOUNCER IS NOT INSTALLED: apt-get install pgbouncer"
    ),
]


@pytest.fixture
def postgres_database(database: str) -> str:
    if database.startswith("sqlite"):
        pytest.skip("SQLite has no pooler")
    return database


async def test_a_pooler_that_shares_sessions_is_refused_with_the_reason(
    postgres_database: str,
) -> None:
    """A11."""
    async with pgbouncer(postgres_database, "transaction") as bouncer:
        store = PostgresStore(bouncer.url)
        for refused in (store.migrate, store.verify_schema):
            with pytest.raises(StoreError, match="shares sessions") as error:
                await refused()
            assert "pool_mode = session" in str(error.value.hint)
        await store.close()


async def test_a_pooler_with_a_session_for_each_client_is_used(postgres_database: str) -> None:
    """A11."""
    async with pgbouncer(postgres_database) as bouncer:
        store = PostgresStore(bouncer.url)
        assert await store.migrate()
        await store.verify_schema()
        await store.close()
