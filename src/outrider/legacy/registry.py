"""The available legacy senders: the built-in ones, and those that distributions register.

An invalid sender prevents the process from starting; none is skipped silently.
"""

import re
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from outrider.domain.states import Channel
from outrider.domain.workflows import RoutePlace, channel_kind
from outrider.legacy.agent_email import AgentEmail
from outrider.legacy.proposal_email import ProposalEmail
from outrider.legacy.thank_you_email import ThankYouEmail
from outrider.plugins import OURSELVES, Installed, installed
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
    """By trigger and key; InvalidInput names the distribution at fault."""
    built_in: tuple[LegacySender, ...] = (ProposalEmail(), ThankYouEmail(), AgentEmail())
    taken = {
        (each.trigger, each.place): _Taken(each, OURSELVES, built_in=True) for each in built_in
    }
    for given in installed(GROUP, "legacy sender", NAME):
        if given.name in TEMPLATES_OF_STEPS:
            raise given.refusal("should have another name: this is the name of a step template")
        sender = _load(given)
        stand = sender.trigger, sender.place
        there = taken.pop(stand, None)
        _refuse_what_it_may_not_replace(given, sender, there)
        for other in taken.values():
            if other.sender.name == given.name:
                raise given.refusal(f"has a name already used by {other.giver}")
        taken[stand] = _Taken(sender, given.giver)
    return {stand: each.sender for stand, each in taken.items()}


def _refuse_what_it_may_not_replace(
    given: Installed, sender: LegacySender, there: _Taken | None
) -> None:
    """A built-in sender may be replaced under its own key and name, once."""
    replaces = getattr(sender, "replaces", None)
    replaceable = there.sender.name if there is not None and there.built_in else None
    if replaces is not None and replaces != replaceable:
        raise given.refusal(f"replaces {replaces!r:.80}, which is not built in at its place")
    if there is not None and replaces is None:
        where = f"{sender.trigger}, {sender.place.channel} to {sender.place.audience}"
        raise given.refusal(
            f"is for a place already used ({where}) by {there.sender.name} of {there.giver}"
        )


def _load(given: Installed) -> LegacySender:
    # Checked at run time: a distribution's types are unverified.
    with given.made() as made:
        name, trigger, place, compose = made.name, made.trigger, made.place, made.compose
    if not callable(compose) or iscoroutinefunction(compose):
        raise given.refusal("should have the plain function compose")
    if name != given.name:
        raise given.refusal(f"gives a sender that calls itself {name!r:.80}")
    if not isinstance(trigger, str) or re.fullmatch(TRIGGER, trigger) is None:
        raise given.refusal(f"should have a trigger that matches {TRIGGER}")
    if not _is_place(place):
        raise given.refusal('should have a place such as RoutePlace(Channel.EMAIL, "lead")')
    sender: LegacySender = made
    return sender


def _is_place(place: object) -> bool:
    if not isinstance(place, RoutePlace):
        return False
    channel: Any = place.channel
    audience: Any = place.audience
    known = isinstance(channel, Channel) and isinstance(audience, str)
    return known and re.fullmatch(NAME, audience) is not None
