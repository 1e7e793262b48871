"""The listener: one connection that receives Postgres's announcements for the whole process.

It is opened for the first subscriber and closed after the last. Announcements that arrive while a
subscriber is busy are merged: each only says that there may be something new.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import asyncpg

from outrider.domain.errors import StoreUnavailable
from outrider.limits.stores import POSTGRES_CONNECT_SECONDS, POSTGRES_LISTENER_CHECK_SECONDS
from outrider.ports.store import Announced

# Quoted, because the stubs are generic and the class is not.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Subscriber:
    """A subscriber: whether it has something to read, and whether the connection was lost."""

    def __init__(self) -> None:
        self.sounded = asyncio.Event()
        self.lost = False


class Listener:
    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None
        self._subscribers: dict[Announced, set[Subscriber]] = {each: set() for each in Announced}
        self._speaking = asyncio.Lock()

    async def announcements(self, of: Announced) -> AsyncIterator[None]:
        """Raises StoreUnavailable, or an error of the driver, if the connection fails or is
        lost."""
        subscriber = Subscriber()
        self._subscribers[of].add(subscriber)
        try:
            await self._open()
            # A new subscriber may have missed earlier announcements.
            subscriber.sounded.set()
            while True:
                try:
                    async with asyncio.timeout(POSTGRES_LISTENER_CHECK_SECONDS):
                        await subscriber.sounded.wait()
                except TimeoutError:
                    await self._check()
                    continue
                if subscriber.lost:
                    raise StoreUnavailable("Postgres closed the listening connection")
                subscriber.sounded.clear()
                yield
        finally:
            self._subscribers[of].discard(subscriber)
            if not any(self._subscribers.values()):
                self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _open(self) -> None:
        async with self._speaking:
            if self._connection is not None and not self._connection.is_closed():
                return
            connection = await asyncpg.connect(
                self._url,
                timeout=POSTGRES_CONNECT_SECONDS,
                server_settings={"application_name": "outrider listener"},
            )
            try:
                connection.add_termination_listener(self._lost)
                for announced in Announced:
                    await connection.add_listener(announced.value, self._heard)
            except BaseException:
                connection.terminate()
                raise
            self._connection = connection

    async def _check(self) -> None:
        """A connection that died without notice would stay silent for good."""
        async with self._speaking:
            if self._connection is not None:
                await self._connection.execute("SELECT 1", timeout=POSTGRES_CONNECT_SECONDS)

    def _heard(self, *call: object) -> None:
        for subscriber in self._subscribers[Announced(str(call[2]))]:
            subscriber.sounded.set()

    def _lost(self, connection: object) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.lost = True
                subscriber.sounded.set()
