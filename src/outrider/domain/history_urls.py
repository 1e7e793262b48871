"""The address of a history: which database mirrors the log of runs, and how it is reached.

A URL is shown, logged and passed on, so it never holds a secret: a password, key or token in it is
a reference (`env:NAME`, `file:PATH`), which is resolved when a connection is made.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from outrider.domain.references import BUILT_IN_SCHEMES, is_reference


class HistoryKind(StrEnum):
    SNOWFLAKE = "snowflake"
    POSTGRES = "postgresql"
    DUCKDB = "duckdb"


class SnowflakeTables(StrEnum):
    """`auto`: hybrid tables where the account has them, else standard ones."""

    AUTO = "auto"
    HYBRID = "hybrid"
    STANDARD = "standard"


SCHEMES = {
    "snowflake": HistoryKind.SNOWFLAKE,
    "postgresql": HistoryKind.POSTGRES,
    "postgres": HistoryKind.POSTGRES,
    "duckdb": HistoryKind.DUCKDB,
}
EVERY = "every"
OPTIONS = {
    HistoryKind.SNOWFLAKE: frozenset({EVERY, "warehouse", "role", "tables"}),
    HistoryKind.POSTGRES: frozenset({EVERY, "schema", "host", "sslmode", "sslrootcert"}),
    HistoryKind.DUCKDB: frozenset({EVERY}),
}
SECRETS = {
    HistoryKind.SNOWFLAKE: frozenset({"password", "private_key", "token"}),
    HistoryKind.POSTGRES: frozenset({"password"}),
    HistoryKind.DUCKDB: frozenset[str](),
}
"""Options whose value is a reference to a secret."""

EVERY_SECONDS_MAX = 60


@dataclass(frozen=True, slots=True)
class HistoryUrl:
    """`path` is what follows the host: a file, a database, or a database and its schema."""

    kind: HistoryKind
    path: tuple[str, ...]
    host: str | None = None
    port: int | None = None
    user: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def every_seconds(self) -> float | None:
        """How often it is written to while there is something to write, if the URL says so."""
        return float(self.options[EVERY]) if EVERY in self.options else None


def history_url(text: str, schemes: Collection[str] = BUILT_IN_SCHEMES) -> HistoryUrl:
    """The parsed address; ValueError says what is wrong with it, and never repeats a value.

    `schemes` are the kinds of references to secrets that there are.
    """
    try:
        parts = urlsplit(text)
        port, user, password = parts.port, parts.username, parts.password
    except ValueError:
        raise ValueError("is not a URL") from None
    kind = SCHEMES.get(parts.scheme)
    if kind is None:
        known = "snowflake://, postgresql:// or duckdb://"
        raise ValueError(f"'{parts.scheme}' is not a kind of history; use {known}")
    if password is not None:
        raise ValueError(
            "must not contain a password: write ?password=env:NAME or ?password=file:PATH"
        )
    if parts.fragment:
        raise ValueError("should have no fragment")
    options, secrets = _options(kind, parts.query, schemes)
    user = None if user is None else unquote(user)
    path = _path(kind, unquote(parts.path))
    found = HistoryUrl(kind, path, parts.hostname, port, user, options, secrets)
    _require_whole(found)
    return found


def _path(kind: HistoryKind, path: str) -> tuple[str, ...]:
    """As in a database URL of SQLite, a fourth slash begins an absolute path."""
    if kind is HistoryKind.DUCKDB:
        return (path.removeprefix("/"),)
    return tuple(piece for piece in path.split("/") if piece)


def _require_whole(url: HistoryUrl) -> None:
    match url.kind:
        case HistoryKind.DUCKDB:
            if url.host or url.user or not url.path[0]:
                raise ValueError("should be duckdb:///FILE, or duckdb:////ABSOLUTE/FILE")
        case HistoryKind.POSTGRES:
            if len(url.path) != 1:
                raise ValueError("should be postgresql://USER@HOST:PORT/DATABASE")
        case HistoryKind.SNOWFLAKE:
            if not (url.host and url.user and len(url.path) == 2):
                raise ValueError("should be snowflake://USER@ACCOUNT/DATABASE/SCHEMA")
            if len(url.secrets) != 1:
                raise ValueError("requires one of private_key=, token= and password=")
            if "warehouse" not in url.options:
                raise ValueError("requires warehouse=NAME: what the writing is paid with")


def _options(
    kind: HistoryKind, query: str, schemes: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    secrets = {name: found.pop(name) for name in SECRETS[kind] & found.keys()}
    for name, value in secrets.items():
        if not is_reference(value, schemes):
            raise ValueError(f"{name} must be env:NAME or file:PATH, never the secret itself")
    unknown = sorted(found.keys() - OPTIONS[kind])
    if unknown:
        raise ValueError(
            f"has options that are unknown to a history in {kind.value}: {', '.join(unknown)};"
            f" known are {', '.join(sorted(OPTIONS[kind] | SECRETS[kind]))}"
        )
    every = found.get(EVERY, "1")
    if not (every.isdecimal() and 0 < int(every) <= EVERY_SECONDS_MAX):
        raise ValueError(f"every should be a number of seconds, 1 to {EVERY_SECONDS_MAX}")
    if found.get("tables", "auto") not in set(SnowflakeTables):
        raise ValueError(f"tables should be one of {', '.join(SnowflakeTables)}")
    return found, secrets
