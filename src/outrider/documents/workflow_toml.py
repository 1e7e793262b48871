"""A workflow file written as TOML: what `apply` reads, in the form that people edit."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DELETE = "\x7f"


def toml_of(document: Mapping[str, Any]) -> str:
    """A document of tables, lists of tables, and values; what is None is left out."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: Sequence[str]) -> Iterator[str]:
    """A table's own values come first: whatever stands behind a header belongs to that."""
    for name, value in table.items():
        if value is not None and not _is_list_of_tables(value) and not _is_below(value, path):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        here = (*path, _key(name))
        if _is_list_of_tables(value):
            for each in value:
                yield f"\n[[{'.'.join(here)}]]"
                yield from _table(each, here)
        elif value is not None and _is_below(value, path):
            yield f"\n[{'.'.join(here)}]"
            yield from _table(value, here)


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(e, Mapping) for e in value)


def _is_below(value: object, path: Sequence[str]) -> bool:
    """A table of the document itself has a header; one inside of a rule is written in a line."""
    return isinstance(value, Mapping) and not path


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str() if "\n" in value:
            return _long_text(value)
        case str():
            return _text(value)
        case Mapping():
            inside = (f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
            return f"{{ {', '.join(inside)} }}" if value else "{}"
        case Sequence():
            return f"[{', '.join(map(_value, value))}]"
        case other:
            raise TypeError(f"TOML has no {type(other).__name__}")


def _text(text: str) -> str:
    """JSON escapes what TOML wants escaped, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace(DELETE, "\\u007f")


def _long_text(text: str) -> str:
    """Over several lines; the line break behind the opening quotes is not part of it."""
    lines = (_text(line)[1:-1] for line in text.split("\n"))
    return '"""\n' + "\n".join(lines) + '"""'
