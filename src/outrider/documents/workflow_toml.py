"""A workflow file written as TOML: what `apply` reads, in the form that people edit."""

from collections.abc import Mapping
from typing import Any

import tomli_w


def toml_of(document: Mapping[str, Any]) -> str:
    """A document of tables, lists of tables, and values; None is omitted."""
    plain = _without_none(document)
    # A reader of TOML may normalise the line ends of a string over several lines.
    return tomli_w.dumps(plain, multiline_strings=not _has_carriage_return(plain))


def _without_none(value: Any) -> Any:
    """TOML has no null."""
    if isinstance(value, Mapping):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _has_carriage_return(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_carriage_return, value.values()))
    if isinstance(value, list):
        return any(map(_has_carriage_return, value))
    return isinstance(value, str) and "\r" in value
