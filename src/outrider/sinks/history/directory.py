"""All kinds of histories this code knows, and the making of one from its URL."""

from pathlib import Path
from typing import assert_never

from outrider.domain.history_urls import HistoryKind, SnowflakeTables, history_url
from outrider.limits.history import HISTORY_EVERY_SECONDS, HISTORY_SNOWFLAKE_EVERY_SECONDS
from outrider.plugins import known_schemes
from outrider.ports.history import History
from outrider.ports.secrets import SecretStore


def make_history(text: str, secrets: SecretStore) -> History:
    """Connects to nothing yet; InvalidInput where a library is missing."""
    url = history_url(text, known_schemes())
    match url.kind:
        case HistoryKind.DUCKDB:
            from outrider.sinks.history.duckdb import DuckdbHistory

            return DuckdbHistory(Path(url.path[0]))
        case HistoryKind.POSTGRES:
            from outrider.sinks.history.postgres import PostgresHistory

            return PostgresHistory(url, secrets)
        case HistoryKind.SNOWFLAKE:
            from outrider.sinks.history.snowflake import SnowflakeHistory, connector

            tables = SnowflakeTables(url.options.get("tables", SnowflakeTables.AUTO))
            return SnowflakeHistory(connector(url, secrets), tables)
        case other:
            assert_never(other)


def every_seconds(text: str) -> float:
    url = history_url(text, known_schemes())
    if url.every_seconds is not None:
        return url.every_seconds
    is_paid_by_time = url.kind is HistoryKind.SNOWFLAKE
    return HISTORY_SNOWFLAKE_EVERY_SECONDS if is_paid_by_time else HISTORY_EVERY_SECONDS
