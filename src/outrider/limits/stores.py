"""Databases: connections, waits, windows."""

SQLITE_BUSY_SECONDS = 30.0
SQLITE_LEAST_BUSY_MS = 100
SQLITE_LOOK_SECONDS = 0.1
SQLITE_READERS = 6
"""Threads with a connection each: more than the API may use at once, so that workers read too."""
SQLITE_LOG_RETRY_SECONDS = 0.01
SQLITE_SHORT_ITEMS = 20
"""A window of more items than this yields to shorter transactions."""
SQLITE_SHORT_BEFORE_LARGE = 20
SQLITE_LARGE_WAIT_SECONDS = 0.02
"""How long a large window waits for single messages that are on their way, at most."""
SQLITE_LARGE_LOOK_SECONDS = 0.001
SQLITE_CHECKPOINT_PAGES = 16_000
SQLITE_CHECKPOINT_REST_PAGES = 100
"""How much of the log a commit may copy itself, approximately: two milliseconds."""
SQLITE_CHECKPOINT_PASSES = 4
POSTGRES_POOL_CONNECTIONS = 8
POSTGRES_CONNECT_SECONDS = 10.0
POSTGRES_STATEMENT_SECONDS = 120.0
POSTGRES_IDLE_SECONDS = 5
POSTGRES_LISTENER_CHECK_SECONDS = 30.0
POSTGRES_PING_SECONDS = 5.0
POSTGRES_MIGRATION_LOCK_MS = 500
"""How long a migration keeps servers waiting for a table that it is waiting for itself. Less than
the second after which Postgres would end one of the two, so no server is turned away for it."""
POSTGRES_MIGRATION_REST_SECONDS = 0.5
POSTGRES_MIGRATION_TRIES = 60
POSTGRES_MIGRATION_TURNS = 7_200
"""How often to look, at intervals, whether another process is done migrating: for an hour."""
REDIS_CONNECTIONS = 32
REDIS_TIMEOUT_SECONDS = 0.5
"""It only saves a database query: no control waits longer than this for it."""
REDIS_REST_SECONDS = 5.0
