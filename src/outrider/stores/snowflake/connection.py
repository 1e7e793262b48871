"""Connections to Snowflake, limited to what Outrider uses, and with limits on every wait."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from outrider.domain.errors import InvalidInput, SchemaMismatch, StoreError, StoreUnavailable
from outrider.limits.stores import SNOWFLAKE_LOGIN_SECONDS, SNOWFLAKE_STATEMENT_SECONDS

MISSING = 2003
"""Snowflake's error for a table that is missing, or invisible to this role."""

GIVEN_UP = frozenset({604, 625, 630})
"""Cancelled, blocked too long by another writer, ran too long: a retry may work."""


class Cursor(Protocol):
    def execute(self, command: str, params: dict[str, Any] | None = None, /) -> object: ...

    def fetchall(self) -> Sequence[Any]: ...

    @property
    def rowcount(self) -> int | None: ...

    def close(self) -> object: ...


class Connection(Protocol):
    def cursor(self) -> Any: ...

    def close(self) -> None: ...


def connector(**arguments: str) -> Callable[[], Connection]:
    """Makes connections with the official connector's own arguments: account, user, role, …

    Snowflake itself ends a statement that waits for another writer or runs for too long, so that a
    thread here never waits for ever.
    """
    connect = _driver().connect

    def new() -> Connection:
        made: Connection = connect(
            **arguments,
            autocommit=True,
            paramstyle="pyformat",
            login_timeout=SNOWFLAKE_LOGIN_SECONDS,
            network_timeout=2 * SNOWFLAKE_STATEMENT_SECONDS,
            session_parameters={
                "STATEMENT_TIMEOUT_IN_SECONDS": SNOWFLAKE_STATEMENT_SECONDS,
                "LOCK_TIMEOUT": SNOWFLAKE_STATEMENT_SECONDS,
                "QUERY_TAG": "outrider",
                "TIMEZONE": "UTC",
            },
        )
        return made

    return new


def driver_errors() -> tuple[type[Exception], ...]:
    """How the connector reports a failure."""
    return (_driver().errors.Error, OSError)


def translated(error: Exception) -> StoreError:
    number: int | None = getattr(error, "errno", None)
    if number == MISSING:
        return SchemaMismatch(f"Snowflake: {error}", hint="call `migrate` on the log first")
    if isinstance(error, _driver().errors.ProgrammingError) and number not in GIVEN_UP:
        return StoreError(f"Snowflake: {error}")
    return StoreUnavailable(
        f"Snowflake failed: {error}", hint="repeat the call; it is written only once"
    )


def _driver() -> Any:
    try:
        import snowflake.connector
    except ImportError as error:
        raise InvalidInput(
            "an event log in Snowflake requires the package snowflake-connector-python",
            hint='pip install "outrider[snowflake]"',
        ) from error
    return snowflake.connector
