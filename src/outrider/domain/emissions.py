"""An emission: a domain event as its sender submits it, validated before anything is written.

A repeated event is recognised by its fingerprint, which covers only what the sender sent.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.times import rfc3339

EVENT_ID_MAX_CHARACTERS = 200
EVENT_MAX_BYTES = 262_144
EVENT_DEPTH_MAX = 32
DOTS = (".", "..")
"""Every HTTP client treats these differently in a path."""
TRIGGER = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Emission:
    event_id: str
    trigger: str
    subject: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    occurred_at: datetime | None = None


class EventTexts(NamedTuple):
    """An emission as it is stored."""

    subject: str
    variables: str
    fingerprint: str


def event_texts(emission: Emission, where: str = "") -> EventTexts:
    """Raises InvalidInput with every problem at once, each with its path."""
    problems = [
        *_name_problems(emission, where),
        *_value_problems(where, "subject", emission.subject),
        *_value_problems(where, "variables", emission.variables),
    ]
    occurred = emission.occurred_at
    if occurred is not None and (wrong := _time_problem(occurred)):
        problems.append(Problem(f"{where}occurredAt", wrong))
    if problems:
        raise InvalidInput("the event was refused", problems)
    subject, variables = canonical(emission.subject), canonical(emission.variables)
    fields = (emission.trigger, rfc3339(occurred) if occurred else "", subject, variables)
    size = len(subject.encode()) + len(variables.encode())
    if size > EVENT_MAX_BYTES:
        raise InvalidInput(
            "the event was refused",
            [
                Problem(
                    f"{where}variables",
                    f"the event has {size:,} bytes; the maximum is {EVENT_MAX_BYTES:,}",
                )
            ],
            hint="send references to large objects instead of the objects",
        )
    return EventTexts(subject, variables, hashlib.sha256(json.dumps(fields).encode()).hexdigest())


def is_event_id(text: str) -> bool:
    """Whether it is valid as an event id; an invalid one cannot exist."""
    good = 0 < len(text) <= EVENT_ID_MAX_CHARACTERS and text.isprintable()
    return good and text not in DOTS


def canonical(value: Mapping[str, Any]) -> str:
    """Keys in order: equal values give equal text, however the sender wrote them."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _name_problems(emission: Emission, where: str) -> list[Problem]:
    problems = []
    event_id: object = emission.event_id
    trigger: object = emission.trigger
    if not isinstance(event_id, str) or not 0 < len(event_id) <= EVENT_ID_MAX_CHARACTERS:
        most = f"1 to {EVENT_ID_MAX_CHARACTERS} characters"
        problems.append(Problem(f"{where}eventId", f"should be a string of {most}"))
    elif event_id in DOTS:
        problems.append(Problem(f"{where}eventId", "must not consist of dots only"))
    elif not event_id.isprintable():
        problems.append(Problem(f"{where}eventId", "must not contain control characters"))
    if not isinstance(trigger, str) or not TRIGGER.fullmatch(trigger):
        problems.append(
            Problem(f"{where}trigger", "should be a name such as quote_sent: a-z, 0-9, '_' and '.'")
        )
    return problems


def _value_problems(where: str, name: str, value: object) -> list[Problem]:
    if not isinstance(value, Mapping):
        return [Problem(f"{where}{name}", "should be an object")]
    if _depth(value) > EVENT_DEPTH_MAX:
        return [Problem(f"{where}{name}", f"is nested deeper than {EVENT_DEPTH_MAX} levels")]
    try:
        text = canonical(value)
        text.encode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return [Problem(f"{where}{name}", f"is not plain JSON: {error}")]
    if _NUL.search(text):
        return [Problem(f"{where}{name}", "must not contain NUL")]
    return []


def _time_problem(moment: datetime) -> str | None:
    if moment.tzinfo is None:
        return "should have a time zone"
    try:
        rfc3339(moment)
    except OverflowError:
        return "is not a time that exists"
    return None


def _depth(value: object) -> int:
    """Level by level, because malicious input could exhaust a recursion."""
    level, depth = [value], 0
    while level and depth <= EVENT_DEPTH_MAX:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, Mapping | list | tuple)
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
        ]
    return depth
