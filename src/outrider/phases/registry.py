"""Which phases there are: the built-in ones, and those that installed distributions register.

A phase that is not what it should be stops the start of the process; none is left out in silence.
"""

import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput
from outrider.phases.audience_import import AudienceImport
from outrider.phases.dns_validation import DnsValidation
from outrider.phases.http_validation import HttpValidation
from outrider.phases.report import Report
from outrider.ports.phases import PhaseHandler

GROUP = "outrider.phases"

NAME = "[a-z][a-z0-9_]{0,63}"


def load_handlers(nameservers: Sequence[str], allow_private: bool) -> dict[str, PhaseHandler]:
    """Every phase but the launch, by name; InvalidInput names the distribution that is wrong."""
    built_in: tuple[PhaseHandler, ...] = (
        AudienceImport(),
        DnsValidation(nameservers),
        HttpValidation(allow_private=allow_private),
        Report(),
    )
    handlers = {handler.name: handler for handler in built_in}
    givers = dict.fromkeys([LAUNCH, *handlers], "Outrider itself")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _giver(entry))):
        if re.fullmatch(NAME, entry.name) is None:
            raise _refusal(entry, f"should have a name that matches {NAME}")
        if entry.name in givers:
            raise _refusal(entry, f"has a name that is taken by {givers[entry.name]}")
        handlers[entry.name] = _load(entry)
        givers[entry.name] = _giver(entry)
    return handlers


def _load(entry: EntryPoint) -> PhaseHandler:
    try:
        handler: PhaseHandler = entry.load()()
        name = handler.name
        whole = iscoroutinefunction(handler.plan) and iscoroutinefunction(handler.process)
    except Exception as error:
        raise _refusal(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not whole:
        raise _refusal(entry, "should have the coroutines plan and process")
    if name != entry.name:
        raise _refusal(entry, f"gives a handler that calls itself '{name}'")
    return handler


def _giver(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"


def _refusal(entry: EntryPoint, why: str) -> InvalidInput:
    return InvalidInput(
        f"the phase '{entry.name}' of {_giver(entry)} {why}",
        hint=f"correct or uninstall the distribution; it registers {entry.value}",
    )
