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
        self._ears: dict[Announced, set[Subscriber]] = {each: set() for each in Announced}
        self._speaking = asyncio.Lock()

    async def announcements(self, of: Announced) -> AsyncIterator[None]:
        """Raises StoreUnavailable, or an error of the driver, if the connection fails or is
        lost."""
        ear = Subscriber()
        self._ears[of].add(ear)
        try:
            await self._open()
            # A new subscriber may have missed earlier announcements.
            ear.sounded.set()
            while True:
                try:
                    async with asyncio.timeout(POSTGRES_LISTENER_CHECK_SECONDS):
                        await ear.sounded.wait()
                except TimeoutError:
                    await self._check()
                    continue
                if ear.lost:
                    raise StoreUnavailable("Postgres closed the listening connection")
                ear.sounded.clear()
                yield
        finally:
            self._ears[of].discard(ear)
            if not any(self._ears.values()):
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
        for ear in self._ears[Announced(str(call[2]))]:
            ear.sounded.set()

    def _lost(self, connection: object) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        for ears in self._ears.values():
            for ear in ears:
                ear.lost = True
                ear.sounded.set()
