"""Observers that act on their own process at a stage boundary: kill it, stall it, or detect
idleness.

A boundary is written `call:after:7`: the seventh time that a call has ended. Calls count by item,
all other stages by window or by job.
"""

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from outrider.domain.errors import InvalidInput
from outrider.ports.stages import Stage, StageObserver, Unobserved


class Side(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where in the pipeline it happens, and at which occurrence."""

    stage: Stage
    moment: Side
    nth: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            stage, moment, nth = (*text.split(":"), "1")[:3]
            return cls(Stage(stage), Side(moment), int(nth))
        except ValueError as error:
            raise InvalidInput(
                f"'{text}' is not a stage boundary", hint="write STAGE:before|after[:NTH]"
            ) from error

    def __str__(self) -> str:
        return f"{self.stage}:{self.moment}:{self.nth}"


class _AtBoundary(ABC):
    """Counts how often its boundary is passed and acts once, on the nth."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._passed = 0

    def before(self, stage: Stage) -> None:
        self._pass(stage, Side.BEFORE)

    def after(self, stage: Stage) -> None:
        self._pass(stage, Side.AFTER)

    def _pass(self, stage: Stage, moment: Side) -> None:
        if (stage, moment) != (self._boundary.stage, self._boundary.moment):
            return
        self._passed += 1
        if self._passed == self._boundary.nth:
            self._strike()

    @abstractmethod
    def _strike(self) -> None: ...


class KillAt(_AtBoundary):
    """Ends this process as a power cut would: nothing is flushed, no peer is notified."""

    def _strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class StallAt(_AtBoundary):
    """Freezes this process until it gets SIGCONT: a worker that was presumed dead.

    It writes `ready` first, so that a test can wait for the stall. `between_writes` waits until no
    transaction is open whose lock would be frozen too.
    """

    def __init__(self, boundary: Boundary, ready: Path) -> None:
        super().__init__(boundary)
        self._ready = ready
        self.between_writes: Callable[[Callable[[], None]], None] = lambda freeze: freeze()

    def _strike(self) -> None:
        self.between_writes(self._freeze)

    def _freeze(self) -> None:
        self._ready.write_text(str(self._boundary))
        os.kill(os.getpid(), signal.SIGSTOP)


class IdleWatch:
    """Passes everything on, and calls `on_idle` once there were only empty claims for a while."""

    def __init__(
        self,
        on_idle: Callable[[], None],
        idle_seconds: float,
        observer: StageObserver | None = None,
    ) -> None:
        self._on_idle = on_idle
        self._idle_seconds = idle_seconds
        self._observer = observer or Unobserved()
        self._alarm: asyncio.TimerHandle | None = None

    def before(self, stage: Stage) -> None:
        self._observer.before(stage)
        # A slow start is not idleness: counting starts with the first claim.
        if stage is not Stage.CLAIM or self._alarm is None:
            self._busy()

    def after(self, stage: Stage) -> None:
        # An empty claim begins but never ends, so any reported end is work.
        self._busy()
        self._observer.after(stage)

    def _busy(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(self._idle_seconds, self._on_idle)
