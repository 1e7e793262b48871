"""SMTP sessions that their server keeps track of, so that it can close them when it stops."""

import asyncio
from typing import Any

from aiosmtpd.smtp import SMTP


class TrackedSession(SMTP):
    """One connection, a member of `open_sessions` for as long as it lasts."""

    def __init__(self, open_sessions: set[Any], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._open_sessions = open_sessions

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._open_sessions.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._open_sessions.discard(self)

    async def hang_up(self) -> None:
        conversation = self._handler_coroutine
        if self.transport is not None:
            self.transport.close()
        if conversation is not None:
            await asyncio.wait([conversation])
