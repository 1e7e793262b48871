"""The database watch: readers learn within a second that the database is unavailable.

During a slow read the database is pinged on a separate connection. While it answers, the read may
take its time; if it does not, the read is abandoned.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import structlog

from outrider.domain.errors import StoreError, StoreUnavailable
from outrider.limits.api import ApiLimits
from outrider.ports.store import Store

log = structlog.get_logger()

Found = TypeVar("Found")


class DatabaseWatch:
    def __init__(self, store: Store, limits: ApiLimits) -> None:
        self._store = store
        self._limits = limits
        self._asking: asyncio.Task[None] | None = None
        self._left_alone: set[asyncio.Task[Any]] = set()
        self._fine: set[str] = set()
        self._checks: dict[str, tuple[asyncio.Task[None], float]] = {}
        """Those in progress, by name, and since when."""

    async def found(self, reading: Coroutine[Any, Any, Found]) -> Found:
        """The read's result; raises StoreUnavailable as soon as the database is known to be
        away."""
        task = asyncio.create_task(reading)
        try:
            while True:
                await asyncio.wait({task}, timeout=self._limits.read_patience_seconds)
                if task.done():
                    return task.result()
                await self._require_an_answer(task)
                if task.done():
                    return task.result()
        finally:
            if not task.done():
                self._leave_alone(task)

    async def require(self, name: str, checking: Coroutine[Any, Any, None]) -> None:
        """As `found`, for a check. If the database is too busy to be checked, the previous result
        holds until the check ends or takes too long: the next call continues it."""
        task = self._check(name, checking)
        await asyncio.wait({task}, timeout=self._limits.read_patience_seconds)
        if not task.done():
            try:
                await self._require_an_answer(task)
            except BaseException:
                self._leave_alone(task)
                raise
        if task.done():
            task.result()
        elif name not in self._fine:
            raise StoreUnavailable(f"the database is busy, and its {name} is not known yet")

    def _check(self, name: str, checking: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """One at a time of each: queueing checks for a busy writer is pointless."""
        now = asyncio.get_running_loop().time()
        known = self._checks.get(name)
        if known is not None:
            task, began = known
            if now - began < self._limits.check_seconds:
                checking.close()
                return task
            self._fine.discard(name)
            self._leave_alone(task)
        task = asyncio.create_task(checking)
        self._checks[name] = task, now
        task.add_done_callback(partial(self._checked, name))
        return task

    def _checked(self, name: str, task: asyncio.Task[None]) -> None:
        if name in self._checks and self._checks[name][0] is task:
            del self._checks[name]
        if task.cancelled():
            return
        if task.exception() is None:
            self._fine.add(name)
        else:
            self._fine.discard(name)

    async def _require_an_answer(self, task: asyncio.Task[Any]) -> None:
        """Returns once the database has answered, or the task is done."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._store.ping())
        asking = self._asking
        await asyncio.wait(
            {task, asking},
            timeout=self._limits.database_silence_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if task.done():
            return
        if not asking.done():
            self._left_alone.add(asking)
            asking.add_done_callback(self._over)
            seconds = self._limits.database_silence_seconds
            raise StoreUnavailable(f"the database has not answered for {seconds} s")
        if (error := asking.exception()) is not None:
            if not isinstance(error, StoreError):
                raise error
            raise StoreUnavailable(error.message)

    def _leave_alone(self, task: asyncio.Task[Any]) -> None:
        """Cancelling a wait for a lost connection may itself take too long."""
        task.cancel()
        self._left_alone.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._left_alone.discard(task)
        if not task.cancelled():
            # The caller has moved on without the answer.
            task.exception()
