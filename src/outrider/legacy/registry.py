"""Which legacy senders there are: the built-in ones, and those that distributions register.

A sender that is not what it should be stops the start of the process; none is left out in silence.
"""

import re
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from outrider.domain.errors import InvalidInput
from outrider.domain.states import Channel
from outrider.domain.workflows import RoutePlace, channel_kind
from outrider.legacy.agent_email import AgentEmail
from outrider.legacy.proposal_email import ProposalEmail
from outrider.legacy.thank_you_email import ThankYouEmail
from outrider.ports.legacy import LegacySender

GROUP = "outrider.legacy_senders"

NAME = "[a-z][a-z0-9_]{0,63}"
TRIGGER = r"[a-z][a-z0-9_.]{0,63}"
TEMPLATES_OF_STEPS = frozenset(channel_kind(channel)[1] for channel in Channel)


class _Taken(NamedTuple):
    sender: LegacySender
    giver: str
    built_in: bool = False


def load_senders() -> dict[tuple[str, RoutePlace], LegacySender]:
    """By trigger and place; InvalidInput names the distribution that is wrong."""
    built_in: tuple[LegacySender, ...] = (ProposalEmail(), ThankYouEmail(), AgentEmail())
    taken = {
        (each.trigger, each.place): _Taken(each, "Outrider itself", built_in=True)
        for each in built_in
    }
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _giver(entry))):
        if re.fullmatch(NAME, entry.name) is None or entry.name in TEMPLATES_OF_STEPS:
            raise _refusal(entry, f"should have a name of its own that matches {NAME}")
        sender = _load(entry)
        stand = sender.trigger, sender.place
        there = taken.pop(stand, None)
        _refuse_what_it_may_not_replace(entry, sender, there)
        for other in taken.values():
            if other.sender.name == entry.name:
                raise _refusal(entry, f"has a name that is taken by {other.giver}")
        taken[stand] = _Taken(sender, _giver(entry))
    return {stand: each.sender for stand, each in taken.items()}


def _refuse_what_it_may_not_replace(
    entry: EntryPoint, sender: LegacySender, there: _Taken | None
) -> None:
    """A built-in sender is replaced where it stands and by its name, and by one only."""
    replaces = getattr(sender, "replaces", None)
    replaceable = there.sender.name if there is not None and there.built_in else None
    if replaces is not None and replaces != replaceable:
        raise _refusal(entry, f"replaces {replaces!r:.80}, which is not built in at its place")
    if there is not None and replaces is None:
        where = f"{sender.trigger}, {sender.place.channel} to {sender.place.audience}"
        raise _refusal(
            entry, f"has a place that is taken ({where}) by {there.sender.name} of {there.giver}"
        )


def _load(entry: EntryPoint) -> LegacySender:
    try:
        sender: LegacySender = entry.load()()
        # Whatever they say they are: a distribution's own types were checked by nobody.
        given: Any = sender
        name, trigger, place, compose = given.name, given.trigger, given.place, given.compose
    except Exception as error:
        raise _refusal(entry, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(compose) or iscoroutinefunction(compose):
        raise _refusal(entry, "should have the plain function compose")
    if name != entry.name:
        raise _refusal(entry, f"gives a sender that calls itself {name!r:.80}")
    if not isinstance(trigger, str) or re.fullmatch(TRIGGER, trigger) is None:
        raise _refusal(entry, f"should have a trigger that matches {TRIGGER}")
    if not _is_place(place):
        raise _refusal(entry, 'should have a place such as RoutePlace(Channel.EMAIL, "lead")')
    return sender


def _is_place(place: object) -> bool:
    if not isinstance(place, RoutePlace):
        return False
    channel: Any = place.channel
    audience: Any = place.audience
    known = isinstance(channel, Channel) and isinstance(audience, str)
    return known and re.fullmatch(NAME, audience) is not None


def _giver(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"


def _refusal(entry: EntryPoint, why: str) -> InvalidInput:
    return InvalidInput(
        f"the legacy sender '{entry.name}' of {_giver(entry)} {why}",
        hint=f"correct or uninstall the distribution; it registers {entry.value}",
    )
