"""The one loader of code found by name: entry points of installed distributions, and what settings
and tables name as `package.module:attribute`.

An invalid plugin prevents the process from starting and is reported with its distribution; none is
skipped silently.
"""

import re
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from typing import Any, Final

from outrider.domain.errors import InvalidInput
from outrider.domain.references import BUILT_IN_SCHEMES, is_reference
from outrider.ports.authorisation import Authorisation
from outrider.ports.secrets import GROUP as SECRET_SCHEMES

OURSELVES: Final = "Outrider itself"


class Installed:
    """One registered plugin: its name, its distribution, and how to load it."""

    def __init__(self, entry: EntryPoint, kind: str) -> None:
        self._entry = entry
        self._kind = kind
        self.name = entry.name
        given = entry.dist
        self.giver = f"{given.name} {given.version}" if given else "an unknown distribution"

    @contextmanager
    def made(self, *, quotes_errors: bool = True) -> Iterator[Any]:
        """The plugin itself. What it raises inside the block is also reported as its fault, and is
        quoted unless it could hold a secret."""
        try:
            yield self._entry.load()()
        except Exception as error:
            words = f": {error}" if quotes_errors else ""
            raise self.refusal(f"cannot be loaded: {type(error).__name__}{words}") from error

    def refusal(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"the {self._kind} '{self.name}' of {self.giver} {why}",
            hint=f"fix or uninstall the distribution; it registers {self._entry.value}",
        )


def installed(group: str, kind: str, pattern: str) -> Iterator[Installed]:
    """In name order; each name matches the pattern."""
    found = [Installed(entry, kind) for entry in entry_points(group=group)]
    for each in sorted(found, key=lambda each: (each.name, each.giver)):
        if re.fullmatch(pattern, each.name) is None:
            raise each.refusal(f"should have a name that matches {pattern}")
        yield each


def with_own_names(found: Iterable[Installed], built_in: Iterable[str]) -> Iterator[Installed]:
    """Those whose name is not already taken, by Outrider or by each other."""
    givers = dict.fromkeys(built_in, OURSELVES)
    for each in found:
        if each.name in givers:
            raise each.refusal(f"has a name already used by {givers[each.name]}")
        yield each
        givers[each.name] = each.giver


def known_schemes() -> Set[str]:
    """The schemes of secret references that work here. Nothing is loaded to find out."""
    return BUILT_IN_SCHEMES | {entry.name for entry in entry_points(group=SECRET_SCHEMES)}


def only_a_reference(text: str) -> str:
    """The text, if it refers to a secret and is not one itself: else ValueError."""
    if not is_reference(text) and not is_reference(text, known_schemes()):
        raise ValueError("must be env:NAME or file:PATH, never the secret itself")
    return text


def load_named(name: str) -> Any:
    """What `package.module:attribute` names; ImportError and AttributeError are the caller's."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def load_authorisation(name: str) -> Authorisation:
    """A custom rule about who may steer a run: `package.module:Class`, made without arguments.
    InvalidInput says what is wrong with it."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise _refusal(name, "is not of the form package.module:Class")
    try:
        rule: Authorisation = load_named(name)()
    except Exception as error:
        raise _refusal(name, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not iscoroutinefunction(getattr(rule, "decide", None)):
        raise _refusal(name, "should have the coroutine decide(principal, signal, run_id)")
    return rule


def _refusal(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the authorisation '{name}' {why}",
        hint="fix OUTRIDER_AUTHORISATION, or unset it to let API keys and their scopes decide",
    )
