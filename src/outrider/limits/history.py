"""The history of runs in another database: how often, how much at once, how long to wait."""

HISTORY_EVERY_SECONDS = 1.0
HISTORY_SNOWFLAKE_EVERY_SECONDS = 60.0
"""A warehouse that is asked every second never suspends, and costs as much as one in full use."""
HISTORY_LOGIN_SECONDS = 30
HISTORY_STATEMENT_SECONDS = 60
HISTORY_LOCK_SECONDS = 5.0
"""How long a DuckDB file may be somebody else's before a window is postponed."""
HISTORY_LOCK_LOOK_SECONDS = 0.05
HISTORY_STATEMENT_ROWS = 500
HISTORY_STATEMENT_BYTES = 512 * 1024
"""Snowflake limits a statement's text, which includes its values, to one megabyte."""
HISTORY_SNAPSHOT_MAX_BYTES = 256 * 1024
"""A larger snapshot is kept without its steps, which follow from the events."""
HISTORY_PAGE_RUNS = 50
HISTORY_PAGE_EVENTS = 2_000
