"""Limits are plain data that somebody reads; one that nobody reads would be an empty promise."""

import ast
import re
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


def words_read() -> set[str]:
    """Every name in the sources but where limits are defined; within those, where one is used."""
    words: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        if file.parent == LIMITS:
            nodes = ast.walk(ast.parse(file.read_text()))
            words |= {
                node.id
                for node in nodes
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }
        else:
            words |= set(re.findall(r"\w+", file.read_text()))
    return words


@pytest.fixture(scope="module")
def read() -> set[str]:
    return words_read()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_limit_is_read_by_somebody(file: Path, read: set[str]) -> None:
    limits = list(limits_of(file.read_text()))
    assert limits
    assert [name for name in limits if name not in read] == []


def test_a_limit_that_nobody_reads_is_found(read: set[str]) -> None:
    planted = "NOBODYS_" + "LIMIT"
    assert [name for name in limits_of(f"{planted} = 5") if name not in read] == [planted]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_limits_need_no_library(file: Path) -> None:
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert imported <= PLAIN
