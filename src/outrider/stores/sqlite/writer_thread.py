"""The writer thread: the only one that writes to SQLite, and its queue.

Short transactions go before large windows of a campaign, so that a single message, a claim or a
pause waits for at most one of those; after several short ones a large one gets its turn. While a
message is between two of its short ones, no large one begins; that lasts only briefly.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from outrider.limits.stores import (
    SQLITE_LARGE_LOOK_SECONDS,
    SQLITE_LARGE_WAIT_SECONDS,
    SQLITE_SHORT_BEFORE_LARGE,
)

Answer = TypeVar("Answer")
_Job = tuple[Future[Any], Callable[[], Any]]


class WriterThread:
    def __init__(self) -> None:
        self._short: deque[_Job] = deque()
        self._large: deque[_Job] = deque()
        self._large_since = 0.0
        """When the first large one came, or the one before it began."""
        self.gives_way: Callable[[], bool] = lambda: False
        """Whether large ones wait, because short ones are about to come."""
        self._shorts_in_a_row = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._run, name="outrider-sqlite-writer", daemon=True
        )
        self._thread.start()

    def submit(self, work: Callable[[], Answer], *, large: bool = False) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the store is closed")
            if large and not self._large:
                self._large_since = time.monotonic()
            (self._large if large else self._short).append((future, work))
            self._changed.notify()
        return future

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def shutdown(self) -> None:
        """Wait until all submitted work is done."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            # Keep no reference to it until the next one comes.
            del job, future, work

    def _next(self) -> _Job | None:
        with self._changed:
            while not (self._short or (self._large and not self._large_waits())):
                if self._is_closed and not self._large:
                    return None
                self._changed.wait(SQLITE_LARGE_LOOK_SECONDS if self._large else None)
            its_turn = self._shorts_in_a_row >= SQLITE_SHORT_BEFORE_LARGE
            if self._large and (its_turn or not self._short):
                self._shorts_in_a_row = 0
                self._large_since = time.monotonic()
                return self._large.popleft()
            self._shorts_in_a_row += 1
            return self._short.popleft()

    def _large_waits(self) -> bool:
        waited_seconds = time.monotonic() - self._large_since
        return waited_seconds < SQLITE_LARGE_WAIT_SECONDS and self.gives_way()
