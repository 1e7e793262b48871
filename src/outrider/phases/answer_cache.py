"""Answers that are worth remembering for a while: so many at most, and none of them for long."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class AnswerCache(Generic[Answer]):
    def __init__(
        self, most: int, seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        self._kept: dict[str, tuple[float, Answer]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, question: str) -> Answer | None:
        until, answer = self._kept.get(question, (0.0, None))
        if answer is not None and self._now() >= until:
            del self._kept[question]
            return None
        return answer

    def put(self, question: str, answer: Answer) -> None:
        # Out and in again, so that the first of the dictionary is always the oldest.
        self._kept.pop(question, None)
        if len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[question] = (self._now() + self._seconds, answer)
