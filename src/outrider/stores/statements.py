"""Named statements: a folder of `.sql` files goes in, a table of name → SQL comes out.

Each statement begins with `-- name: some_name`; the comment lines after it say what it is for.
`-- as other_name`, or `-- as other_name without SOME CLAUSE`, is a statement that stands before it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_AS = re.compile(r"^-- as (\w+)(?: without (.+))?$")
_PARAMETER = re.compile(r"(?<!:):([a-z][a-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class NamedSql:
    name: str
    description: str
    sql: str


def load_statements(folder: Path) -> dict[str, NamedSql]:
    files = sorted(folder.glob("*.sql"))
    pieces = [piece for file in files for piece in _NAME.split(file.read_text())[1:]]
    statements: dict[str, NamedSql] = {}
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        assert name not in statements, f"statement {name} stands twice in {folder}"
        lines = text.strip().splitlines()
        alike = next(filter(None, map(_AS.match, lines)), None)
        comments = [line for line in lines if line.startswith("--") and not _AS.match(line)]
        sql = "\n".join(line for line in lines if not line.startswith("--")).rstrip(";")
        if alike is not None:
            assert not sql, f"{name} is another statement, and has words of its own"
            sql = _without(statements[alike[1]], alike[2])
        description = " ".join(line.removeprefix("--").strip() for line in comments)
        statements[name] = NamedSql(name, description, sql)
    return statements


def _without(known: NamedSql, clause: str | None) -> str:
    if clause is None:
        return known.sql
    assert known.sql.count(clause) == 1, f"{known.name} has no such clause: {clause}"
    return known.sql.replace(clause, "")


def to_positional(sql: str) -> tuple[str, tuple[str, ...]]:
    """`:name` → `$1`, with the parameter names in the order of their numbers. `::` is a cast."""
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    return _PARAMETER.sub(number, sql), tuple(order)


def to_named(sql: str) -> str:
    """`:name` → `%(name)s`, as drivers of the pyformat style want it. `::` is a cast."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
