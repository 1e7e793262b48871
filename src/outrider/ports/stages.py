"""The named stages of delivery, and the observer that is notified when each begins and ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol


class Stage(StrEnum):
    CLAIM = "claim"
    LOAD = "load"
    SCREEN = "screen"
    RENDER = "render"
    RESERVE = "reserve"
    OPEN = "open"
    CALL = "call"
    CLOSE = "close"
    SETTLE = "settle"


class StageObserver(Protocol):
    """Telemetry in production; in crash tests, what kills the process on a boundary."""

    def before(self, stage: Stage) -> None: ...

    def after(self, stage: Stage) -> None: ...


class Unobserved:
    def before(self, stage: Stage) -> None:
        pass

    def after(self, stage: Stage) -> None:
        pass


@contextmanager
def observed(observer: StageObserver, stage: Stage) -> Iterator[None]:
    """Notify the observer of a stage; its end is reported only if it completed."""
    observer.before(stage)
    yield
    observer.after(stage)
