"""Named statements: a folder of `.sql` files goes in, a table of name → SQL comes out.

Each statement begins with `-- name: some_name`; the comment lines after it say what it is for.
It is written once (`compiler.py` has the notation). Where two databases need different statements,
`-- postgres:` and `-- sqlite:` introduce them.
`-- as other_name`, or `-- as other_name without SOME CLAUSE`, reuses an earlier statement.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from outrider.stores.compiler import Dialect, columns_of, compile_for

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_AS = re.compile(r"^-- as (\w+)(?: without (.+))?$")
_VARIANT = re.compile(r"^-- (postgres|sqlite):$")
_PARAMETER = re.compile(r"(?<!:):([a-z][a-z0-9_]*)")

KERNEL_STATEMENTS = Path(__file__).parent / "statements"
"""Everything the kernel can name: one file per module of its transactions."""


@dataclass(frozen=True)
class NamedSql:
    name: str
    description: str
    written: str
    dialect: Dialect | None = None

    @cached_property
    def sql(self) -> str:
        """Compiled when it is first used: a process uses few of all statements."""
        return compile_for(self.dialect, self.written) if self.dialect else self.written

    @cached_property
    def window(self) -> tuple[str, ...]:
        """The columns of its window, in the order in which a store passes values."""
        return columns_of(self.written)


def load_statements(folder: Path, dialect: Dialect | None = None) -> dict[str, NamedSql]:
    """As written, or compiled for a dialect."""
    statements: dict[str, NamedSql] = {}
    for name, written in _written(folder):
        assert name not in statements, f"statement {name} is defined twice in {folder}"
        statements[name] = NamedSql(name, *_read(name, written, dialect, statements), dialect)
    return statements


def _written(folder: Path) -> Sequence[tuple[str, str]]:
    files = sorted(folder.glob("*.sql"))
    pieces = [piece for file in files for piece in _NAME.split(file.read_text())[1:]]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def _read(
    name: str, written: str, dialect: Dialect | None, known: Mapping[str, NamedSql]
) -> tuple[str, str]:
    """What a statement is for, and its SQL in this dialect."""
    comments: list[str] = []
    body: list[str] = []
    alike = of = None
    for line in written.strip().splitlines():
        if variant := _VARIANT.match(line):
            of = variant[1]
        elif found := _AS.match(line):
            alike = found
        elif line.startswith("--"):
            comments.append(line.removeprefix("--").strip())
        elif of in (None, dialect):
            body.append(line)
    sql = "\n".join(body).strip().rstrip(";")
    if alike is not None:
        assert not sql, f"{name} is another statement, and has words of its own"
        sql = _without(known[alike[1]], alike[2])
    return " ".join(comments), sql


def _without(known: NamedSql, clause: str | None) -> str:
    if clause is None:
        return known.written
    assert known.written.count(clause) == 1, f"{known.name} has no such clause: {clause}"
    return known.written.replace(clause, "")


def to_positional(sql: str) -> tuple[str, tuple[str, ...]]:
    """`:name` → `$1`, with the parameter names in numeric order. `::` is a cast."""
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    return _PARAMETER.sub(number, sql), tuple(order)


def to_named(sql: str) -> str:
    """`:name` → `%(name)s`, for drivers of the pyformat style. `::` is a cast."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def to_dollars(sql: str) -> str:
    """`:name` → `$name`, as DuckDB writes parameters. `::` is a cast."""
    return _PARAMETER.sub(r"$\1", sql)
