"""What happens to Postgres, and to the way to it, while workers are killed."""

import asyncio
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.testing.postgres import PrivatePostgres
from tests.support.cut_line import serving
from tests.support.lost_commits import LostCommits
from tests.support.pgbouncer import PGBOUNCER, PgBouncer, pgbouncer

PAUSE_SECONDS = (2.0, 6.0)
"""Between two strikes at the database."""
FULL_SECONDS = 1.5
LOST_SHARE = 0.02
DISK = "640m"


class Weather(StrEnum):
    KILLS = "kills only"
    FREEZES = "frozen beyond their lease, then woken"
    STOPS = "Postgres stopped with `immediate`"
    COMMITS = "answers to commits lost"
    PGBOUNCER = "behind PgBouncer, which is killed too"
    FULL_DISK = "Postgres's disk full"


class Disk:
    """A server whose disk has an end, where this may be arranged."""

    def __init__(self, server: PrivatePostgres, folder: Path, *, ends: bool) -> None:
        self.server = server
        self.ends = ends
        self._folder = folder

    @contextmanager
    def full(self) -> Iterator[None]:
        ballast = self._folder / "ballast"
        found = os.statvfs(self._folder)
        with ballast.open("wb") as file, suppress(OSError):
            # It may become full while it is being filled.
            os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize)
        try:
            yield
        finally:
            ballast.unlink()


@contextmanager
def private_disk() -> Iterator[Disk]:
    with TemporaryDirectory(prefix="outrider-storm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        ends = _mounted(folder)
        try:
            server = PrivatePostgres(folder / "data")
            try:
                yield Disk(server, folder, ends=ends)
            finally:
                server.close()
        finally:
            if ends:
                subprocess.run(["umount", "--lazy", name], check=True)


def _mounted(folder: Path) -> bool:
    """Only root may, and not everywhere."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(folder)]
    return subprocess.run(mount, check=False, capture_output=True).returncode == 0


def possible(disk: Disk) -> list[Weather]:
    """On this machine."""
    missing = set() if disk.ends else {Weather.FULL_DISK}
    if PGBOUNCER is None:
        missing.add(Weather.PGBOUNCER)
    return [each for each in Weather if each not in missing]


class Storm:
    """The way to the database, and what strikes it; `strikes` counts what happened."""

    def __init__(self, weather: Weather, disk: Disk, dice: random.Random) -> None:
        self.weather = weather
        self.strikes: Counter[str] = Counter()
        self.url = ""
        self._disk = disk
        self._dice = dice
        self._bouncer: PgBouncer | None = None

    @asynccontextmanager
    async def way_to(self, database: str) -> AsyncIterator[None]:
        self.url = database
        async with AsyncExitStack() as stack:
            if self.weather is Weather.COMMITS:
                line = LostCommits(database, self._dice, LOST_SHARE)
                await stack.enter_async_context(serving(line))
                stack.callback(lambda: self.strikes.update({"answers lost": line.lost}))
                self.url = line.url
            if self.weather is Weather.PGBOUNCER:
                self._bouncer = await stack.enter_async_context(pgbouncer(database))
                self.url = self._bouncer.url
            yield

    async def rage(self, over: asyncio.Event) -> None:
        """Until it is over; a strike that has begun is seen through."""
        strike = {
            Weather.STOPS: self._stop,
            Weather.PGBOUNCER: self._kill_bouncer,
            Weather.FULL_DISK: self._fill,
        }.get(self.weather)
        while strike is not None and not over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._dice.uniform(*PAUSE_SECONDS)):
                    await over.wait()
                return
            await strike()

    async def _stop(self) -> None:
        await asyncio.to_thread(self._disk.server.stop_immediately)
        await asyncio.to_thread(self._disk.server.start_again)
        self.strikes["stops"] += 1

    async def _kill_bouncer(self) -> None:
        assert self._bouncer is not None
        await self._bouncer.kill()
        await self._bouncer.start()
        self.strikes["PgBouncer killed"] += 1

    async def _fill(self) -> None:
        with self._disk.full():
            await asyncio.sleep(FULL_SECONDS)
        self.strikes["disk full"] += 1
        # A server that has no room for its log stops by itself.
        await asyncio.to_thread(self._disk.server.start_again)
