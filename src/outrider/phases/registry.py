"""The available phases: the built-in ones, and those that installed distributions register.

An invalid phase prevents the process from starting; none is skipped silently.
"""

from collections.abc import Sequence
from inspect import iscoroutinefunction

from outrider.domain.campaigns import LAUNCH
from outrider.phases.audience_import import AudienceImport
from outrider.phases.dns_validation import DnsValidation
from outrider.phases.http_validation import HttpValidation
from outrider.phases.report import ReportPhase
from outrider.phases.sender_validation import SenderOf, SenderValidation
from outrider.plugins import Installed, installed, with_own_names
from outrider.ports.phases import PhaseHandler

GROUP = "outrider.phases"

NAME = "[a-z][a-z0-9_]{0,63}"


def load_handlers(
    nameservers: Sequence[str],
    allow_private: bool,
    sender_of: SenderOf,
    *,
    has_links: bool,
) -> dict[str, PhaseHandler]:
    """Every phase but the launch, by name; InvalidInput names the distribution at fault."""
    built_in: tuple[PhaseHandler, ...] = (
        AudienceImport(),
        DnsValidation(nameservers),
        HttpValidation(allow_private=allow_private),
        SenderValidation(sender_of, nameservers, has_links=has_links),
        ReportPhase(),
    )
    handlers = {handler.name: handler for handler in built_in}
    found = installed(GROUP, "phase", NAME)
    for each in with_own_names(found, [LAUNCH, *handlers]):
        handlers[each.name] = _load(each)
    return handlers


def _load(given: Installed) -> PhaseHandler:
    with given.made() as made:
        handler: PhaseHandler = made
        name = handler.name
        whole = iscoroutinefunction(handler.plan) and iscoroutinefunction(handler.process)
    if not whole:
        raise given.refusal("should have the coroutines plan and process")
    if name != given.name:
        raise given.refusal(f"gives a handler that calls itself '{name}'")
    return handler
