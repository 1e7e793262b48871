"""Where transactions are: all scripts in one room, and each statement beside its subject.

Three `ls` show one thing: a module of transactions, and the SQL file of the same name.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import outrider
from outrider.stores.statements import KERNEL_STATEMENTS

SOURCE = Path(outrider.__file__).parent
TRANSACTIONS = SOURCE / "kernel" / "transactions"
ELSEWHERE = {SOURCE / "testing", SOURCE / "ports"}
"""The suites play scripts of their own, and the port defines what a script is."""

MODULE_LINES_MAX = 400
ASKED = re.compile(r'\bask(?:_alone)?\(\s*"(\w+)"')


def rooms() -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        if not any(path.is_relative_to(place) for place in {TRANSACTIONS, *ELSEWHERE}):
            yield path


def is_script(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return False
    yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))
    return yields and ast.unparse(node.returns).startswith("Transaction[")


def test_no_transaction_script_is_outside_the_room_of_transactions() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in rooms()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and is_script(node)
    ]
    assert found == []


def test_statements_are_named_in_the_room_of_transactions_only() -> None:
    asking = [
        str(path.relative_to(SOURCE))
        for path in rooms()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "outrider.ports.store"
        if {"ask", "ask_alone"} & {each.name for each in node.names}
    ]
    assert asking == []


def test_a_script_would_be_found_wherever_it_were() -> None:
    (script,) = ast.parse("def told() -> Transaction[None]:\n    yield from ask('x')\n").body
    (other,) = ast.parse("def told() -> Transaction[None]:\n    return bus.tell()\n").body
    assert is_script(script)
    assert not is_script(other)


def test_a_statement_is_in_the_file_of_a_module_that_uses_it() -> None:
    asked = {path.stem: set(ASKED.findall(path.read_text())) for path in TRANSACTIONS.glob("*.py")}
    misplaced = {
        f"{path.name}: {name}"
        for path in KERNEL_STATEMENTS.glob("*.sql")
        for name in re.findall(r"^-- name: (\w+)$", path.read_text(), re.MULTILINE)
        if name not in asked.get(path.stem, ())
    }
    assert misplaced == set()


def test_no_module_of_transactions_is_too_long_to_be_read() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in TRANSACTIONS.glob("*.py")}
    assert {name for name, count in lines.items() if count > MODULE_LINES_MAX} == set()
