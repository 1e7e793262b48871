"""Domain events from a file: one JSON object, or one per line, taken in windows.

An invalid line is reported with its number, and the others are still taken.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.documents import Document
from outrider.cli.remote import Remote
from outrider.documents.emission import parse_emission
from outrider.domain.emissions import Emission, event_texts
from outrider.domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    OutriderError,
    Problem,
    StoreUnavailable,
)
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.times import rfc3339
from outrider.limits.workflows import EMITTED_AT_ONCE, EMITTED_REQUESTS, EVENT_LINE_MAX_BYTES

_PLACE = re.compile(r"\[(\d+)\]\.?")


class EventLine(NamedTuple):
    number: int
    emission: Emission


class RefusedLine(NamedTuple):
    number: int
    error: OutriderError

    def __str__(self) -> str:
        problems = self.error.problems if isinstance(self.error, InvalidInput) else []
        message = "; ".join(map(str, problems)) or self.error.message
        return texts.EventLines.LINE.format(number=self.number, told=message)

    def document(self) -> Document:
        problems = self.error.problems if isinstance(self.error, InvalidInput) else []
        return {
            "line": self.number,
            "code": self.error.code,
            "message": self.error.message,
            "fields": [{"path": each.path, "message": each.message} for each in problems],
        }


Answers = Sequence[bool | OutriderError]
"""For each emission, whether it is new, or why it was not taken."""
Take = Callable[[Sequence[Emission]], Awaitable[Answers]]


@dataclass
class EventTally:
    new: int = 0
    known: int = 0
    refused: list[RefusedLine] = field(default_factory=list)

    def document(self) -> Document:
        return {
            "new": self.new,
            "known": self.known,
            "refused": [each.document() for each in self.refused],
            "success": not self.refused,
        }


async def emit_lines(
    file: BinaryIO,
    take: Take,
    on_refused: Callable[[RefusedLine], None],
    on_read: Callable[[], None],
) -> EventTally:
    tally = EventTally()

    def refuse(refused: RefusedLine) -> None:
        tally.refused.append(refused)
        on_refused(refused)

    lines = _read(file)
    while window := list(islice(lines, EMITTED_AT_ONCE)):
        good = [each for each in window if isinstance(each, EventLine)]
        for each in window:
            if isinstance(each, RefusedLine):
                refuse(each)
        answers = await take([line.emission for line in good]) if good else []
        for line, answer in zip(good, answers, strict=True):
            if isinstance(answer, OutriderError):
                refuse(RefusedLine(line.number, answer))
            elif answer:
                tally.new += 1
            else:
                tally.known += 1
        on_read()
    return tally


async def take_here(outrider: Outrider, window: Sequence[Emission]) -> list[bool | OutriderError]:
    """A window is taken or refused whole, so it is submitted again without the bad ones."""
    answers: list[bool | OutriderError] = [False] * len(window)
    places = list(range(len(window)))
    while places:
        try:
            taken = await outrider.event_intake.emit_all(
                DEFAULT_SCOPE, [window[place] for place in places]
            )
        except InvalidInput as error:
            blamed = _by_place(error, len(places))
            if not blamed:
                raise
            for index, problem in blamed.items():
                answers[places[index]] = problem
            places = [place for index, place in enumerate(places) if index not in blamed]
            continue
        for place, answer in zip(places, taken, strict=True):
            answers[place] = answer if isinstance(answer, IdempotencyConflict) else answer[1]
        break
    return answers


async def take_there(server: Remote, window: Sequence[Emission]) -> list[bool | OutriderError]:
    room = asyncio.Semaphore(EMITTED_REQUESTS)

    async def take(emission: Emission) -> bool | OutriderError:
        async with room:
            try:
                _, is_new = await server.post_once("events", json=event_body(emission))
            except StoreUnavailable:
                raise
            except OutriderError as error:
                return error
            return is_new

    return await asyncio.gather(*map(take, window))


def event_body(emission: Emission) -> Document:
    """A request to a server; what it would certainly refuse is refused here."""
    event_texts(emission)
    body: Document = {
        "eventId": emission.event_id,
        "trigger": emission.trigger,
        "subject": emission.subject,
        "variables": emission.variables,
    }
    if emission.occurred_at is not None:
        body["occurredAt"] = rfc3339(emission.occurred_at)
    return body


def _by_place(error: InvalidInput, count: int) -> dict[int, InvalidInput]:
    """The problems of many emissions, by the index of the one that has them."""
    problems: dict[int, list[Problem]] = {}
    for each in error.problems:
        found = _PLACE.match(each.path)
        place = int(found[1]) if found and count > 1 else 0
        path = each.path[found.end() :] if found and count > 1 else each.path
        problems.setdefault(place, []).append(Problem(path, each.message))
    return {
        place: InvalidInput(error.message, found, hint=error.hint)
        for place, found in problems.items()
    }


def _read(file: BinaryIO) -> Iterator[EventLine | RefusedLine]:
    """One event per line, unless the first line alone is invalid: then the whole file is one."""
    numbered = enumerate(iter(lambda: file.readline(EVENT_LINE_MAX_BYTES + 1), b""), 1)
    written = ((number, raw) for number, raw in numbered if raw.strip())
    first = next(written, None)
    if first is None:
        yield RefusedLine(1, InvalidInput(texts.EventLines.EMPTY))
        return
    number, raw = first
    if raw.strip() == b"{" or _is_only_begun(raw):
        rest = file.read(EVENT_LINE_MAX_BYTES + 1)
        yield from _one_or_many(number, raw, rest)
        return
    for number, raw in chain([first], written):
        yield _line(number, raw)
        if not raw.endswith(b"\n"):
            # The rest of a truncated line is not an event.
            while (rest := file.readline(EVENT_LINE_MAX_BYTES)) and not rest.endswith(b"\n"):
                pass


def _one_or_many(number: int, raw: bytes, rest: bytes) -> Iterator[EventLine | RefusedLine]:
    """One event over many lines; or, if other lines are events, a truncated line."""
    whole = _line(number, raw + rest)
    lines = [
        _line(place, each)
        for place, each in enumerate([raw, *rest.splitlines()], number)
        if each.strip()
    ]
    is_one = isinstance(whole, EventLine) or not any(isinstance(each, EventLine) for each in lines)
    yield from [whole] if is_one else lines


def _is_only_begun(raw: bytes) -> bool:
    """Whether it is the first line of an object that continues below."""
    text = raw.strip()
    return text.startswith(b"{") and text.endswith((b",", b"{", b"[", b":"))


def _line(number: int, raw: bytes) -> EventLine | RefusedLine:
    if len(raw) > EVENT_LINE_MAX_BYTES:
        return RefusedLine(
            number,
            InvalidInput(
                texts.EventLines.TOO_LONG.format(event_line_max_bytes=EVENT_LINE_MAX_BYTES)
            ),
        )
    try:
        emission = parse_emission(raw)
        event_texts(emission)
    except InvalidInput as error:
        return RefusedLine(number, error)
    return EventLine(number, emission)
