"""The texts that users read, found in the sources: string literals of JavaScript and Python.

The scanners are small and know only what this project writes; tests plant texts to prove that they
find them.
"""

import ast
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

# Attributes of elements that nobody reads, and other places where words are code.
_CODE_BEFORE = re.compile(
    r"(?:\b(?:class|look|d|viewBox|transform|kind|role|type)|\"data-[a-z-]+\"): *$"
    r"|from\s*$|querySelector(?:All)?\($|closest\($|matches\($"
)
_CODE = {
    "small primary",
    "dead letter",
    "part part-${part}",
    "AbortError",
    "Accept",
    "Content-Type",
    "Date",
    "Escape",
    "X-CSRF-Token",
    "X-Idempotency-Key",
}
_REGEX_BEFORE = "(,=:[!&|?{};\n"
_WORDS = re.compile(r"[A-Za-z]{2,} +[A-Za-z]|^[A-Z][a-z]+")
_MARKUP = re.compile(r"\[/?[a-z ]+\]")


class Literal(NamedTuple):
    line: int
    text: str


def console_sentences(source: str) -> list[Literal]:
    """Literals of a JavaScript module that look like words on a page."""
    found = []
    for start, text in _javascript_literals(source):
        words = re.sub(r"\$\{.*?\}", "", text).strip()
        if text in _CODE or not _WORDS.search(words):
            continue
        if _CODE_BEFORE.search(source[max(0, start - 60) : start]):
            continue
        found.append(Literal(source.count("\n", 0, start) + 1, text))
    return found


def _javascript_literals(source: str) -> Iterator[tuple[int, str]]:
    place = 0
    while place < len(source):
        sign = source[place]
        if source.startswith("//", place):
            place = (source + "\n").index("\n", place)
        elif source.startswith("/*", place):
            place = source.index("*/", place) + 2
        elif sign in "\"'`":
            end = _end_of_literal(source, place)
            yield place, source[place + 1 : end]
            place = end + 1
        elif sign == "/" and _may_begin_a_regex(source[:place]):
            place = _end_of_regex(source, place) + 1
        else:
            place += 1


def _end_of_literal(source: str, start: int) -> int:
    quote, place, depth = source[start], start + 1, 0
    while depth > 0 or source[place] != quote:
        if source[place] == "\\":
            place += 1
        elif quote == "`" and source.startswith("${", place):
            depth += 1
            place += 1
        elif depth > 0 and source[place] in "\"'`":
            place = _end_of_literal(source, place)
        elif depth > 0 and source[place] in "{}":
            depth += 1 if source[place] == "{" else -1
        place += 1
    return place


def _may_begin_a_regex(before: str) -> bool:
    text = before.rstrip(" \t")
    return text.endswith("return") or text[-1:] in _REGEX_BEFORE


def _end_of_regex(source: str, start: int) -> int:
    place, in_class = start + 1, False
    while in_class or source[place] != "/":
        if source[place] == "\\":
            place += 1
        elif source[place] in "[]":
            in_class = source[place] == "["
        place += 1
    return place


def python_texts(source: str) -> list[Literal]:
    """String literals of a module that are not documentation; `{…}` stands for what is put in."""
    tree = ast.parse(source)
    return list(_texts(tree, set()))


def command_sentences(source: str) -> list[Literal]:
    """What a command prints from literals of its own: not its help, and not its tables' columns."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("help", "metavar"):
            skipped |= _ids(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print_rows":
            skipped |= _ids(node.args[0])
    return [
        each
        for each in _texts(tree, skipped)
        if re.search(r"[A-Za-z]{2,} +(?:\{…\} +)?[A-Za-z]{2,} ", _MARKUP.sub("", each.text) + " ")
    ]


def _texts(tree: ast.Module, skipped: set[int]) -> Iterator[Literal]:
    hidden = set(skipped)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            hidden |= _ids(node) - {id(node)} - _strings_put_in(node)
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (
                str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values
            )
            yield Literal(node.lineno, "".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Literal(node.lineno, node.value)


def _strings_put_in(node: ast.JoinedStr) -> set[int]:
    """Literals inside the braces: they are read by themselves."""
    values = (part.value for part in node.values if isinstance(part, ast.FormattedValue))
    return {each for value in values for each in _ids(value)}


def _ids(node: ast.AST) -> set[int]:
    return {id(part) for part in ast.walk(node)}


def help_texts(source: str) -> list[Literal]:
    """Docstrings of a command's module: they are what `--help` prints."""
    return [
        Literal(node.lineno, text)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.decorator_list
        if (text := ast.get_docstring(node))
    ]


def fields_of(template: str) -> set[str]:
    """The names of the values that a text in `cli/texts/` needs."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}
