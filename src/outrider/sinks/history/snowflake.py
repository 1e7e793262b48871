"""The history in Snowflake, over the official connector, with a limit on every wait."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider.domain.batches import in_parts
from outrider.domain.errors import (
    HistoryError,
    HistoryRefused,
    HistoryUnavailable,
    InvalidInput,
)
from outrider.domain.history_urls import HistoryUrl, SnowflakeTables
from outrider.limits.history import (
    HISTORY_LOGIN_SECONDS,
    HISTORY_STATEMENT_BYTES,
    HISTORY_STATEMENT_ROWS,
    HISTORY_STATEMENT_SECONDS,
)
from outrider.ports.secrets import SecretStore, own_secret
from outrider.sinks.history.blocking import BlockingHistory
from outrider.sinks.history.tables import STATEMENTS, Cells, Staged, TableForm, tables_as
from outrider.stores.statements import to_named

MISSING = 2003
"""Snowflake's error for a table that is missing, or invisible to this role."""

GIVEN_UP = frozenset({604, 625, 630})
"""Cancelled, blocked too long by another writer, ran too long: a retry may work."""

FORMS: dict[SnowflakeTables, tuple[TableForm, ...]] = {
    SnowflakeTables.AUTO: ("hybrid", "standard"),
    SnowflakeTables.HYBRID: ("hybrid",),
    SnowflakeTables.STANDARD: ("standard",),
}


class SnowflakeHistory(BlockingHistory):
    """`connect` makes a connection whose database and schema are selected."""

    def __init__(
        self, connect: Callable[[], Any], tables: SnowflakeTables = SnowflakeTables.AUTO
    ) -> None:
        super().__init__()
        self._driver = _driver()
        self._connected = connect
        self._tables = tables

    def _connect(self) -> Any:
        return self._connected()

    def _make_tables(self, connection: Any) -> None:
        """Nothing is made where the tables are there: a writer needs no right to make any."""
        try:
            self._execute(connection, "SELECT 1 FROM history_writer, run_events LIMIT 0")
            return None
        except self._driver.errors.ProgrammingError as error:
            if error.errno != MISSING:
                raise
        *preferred, last = FORMS[self._tables]
        for form in preferred:
            try:
                return self._make(connection, form)
            except self._driver.errors.ProgrammingError:
                # An account without hybrid tables says so in more than one way.
                continue
        return self._make(connection, last)

    def _make(self, connection: Any, form: TableForm) -> None:
        for statement in tables_as(form):
            self._execute(connection, statement)

    def _execute(
        self, connection: Any, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> Any:
        cursor = connection.cursor()
        try:
            cursor.execute(sql, parameters)
            return cursor.fetchall()
        finally:
            cursor.close()

    def _ask(self, connection: Any, name: str, **parameters: object) -> Sequence[Any]:
        found: Sequence[Any] = self._execute(connection, to_named(STATEMENTS[name]), parameters)
        return found

    def _stage(self, connection: Any, rows: Staged) -> None:
        """As few statements as their length allows."""
        for part in in_parts(rows.rows, _weight, HISTORY_STATEMENT_BYTES, HISTORY_STATEMENT_ROWS):
            cells = {
                f"cell_{row}_{column}": cell.isoformat() if hasattr(cell, "isoformat") else cell
                for row, each in enumerate(part)
                for column, cell in enumerate(each)
            }
            values = ", ".join(
                "(" + ", ".join(f"%(cell_{row}_{column})s" for column in range(len(each))) + ")"
                for row, each in enumerate(part)
            )
            columns = ", ".join(rows.columns)
            sql = f"INSERT INTO {rows.table} ({columns}) SELECT * FROM VALUES {values}"
            self._execute(connection, sql, cells)

    def _translated(self, error: Exception) -> HistoryError | None:
        errors = self._driver.errors
        if isinstance(error, errors.ProgrammingError | errors.DataError):
            if error.errno not in GIVEN_UP:
                hint = (
                    "`outrider history setup` makes the tables" if error.errno == MISSING else None
                )
                return HistoryRefused(f"Snowflake: {error}", hint=hint)
        elif not isinstance(error, errors.Error | OSError):
            return None
        return HistoryUnavailable(f"Snowflake failed: {error}")


def connector(url: HistoryUrl, secrets: SecretStore) -> Callable[[], Any]:
    """Snowflake itself ends a statement that waits for another writer or runs for too long, so that
    a thread here never waits for ever. Secrets are read again for every connection."""
    connect = _driver().connect
    database, schema = url.path
    named = {name: url.options[name] for name in ("warehouse", "role") if name in url.options}

    def new() -> Any:
        return connect(
            account=url.host,
            user=url.user,
            database=database,
            schema=schema,
            **named,
            **_credentials(url, secrets),
            autocommit=True,
            paramstyle="pyformat",
            login_timeout=HISTORY_LOGIN_SECONDS,
            network_timeout=2 * HISTORY_STATEMENT_SECONDS,
            session_parameters={
                "STATEMENT_TIMEOUT_IN_SECONDS": HISTORY_STATEMENT_SECONDS,
                "LOCK_TIMEOUT": HISTORY_STATEMENT_SECONDS,
                "QUERY_TAG": "outrider history",
                "TIMEZONE": "UTC",
            },
        )

    return new


def _credentials(url: HistoryUrl, secrets: SecretStore) -> dict[str, object]:
    ((kind, reference),) = url.secrets.items()
    secret = own_secret(secrets, reference)
    match kind:
        case "private_key":
            return {"private_key": _der(secret)}
        case "token":
            return {"token": secret, "authenticator": "programmatic_access_token"}
        case _:
            return {"password": secret}


def _der(pem: str) -> bytes:
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (TypeError, ValueError):
        raise InvalidInput(
            "the history's private_key is not a private key in PEM form without a passphrase"
        ) from None
    return key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _weight(row: Cells) -> int:
    return sum(len(str(cell).encode()) for cell in row)


def _driver() -> Any:
    try:
        import snowflake.connector
    except ImportError as error:
        raise InvalidInput(
            "a history in Snowflake requires the package snowflake-connector-python",
            hint='pip install "outrider[snowflake]"',
        ) from error
    return snowflake.connector
