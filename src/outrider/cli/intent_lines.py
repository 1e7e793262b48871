"""Intents from a file, one JSON object a line, submitted in windows.

A line that is not an intent is reported with its number, and the others are still submitted.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import msgspec

from outrider.api.intent_batches import CREATED, item_answer, read_line
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.documents import Document
from outrider.cli.remote import Remote
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.submissions.submission_manager import Submission
from outrider.limits.campaigns import (
    INTENT_BATCH_ITEMS,
    INTENT_LINE_MAX_BYTES,
    INTENT_WINDOW_BYTES,
)


class LineToSubmit(NamedTuple):
    number: int
    raw: bytes
    submission: Submission


Take = Callable[[Sequence[LineToSubmit]], Awaitable[Sequence[Document]]]
"""Of each line the answer, with its `status`."""


@dataclass
class IntentTally:
    new: int = 0
    known: int = 0
    refused: list[Document] = field(default_factory=list)

    def document(self) -> Document:
        return {
            "new": self.new,
            "known": self.known,
            "refused": self.refused,
            "success": not self.refused,
        }


async def submit_lines(
    file: BinaryIO, take: Take, on_refused: Callable[[Document], None], on_read: Callable[[], None]
) -> IntentTally:
    tally = IntentTally()

    def refuse(number: int, answer: Document) -> None:
        tally.refused.append({"line": number, **answer})
        on_refused(tally.refused[-1])

    for window in _windows(file):
        good = [line for line in window if isinstance(line, LineToSubmit)]
        for line in window:
            if not isinstance(line, LineToSubmit):
                refuse(line[0], item_answer(None, line[1]))
        for line, answer in zip(good, await take(good) if good else [], strict=True):
            if answer.get("error"):
                refuse(line.number, answer)
            elif answer["status"] == CREATED:
                tally.new += 1
            else:
                tally.known += 1
        on_read()
    return tally


async def take_here(outrider: Outrider, window: Sequence[LineToSubmit]) -> list[Document]:
    given = [line.submission for line in window]
    answers = await outrider.submissions.submit_each(DEFAULT_SCOPE, given)
    return [
        item_answer(each.intent_id, answer) for each, answer in zip(given, answers, strict=True)
    ]


async def take_there(server: Remote, window: Sequence[LineToSubmit]) -> list[Document]:
    body = {"intents": [msgspec.Raw(line.raw) for line in window]}
    answer = await server.post("intents", "batch", json=body)
    found: list[Document] = answer["items"]
    return found


def refusal_text(refused: Document) -> str:
    fields = refused["error"].get("fields", [])
    problems = "; ".join(f"{each['path']}: {each['message']}" for each in fields)
    problem = problems or refused["error"]["message"]
    return texts.IntentLines.LINE.format(line=refused["line"], problem=problem)


def _windows(file: BinaryIO) -> Iterator[list[LineToSubmit | tuple[int, InvalidInput]]]:
    """As many lines as one request may have, or fewer where they are long."""
    window: list[LineToSubmit | tuple[int, InvalidInput]] = []
    size = 0
    for line in _lines(file):
        if len(window) == INTENT_BATCH_ITEMS or size >= INTENT_WINDOW_BYTES:
            yield window
            window, size = [], 0
        window.append(line)
        size += len(line.raw) if isinstance(line, LineToSubmit) else 0
    if window:
        yield window


def _lines(file: BinaryIO) -> Iterator[LineToSubmit | tuple[int, InvalidInput]]:
    number = 0
    while raw := file.readline(INTENT_LINE_MAX_BYTES + 1):
        number += 1
        if len(raw) > INTENT_LINE_MAX_BYTES:
            while not raw.endswith(b"\n") and (raw := file.readline(INTENT_LINE_MAX_BYTES)):
                pass
            yield (
                number,
                InvalidInput(texts.IntentLines.TOO_LONG.format(most=INTENT_LINE_MAX_BYTES)),
            )
        elif text := raw.strip():
            found = read_line(text)
            yield (
                LineToSubmit(number, text, found)
                if isinstance(found, Submission)
                else (number, found)
            )
