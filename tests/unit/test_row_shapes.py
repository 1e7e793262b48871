"""Every statement answers with the columns that its decoder in the kernel expects.

A decoder is what stands in a transaction after `rows = yield from ask("name", …)`: a record that is
made of each row, or a row that is taken apart. The columns are those of the compiled statement.
"""

import ast
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw
import apsw.ext
import pytest
from tests.support.compiled_statements import answering

import outrider.kernel
from outrider.stores.sqlite import store as sqlite
from outrider.stores.sqlite.functions import add_functions

KERNEL = Path(outrider.kernel.__file__).parent
ASKS = {"ask", "ask_alone"}


class Decoder(NamedTuple):
    where: str
    statement: str
    fields: tuple[str, ...]
    """Empty names for what a decoder only takes apart."""
    required: int


def decoders() -> Iterator[Decoder]:
    for path in sorted((KERNEL / "transactions").glob("*.py")):
        module = importlib.import_module(f"outrider.kernel.transactions.{path.stem}")
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                yield from _decoders_in(function, path.stem, vars(module))


def _decoders_in(
    function: ast.FunctionDef, module: str, names: dict[str, object]
) -> Iterator[Decoder]:
    asked: list[tuple[int, str, str]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and (statement := _asked(node.value)):
            asked += [(node.lineno, each.id, statement) for each in _named(node.targets)]
        if cells := _taken_apart(node):
            yield Decoder(f"{module}.{function.name}", *cells)
    for node in ast.walk(function):
        for rows, (fields, required), line in _decoded(node, names):
            known = [each for each in sorted(asked) if each[1] == rows and each[0] <= line]
            # Where the same name is asked for twice before, a branch chose: both are decoded so.
            if known:
                yield Decoder(f"{module}.{function.name}", known[-1][2], fields, required)


def _asked(value: ast.expr) -> str | None:
    match value:
        case ast.YieldFrom(ast.Call(ast.Name(asking), [ast.Constant(str(statement)), *_])):
            return statement if asking in ASKS else None
    return None


def _taken_apart(node: ast.AST) -> tuple[str, tuple[str, ...], int] | None:
    """`one, other = (yield from ask("name"))[0]`"""
    match node:
        case ast.Assign([ast.Tuple(cells)], ast.Subscript(asking)) if statement := _asked(asking):
            if not any(isinstance(cell, ast.Starred) for cell in cells):
                return statement, ("",) * len(cells), len(cells)
    return None


def _named(targets: Sequence[ast.expr]) -> list[ast.Name]:
    return [each for each in targets if isinstance(each, ast.Name)]


def _decoded(
    node: ast.AST, names: dict[str, object]
) -> Iterator[tuple[str, tuple[tuple[str, ...], int], int]]:
    """Whose rows are decoded here, into which fields, and how many of these have to be there."""
    match node:
        # Record(*rows[0])
        case ast.Call(ast.Name(record), [ast.Starred(ast.Subscript(ast.Name(rows)))], []):
            yield rows, _fields(names.get(record)), node.lineno
        # Record(*row) for row in rows
        case ast.ListComp(
            ast.Call(ast.Name(record), [ast.Starred(ast.Name(row))], []),
            [ast.comprehension(ast.Name(each), ast.Name(rows))],
        ) | ast.GeneratorExp(
            ast.Call(ast.Name(record), [ast.Starred(ast.Name(row))], []),
            [ast.comprehension(ast.Name(each), ast.Name(rows))],
        ) if row == each:
            yield rows, _fields(names.get(record)), node.lineno
        # for one, other in rows
        # one, other = rows[0]
        case (
            ast.For(ast.Tuple(cells), ast.Name(rows))
            | ast.comprehension(ast.Tuple(cells), ast.Name(rows))
            | ast.Assign([ast.Tuple(cells)], ast.Subscript(ast.Name(rows)))
        ) if not any(isinstance(cell, ast.Starred) for cell in cells):
            yield rows, (("",) * len(cells), len(cells)), cells[0].lineno


def _fields(record: object) -> tuple[tuple[str, ...], int]:
    fields = getattr(record, "_fields", ())
    assert fields, f"{record} is no record with named fields"
    return tuple(fields), len(fields) - len(getattr(record, "_field_defaults", ()))


@pytest.fixture(scope="module")
def empty_database() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    add_functions(connection)
    for migration in sqlite.MIGRATIONS:
        connection.execute(migration.sql)
    return connection


DECODERS = list(decoders())


def test_the_decoders_of_the_kernel_are_found() -> None:
    assert len(DECODERS) > 70
    found = {(decoder.where, decoder.statement) for decoder in DECODERS}
    assert {("run_log.append", "append_run_events"), ("claims.claim_lanes", "claim_lanes")} <= found


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda each: f"{each.where}-{each.statement}")
def test_a_statement_answers_with_the_columns_its_decoder_expects(
    empty_database: apsw.Connection, decoder: Decoder
) -> None:
    last = answering(sqlite.STATEMENTS[decoder.statement].sql)
    columns = [column[0] for column in apsw.ext.query_info(empty_database, last).description]
    assert decoder.required <= len(columns) <= len(decoder.fields)
    # A column may have another name than the field it goes to, but not that of another field.
    swapped = {
        column
        for column, field in zip(columns, decoder.fields, strict=False)
        if column != field and column in decoder.fields
    }
    assert not swapped
