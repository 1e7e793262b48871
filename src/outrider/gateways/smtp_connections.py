"""The connections to one mail server: few, shared, and closed after idling for a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from outrider.gateways.mail_server import MailServer
from outrider.gateways.smtp_connection import SmtpConnection
from outrider.limits.gateways import (
    SMTP_IDLE_SECONDS,
)


class SmtpConnections:
    """The pool: a limited number of connections, most recently used first, each for a limited
    number of messages."""

    def __init__(self, server: MailServer, connections: int, messages: int) -> None:
        self._server = server
        self._messages = messages
        self._free = asyncio.Semaphore(connections)
        self._idle: list[SmtpConnection] = []
        self._sweeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[SmtpConnection]:
        async with asyncio.timeout(self._server.waits.pool):
            await self._free.acquire()
        line = self._idle_line() or SmtpConnection(self._server)
        try:
            yield line
        finally:
            try:
                if line.alive and line.messages < self._messages:
                    line.idle_since = monotonic()
                    self._idle.append(line)
                    self._sweep_later()
                else:
                    await line.close()
            finally:
                self._free.release()

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self.trim(0)

    def _sweep_later(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """An idle connection here is unavailable to others where a server limits their number."""
        while self._idle:
            await asyncio.sleep(SMTP_IDLE_SECONDS)
            while self._idle and monotonic() - self._idle[0].idle_since >= SMTP_IDLE_SECONDS:
                await self._idle.pop(0).close()

    async def trim(self, connections: int) -> None:
        """The server counts idle connections too."""
        while len(self._idle) > max(connections, 0):
            await self._idle.pop(0).close()

    def _idle_line(self) -> SmtpConnection | None:
        while self._idle:
            line = self._idle.pop()
            if line.alive:
                return line
        return None
