"""A workflow file written as TOML: what `apply` reads, in the form that people edit."""

from collections.abc import Mapping
from typing import Any

import tomli_w


def toml_of(document: Mapping[str, Any]) -> str:
    """A document of tables, lists of tables, and values; None is omitted."""
    return tomli_w.dumps(_without_none(document), multiline_strings=True)


def _without_none(value: Any) -> Any:
    """TOML has no null."""
    if isinstance(value, Mapping):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
