"""One source of SQL for two databases: statements go in as written, compiled SQL comes out.

The source is Postgres's SQL with a few constructs of its own:

    source                          Postgres                             SQLite
    ──────────────────────────────  ───────────────────────────────────  ──────────────────────────
    window(id uuid, n int) AS item  json_to_recordset(:window) AS item … (SELECT value ->> 0 AS id,
                                                                         …) AS item
    WITH item AS window(id uuid)    the same, materialised               the same, materialised
    x IN window(id uuid)            x = ANY (ARRAY(SELECT id FROM …))    x IN (SELECT value ->> 0 …)
    x IN list(:names)               x = ANY (ARRAY(SELECT …))            x IN (SELECT value FROM …)
    looked_up(o.id, item.id)        o.id = item.id, by o.id's index      o.id = item.id
    unindexed(o.tenant_id)          o.tenant_id::text                    +o.tenant_id
    lowered(name)                   lower(name)                          lowered(name)
    {postgres: …} {sqlite: …}       the one                              the other

Everything else is plain Postgres. For SQLite, casts and row locks are left out, a few
functions have other names, `= ANY (ARRAY(…))` is `IN (…)`, `= false` is `= 0` (as its partial
indexes are written), and RETURNING names the table instead of its alias.

A window is one JSON array, because that was measured to cost a third of what an array per column
costs. Its columns are matched by name: `columns_of` says in which order a driver puts them.
Postgres's plans are generic and may be made while tables are empty, so each statement is written to
have no plan that reads a whole table: `= ANY (ARRAY(…))` bounds a join to the window, LATERAL and
LIMIT keep a look-up one. `unindexed` keeps the planner off an index: what awaits attention has
its own, and the one by workspace would lead through everything the workspace ever had.
"""

import re
from enum import StrEnum
from typing import assert_never


class Dialect(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


_CLAUSE = re.compile(r"\{(postgres|sqlite):\s*([^{}]*)\}")
_WINDOW_NAMED = re.compile(r"\b(\w+) AS window\(([^()]*)\)")
_WINDOW_LOOKED_IN = re.compile(r"\b(NOT )?IN window\((\w+) (\w+)\)")
_WINDOW_JOINED = re.compile(r"\bwindow\(([^()]*)\) AS (\w+)")
_WINDOW = re.compile(r"\bwindow\(([^()]*)\)")
_LIST = re.compile(r"\b(NOT )?IN list\((:\w+)\)")
_LOOKED_UP = re.compile(r"\blooked_up\(((?:\w+\.)?\w+), (\w+)\.(\w+)\)")
_UNINDEXED = re.compile(r"\bunindexed\(((?:\w+\.)?\w+)\)")

_LOCK = re.compile(r"\s+FOR (?:NO KEY )?UPDATE(?: OF \w+)?(?: SKIP LOCKED)?\b")
_CAST = re.compile(r"(?<=[\w)'])::\w+")
_ALIAS = re.compile(r"\b(?:UPDATE|INTO|DELETE FROM) (\w+) AS (\w+)\b")
_ARRAYS = {"= ANY (ARRAY(": "IN (", "<> ALL (ARRAY(": "NOT IN ("}
_WORDS = (
    (re.compile(r"\bdecode\(([^()]+|\([^()]*\)), 'hex'\)"), r"unhex(\1)"),
    (re.compile(r"\bencode\(([^()]+), 'hex'\)"), r"lower(hex(\1))"),
    (re.compile(r"\b(?:least|bool_and)\("), "min("),
    (re.compile(r"\b(?:greatest|bool_or)\("), "max("),
    (re.compile(r"\bstrpos\("), "instr("),
    (re.compile(r"\bctid\b"), "rowid"),
    (re.compile(r"= false\b"), "= 0"),
)


def compile_for(dialect: Dialect, source: str) -> str:
    chosen = _CLAUSE.sub(lambda found: found[2] if found[1] == dialect else "", source)
    match dialect:
        case Dialect.POSTGRES:
            return _to_postgres(chosen)
        case Dialect.SQLITE:
            return _to_sqlite(chosen, columns_of(source))
        case _:
            assert_never(dialect)


def columns_of(source: str) -> tuple[str, ...]:
    """The columns of a statement's window, each once, as they are first named."""
    declared = [name for found in _WINDOW.finditer(source) for name in _names(found[1])]
    return tuple(dict.fromkeys(declared))


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(",")]


def _to_postgres(sql: str) -> str:
    rows = "json_to_recordset(:window) AS"
    sql = _WINDOW_NAMED.sub(rf"\1 AS MATERIALIZED (SELECT * FROM {rows} \1 (\2))", sql)
    sql = _WINDOW_LOOKED_IN.sub(
        lambda found: _among(
            found[1], f"SELECT {found[2]} FROM {rows} item ({found[2]} {found[3]})"
        ),
        sql,
    )
    sql = _WINDOW_JOINED.sub(rf"{rows} \2 (\1)", sql)
    sql = _LIST.sub(
        lambda found: _among(found[1], f"SELECT json_array_elements_text({found[2]}::json)"), sql
    )
    # Without the array, a plan made while the table was small would read all of it.
    sql = _LOOKED_UP.sub(r"\1 = \2.\3 AND \1 = ANY (ARRAY(SELECT \3 FROM \2))", sql)
    return _UNINDEXED.sub(r"\1::text", sql).replace("lowered(", "lower(")


def _among(negated: str | None, query: str) -> str:
    return f"{'<> ALL' if negated else '= ANY'} (ARRAY({query}))"


def _to_sqlite(sql: str, columns: tuple[str, ...]) -> str:
    def rows(declared: str) -> str:
        cells = (f"value ->> {columns.index(name)} AS {name}" for name in _names(declared))
        return f"(SELECT {', '.join(cells)} FROM json_each(:window))"

    sql = _WINDOW_NAMED.sub(lambda found: f"{found[1]} AS MATERIALIZED {rows(found[2])}", sql)
    sql = _WINDOW_LOOKED_IN.sub(lambda found: f"{found[1] or ''}IN {rows(found[2])}", sql)
    sql = _WINDOW_JOINED.sub(lambda found: f"{rows(found[1])} AS {found[2]}", sql)
    sql = _LIST.sub(r"\1IN (SELECT value FROM json_each(\2))", sql)
    sql = _LOOKED_UP.sub(r"\1 = \2.\3", sql)
    sql = _UNINDEXED.sub(r"+\1", sql)
    sql = _CAST.sub("", _LOCK.sub("", sql))
    for array, among in _ARRAYS.items():
        sql = _without_array(sql, array, among)
    for word, instead in _WORDS:
        sql = word.sub(instead, sql)
    return _returning_by_table(sql)


def _without_array(sql: str, array: str, among: str) -> str:
    """`= ANY (ARRAY(…))` → `IN (…)`: with the array goes the parenthesis that closes it."""
    while (begin := sql.find(array)) >= 0:
        inside = begin + len(array)
        end = _closing(sql, inside)
        sql = sql[:begin] + among + sql[inside:end] + sql[end + 1 :]
    return sql


def _closing(sql: str, inside: int) -> int:
    depth = 1
    for place in range(inside, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if depth == 0:
            return place
    raise AssertionError(f"a parenthesis is never closed: {sql[inside:]}")


def _returning_by_table(sql: str) -> str:
    written = _ALIAS.search(sql)
    before, returning, after = sql.rpartition("RETURNING ")
    if written is None or not returning:
        return sql
    return before + returning + re.sub(rf"\b{written[2]}\.", f"{written[1]}.", after)
