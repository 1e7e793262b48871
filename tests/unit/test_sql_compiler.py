"""One source of SQL: what each construct becomes in either dialect, and that none of it is left."""

import re

import pytest

from outrider.stores.compiler import Dialect, columns_of, compile_for
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite

CONSTRUCTS = [
    (
        "SELECT item.n FROM window(id uuid, n int) AS item",
        "SELECT item.n FROM json_to_recordset(:window) AS item (id uuid, n int)",
        "SELECT item.n FROM (SELECT value ->> 0 AS id, value ->> 1 AS n FROM json_each(:window))"
        " AS item",
    ),
    (
        "WITH item AS window(id uuid) UPDATE t AS o SET a = 1 FROM item"
        " WHERE looked_up(o.id, item.id)",
        "WITH item AS MATERIALIZED (SELECT * FROM json_to_recordset(:window) AS item (id uuid))"
        " UPDATE t AS o SET a = 1 FROM item"
        " WHERE o.id = item.id AND o.id = ANY (ARRAY(SELECT id FROM item))",
        "WITH item AS MATERIALIZED (SELECT value ->> 0 AS id FROM json_each(:window))"
        " UPDATE t AS o SET a = 1 FROM item WHERE o.id = item.id",
    ),
    (
        "id NOT IN window(id uuid)",
        "id <> ALL (ARRAY(SELECT id FROM json_to_recordset(:window) AS item (id uuid)))",
        "id NOT IN (SELECT value ->> 0 AS id FROM json_each(:window))",
    ),
    (
        "a IN list(:names)",
        "a = ANY (ARRAY(SELECT json_array_elements_text(:names::json)))",
        "a IN (SELECT value FROM json_each(:names))",
    ),
    (
        "a = ANY (ARRAY(SELECT b FROM t WHERE c = ANY (ARRAY(SELECT (d)))))",
        "a = ANY (ARRAY(SELECT b FROM t WHERE c = ANY (ARRAY(SELECT (d)))))",
        "a IN (SELECT b FROM t WHERE c IN (SELECT (d)))",
    ),
    ("unindexed(o.tenant_id) = :t", "o.tenant_id::text = :t", "+o.tenant_id = :t"),
    (
        "WHERE NOT :opens::boolean LIMIT 1 FOR NO KEY UPDATE OF j SKIP LOCKED",
        "WHERE NOT :opens::boolean LIMIT 1 FOR NO KEY UPDATE OF j SKIP LOCKED",
        "WHERE NOT :opens LIMIT 1",
    ),
    ("paused = false", "paused = false", "paused = 0"),
    ("greatest(encode(a, 'hex'), decode(b, 'hex'))",) * 2
    + ("max(lower(hex(a)), unhex(b))",),
    (
        "UPDATE t AS d SET a = d.a RETURNING d.id::text, d.a",
        "UPDATE t AS d SET a = d.a RETURNING d.id::text, d.a",
        "UPDATE t AS d SET a = d.a RETURNING t.id, t.a",
    ),
    ("a {sqlite: CROSS} JOIN b {postgres: ON true}", "a  JOIN b ON true", "a CROSS JOIN b "),
]  # fmt: skip


@pytest.mark.parametrize(("source", "in_postgres", "in_sqlite"), CONSTRUCTS)
def test_a_construct_becomes_what_its_database_understands(
    source: str, in_postgres: str, in_sqlite: str
) -> None:
    assert compile_for(Dialect.POSTGRES, source) == in_postgres
    assert compile_for(Dialect.SQLITE, source) == in_sqlite


def test_a_column_that_is_named_twice_has_one_place() -> None:
    source = "SELECT 1 FROM window(id uuid, n int) AS a WHERE b IN window(n int)"
    assert columns_of(source) == ("id", "n")
    assert compile_for(Dialect.SQLITE, source).endswith(
        "b IN (SELECT value ->> 1 AS n FROM json_each(:window))"
    )


NOTATION = re.compile(r"\b(?:window|list|looked_up|unindexed)\(|[{}]")


@pytest.mark.parametrize("name", sorted(sqlite.STATEMENTS))
def test_nothing_of_the_notation_is_left_in_a_statement(name: str) -> None:
    assert not NOTATION.search(postgres.STATEMENTS[name].sql)
    assert not NOTATION.search(sqlite.STATEMENTS[name].sql)
    assert "::" not in sqlite.STATEMENTS[name].sql


def test_a_window_has_the_same_columns_in_both_stores() -> None:
    copied = {name for name, each in postgres.STATEMENTS.items() if each.sql.startswith("COPY")}
    differing = {
        name
        for name, each in sqlite.STATEMENTS.items()
        if set(each.window) != set(postgres.STATEMENTS[name].window)
    }
    assert differing == copied
