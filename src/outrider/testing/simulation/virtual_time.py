"""An event loop whose time is virtual: it jumps to the next timer instead of waiting for it."""

import asyncio
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
STEPS_AT_ONCE_MOST = 50_000


class NothingLeft(RuntimeError):
    """No task can ever continue: all wait for something that nobody will do, or one of them goes
    round in a circle without letting time pass."""


class _NoWaiting(selectors.SelectSelector):
    """There is no input and output to wait for, only timers."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._steps_at_once = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise NothingLeft("every task waits, and no timer is set")
        self._steps_at_once = self._steps_at_once + 1 if timeout <= 0.0 else 0
        if self._steps_at_once > STEPS_AT_ONCE_MOST:
            raise NothingLeft("a task goes round in a circle, and no time passes")
        self.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._timers = _NoWaiting()
        super().__init__(self._timers)

    def time(self) -> float:
        return self._timers.now

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, function: Callable[..., Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        """At once and in this thread: threads would not be the same twice."""
        done = self.create_future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def moment(loop_seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=loop_seconds)


class DatabaseTime:
    """What a database's clock says. It knows nothing else of its world: a database is not cleared
    away together with what its functions know."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ahead_seconds = 0.0

    def text(self, *_given: object) -> str:
        now = moment(self._loop.time() + self.ahead_seconds)
        return now.isoformat(timespec="milliseconds").removesuffix("+00:00")
