"""Bounces from a Maildir: reads what a mail server delivered to a folder, and marks it as seen.

A mail is moved from `new` to `cur` when its receipt is durable, and stays where it is when that
fails. Its address is read from the headers its mail server wrote (X-Original-To, Delivered-To).
"""

import asyncio
from pathlib import Path

import structlog

from outrider.domain.errors import InvalidInput
from outrider.gateways.mail_receiver import MailOutcome, MailReceiver
from outrider.limits.gateways import (
    MAIL_RECEIVED_MAX_BYTES,
    MAILDIR_LOOK_SECONDS,
    MAILDIR_RETRY_SECONDS,
    MAILDIR_WINDOW_MAILS,
)

log = structlog.get_logger()

SEEN, PUT_ASIDE = ":2,S", ":2,F"


class MaildirWatcher:
    def __init__(self, receiver: MailReceiver, folder: Path) -> None:
        self._receiver = receiver
        self._new, self._cur = folder / "new", folder / "cur"
        if not self._new.is_dir() or not self._cur.is_dir():
            raise InvalidInput(
                f"{folder} is not a Maildir", hint="it should have the folders new, cur and tmp"
            )
        self._stopped = asyncio.Event()
        self.mails_read = 0

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Until it is stopped. It polls: there is no portable signal for a new file."""
        while not self._stopped.is_set():
            try:
                found = await self.look()
                seconds = 0.0 if found else MAILDIR_LOOK_SECONDS
            except Exception as error:
                log.warning("maildir_not_read", error=type(error).__name__, detail=str(error)[:300])
                seconds = MAILDIR_RETRY_SECONDS
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                continue

    async def look(self) -> int:
        """Processes the mails that are there, oldest first, and returns how many."""
        files = await asyncio.to_thread(self._waiting)
        for file in files:
            await self._take(file)
        return len(files)

    def _waiting(self) -> list[Path]:
        """Maildir names begin with the time of delivery in seconds."""
        files = (file for file in self._new.iterdir() if not file.name.startswith("."))
        return sorted(files)[:MAILDIR_WINDOW_MAILS]

    async def _take(self, file: Path) -> None:
        raw = await asyncio.to_thread(_read, file)
        outcome = await self._receiver.take([], raw)
        mark = SEEN if outcome is MailOutcome.TAKEN else PUT_ASIDE
        await asyncio.to_thread(file.rename, self._cur / f"{file.name.partition(':')[0]}{mark}")
        self.mails_read += 1


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAIL_RECEIVED_MAX_BYTES)
