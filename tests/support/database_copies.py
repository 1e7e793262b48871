"""Copies of a database, as a backup that is restored elsewhere would be."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from outrider.testing.postgres import create_database, database_url, drop_database


@asynccontextmanager
async def copied(database: str, folder: Path) -> AsyncIterator[str]:
    """The URL of a copy of a database that nobody uses at the moment, and its own folder."""
    await asyncio.to_thread(folder.mkdir)
    if database.startswith("sqlite"):
        file = Path(database.removeprefix("sqlite:///"))
        for beside in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                shutil.copy(f"{file}{beside}", folder)
        yield f"sqlite:///{folder / file.name}"
        return
    server = database_url(database, "postgres")
    url = await create_database(server, database)
    yield url
    await drop_database(server, url)
