"""Limits are plain data that somebody reads; one that nobody reads would be an empty promise."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "outrider"
LIMITS = SOURCE / "limits"
FILES = sorted(file for file in LIMITS.glob("*.py") if file.name != "__init__.py")
PLAIN = {"dataclasses", "outrider"}


def limits_of(source: str) -> Iterator[str]:
    """Constants, and the fields of classes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def read_in(source: str) -> set[str]:
    """The names whose value is used, and the attributes that are asked for. A keyword, a text, a
    comment or an import alone reads nothing."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                found.add(name)
    return found


def names_read() -> set[str]:
    return {name for file in SOURCE.rglob("*.py") for name in read_in(file.read_text())}


@pytest.fixture(scope="module")
def read() -> set[str]:
    return names_read()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_limit_is_read_by_somebody(file: Path, read: set[str]) -> None:
    limits = list(limits_of(file.read_text()))
    assert limits
    assert [name for name in limits if name not in read] == []


def test_a_limit_that_nobody_reads_is_found(read: set[str]) -> None:
    planted = "NOBODYS_" + "LIMIT"
    assert [name for name in limits_of(f"{planted} = 5") if name not in read] == [planted]


def test_a_limit_that_is_only_set_or_mentioned_counts_as_unread() -> None:
    source = '''
"""About spool_entries."""
from outrider.limits.kernel import PAGE_ITEMS  # page_items
limits = Limits(lease_seconds=3)
limits.wait_seconds = 2
look(limits.look_seconds)
'''
    assert read_in(source) == {"Limits", "limits", "look", "look_seconds"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_limits_need_no_library(file: Path) -> None:
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert imported <= PLAIN
