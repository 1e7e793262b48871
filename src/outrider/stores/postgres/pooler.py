"""Refuses a pooler that lends one session of the server to many clients in turn.

Prepared statements, advisory locks and LISTEN belong to a session: there they fail now and then.
"""

import asyncpg

from outrider.domain.errors import StoreError
from outrider.limits.stores import POSTGRES_CONNECT_SECONDS

HINT = (
    "use pool_mode = session for this database, or connect to Postgres directly: Outrider has a"
    " pool of its own (docs/howto/deploy.md)"
)


async def refuse_shared_sessions(url: str) -> None:
    """Two connections at once have two sessions, unless a pooler has lent the first one's session
    to the second."""
    first = await _connect(url)
    try:
        second = await _connect(url)
        try:
            if await _session(first) == await _session(second):
                raise StoreError("the pooler in front of Postgres shares sessions", hint=HINT)
        finally:
            second.terminate()
    finally:
        first.terminate()


async def _connect(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
        url, timeout=POSTGRES_CONNECT_SECONDS, statement_cache_size=0
    )
    return connection


async def _session(connection: "asyncpg.Connection[asyncpg.Record]") -> object:
    return await connection.fetchval("SELECT pg_backend_pid()")
