"""The names of settings: unknown ones are refused, with a suggestion.

Ignoring a mistyped variable is the worst answer: the program runs, on another database.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

PREFIX: Final = "OUTRIDER_"

OTHER_VARIABLES: Final = frozenset({"OUTRIDER_KEY", "OUTRIDER_SERVER", "OUTRIDER_BUS_SECRET"})
"""Read by commands and sinks directly."""

TEST_VARIABLES: Final = re.compile(r"OUTRIDER_(?:TEST_\w+|CRASH_SEED|BROWSER_ITEMS)")
"""Configures the project's own tests; processes that they start inherit it."""

CONTRACT_NAMES: Final = {"stateStore": "state_store"}
"""Tables of `outrider.toml` that a contract calls by another name."""

_REFERENCE = re.compile(r"\benv:([A-Za-z_][A-Za-z0-9_]*)")


def unknown_variables(
    environment: Mapping[str, str], known: Iterable[str], settings: object
) -> dict[str, str]:
    """Variables that look like settings but are not; secrets that settings refer to are exempt.

    `known` are the fields; `settings` is everything that was set, in whatever form.
    """
    expected = {f"{PREFIX}{name.upper()}" for name in known} | OTHER_VARIABLES
    expected |= set(_references(settings))
    return {
        # Without its value, which may be a secret.
        name: ""
        for name in sorted(environment)
        if name.upper().startswith(PREFIX)
        and name.upper() not in expected
        and name not in expected
        and not TEST_VARIABLES.fullmatch(name)
    }


def in_our_names(file: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of `outrider.toml`, with a contract's names translated to ours."""
    renamed = dict(file)
    for theirs, ours in CONTRACT_NAMES.items():
        if theirs in renamed and ours not in renamed:
            renamed[ours] = renamed.pop(theirs)
    return renamed


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause to end a sentence with, empty if there is no similar name."""
    by_folded = {each.lower(): each for each in known}
    [*near] = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.7)
    return f"; did you mean {by_folded[near[0]]}?" if near else ""


def _references(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _references(inner)
