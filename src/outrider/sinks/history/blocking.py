"""A history over a driver that blocks: its calls run in a thread, one after another."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from outrider.domain.errors import HistoryError
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.ports.history import EventKey, HistoryEvent, HistorySnapshot
from outrider.sinks.history.tables import STATEMENTS, Staged, event_of, staged

Answer = TypeVar("Answer")


class BlockingHistory(ABC):
    """What differs between drivers is how to connect, to stage rows and to read an error."""

    keeps_connection = True

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._connection: Any = None
        self._has_tables = False

    async def reach(self) -> None:
        await self._in_thread(lambda connection: self._execute(connection, "SELECT 1"))

    async def set_up(self) -> None:
        def make(connection: Any) -> None:
            self._make_tables(connection)
            self._has_tables = True

        await self._in_thread(make)

    async def merge(
        self, events: Sequence[HistoryEvent], snapshots: Sequence[HistorySnapshot]
    ) -> None:
        rows = staged(events, snapshots)

        def write(connection: Any) -> None:
            if not self._has_tables:
                self._make_tables(connection)
                self._has_tables = True
            self._merge(connection, rows)

        if rows:
            await self._in_thread(write)

    async def counts(self, runs: Sequence[RunId]) -> Mapping[RunId, int]:
        wanted = {"first": min(runs), "last": max(runs)}
        rows = await self._in_thread(lambda connection: self._ask(connection, "counts", **wanted))
        return {RunId(run_id): int(count) for run_id, count in rows}

    async def events_after(self, after: EventKey, last: RunId, most: int) -> Sequence[RunEvent]:
        rows = await self._in_thread(
            lambda connection: self._ask(
                connection, "events_after",
                run_id=after.run_id, run_seq=after.run_seq, last=last, most=most,
            )
        )  # fmt: skip
        return [event_of(row) for row in rows]

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        self._drop_connection()

    def _merge(self, connection: Any, rows: Sequence[Staged]) -> None:
        self._execute(connection, "BEGIN")
        try:
            self._execute(connection, STATEMENTS["take_turn"])
            for each in rows:
                self._stage(connection, each)
                self._execute(connection, each.merge)
                self._execute(connection, each.clear)
            self._execute(connection, "COMMIT")
        except BaseException:
            # Where the connection is lost, the database rolls back by itself.
            with suppress(Exception):
                self._execute(connection, "ROLLBACK")
            raise

    async def _in_thread(self, work: Callable[[Any], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Callable[[Any], Answer]) -> Answer:
        try:
            if self._connection is None:
                self._connection = self._connect()
            answer = work(self._connection)
        except Exception as error:
            self._drop_connection()
            translated = self._translated(error)
            if translated is None:
                raise
            raise translated from error
        if not self.keeps_connection:
            self._drop_connection()
        return answer

    def _drop_connection(self) -> None:
        """Whatever its state, the next one is new."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _make_tables(self, connection: Any) -> None: ...

    @abstractmethod
    def _execute(self, connection: Any, sql: str) -> None: ...

    @abstractmethod
    def _ask(self, connection: Any, name: str, **parameters: object) -> Sequence[Any]: ...

    @abstractmethod
    def _stage(self, connection: Any, rows: Staged) -> None: ...

    @abstractmethod
    def _translated(self, error: Exception) -> HistoryError | None:
        """What a driver's error means; None for one that is not a driver's."""
