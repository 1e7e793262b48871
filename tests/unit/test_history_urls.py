"""Addresses of histories: what they may say, and that none holds a secret."""

import pytest
from pydantic import ValidationError

from outrider.domain.history_urls import HistoryKind, history_url
from outrider.settings import Settings

SNOWFLAKE = "snowflake://WRITER@org-account/ANALYTICS/OUTRIDER?warehouse=LOAD"


def test_each_kind_is_read() -> None:
    duckdb = history_url("duckdb:///history.duckdb")
    assert (duckdb.kind, duckdb.path) == (HistoryKind.DUCKDB, ("history.duckdb",))
    assert history_url("duckdb:////var/lib/h.duckdb").path == ("/var/lib/h.duckdb",)
    postgres = history_url("postgresql://ann@db:5433/stats?schema=runs&password=env:PW&every=5")
    assert (postgres.user, postgres.host, postgres.port) == ("ann", "db", 5433)
    assert (postgres.path, postgres.every_seconds) == (("stats",), 5.0)
    assert postgres.secrets == {"password": "env:PW"}
    snowflake = history_url(f"{SNOWFLAKE}&private_key=file:/run/key.p8&tables=standard")
    assert (snowflake.host, snowflake.path) == ("org-account", ("ANALYTICS", "OUTRIDER"))
    assert snowflake.secrets == {"private_key": "file:/run/key.p8"}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ann:hunter2@db/stats", r"\?password=env:NAME"),
        ("postgresql://ann@db/stats?password=hunter2", "never the secret itself"),
        (f"{SNOWFLAKE}&password=hunter2", "never the secret itself"),
        (f"{SNOWFLAKE}&token=hunter2", "never the secret itself"),
        (f"{SNOWFLAKE}&private_key=hunter2", "never the secret itself"),
        (SNOWFLAKE, "requires one of private_key="),
        ("snowflake://WRITER@account/DB/S?password=env:P", "requires warehouse="),
        ("snowflake://account/DB/S?warehouse=W&password=env:P", "USER@ACCOUNT/DATABASE/SCHEMA"),
        ("snowflake://u@account/DB?warehouse=W&password=env:P", "USER@ACCOUNT/DATABASE/SCHEMA"),
        (f"{SNOWFLAKE}&password=env:P&tables=odd", "tables should be one of"),
        ("mysql://db/stats", "not a kind of history"),
        ("duckdb://", "duckdb:///FILE"),
        ("duckdb://host/file", "duckdb:///FILE"),
        ("duckdb:///file?every=0", "every should be"),
        ("duckdb:///file?every=61", "every should be"),
        ("duckdb:///file?evry=1", "unknown to a history in duckdb: evry"),
        ("postgresql://db", "HOST:PORT/DATABASE"),
        ("postgresql://db:port/x", "not a URL"),
        ("duckdb:///file#part", "fragment"),
    ],
)
def test_mistakes_and_secrets_are_refused_and_never_repeated(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        history_url(url)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ValidationError) as of_settings:
        Settings(history=url)
    assert "hunter2" not in str(of_settings.value)


def test_no_other_sink_may_be_called_history() -> None:
    bus = {"history": {"url": "redis://localhost"}}
    with pytest.raises(ValidationError, match="cannot be called 'history'"):
        Settings.model_validate({"history": "duckdb:///h", "bus": bus})
