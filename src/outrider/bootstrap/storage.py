"""Storage: the database by its URL, artifacts, and whether it can be written to."""

import asyncio
import math
import shutil
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from outrider.bootstrap.base import Wiring
from outrider.domain.database_urls import masked, require_postgres_url
from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.files.artifact_store import LocalArtifacts
from outrider.files.object_artifacts import ObjectArtifacts
from outrider.kernel.transactions import ledger_clock
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.limits.api import READY_FREE_BYTES
from outrider.ports.artifacts import ArtifactStore
from outrider.ports.store import Store
from outrider.stores.sqlite.store import SqliteStore


def make_store(url: str) -> Store:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`."""
    match url.partition(":")[0]:
        case "sqlite":
            path = url.removeprefix("sqlite:///")
            if path == url or not path:
                raise InvalidInput(
                    f"'{masked(url)}' does not name a file",
                    hint="use sqlite:///outrider.db or sqlite:////var/lib/outrider.db",
                )
            return SqliteStore(Path(path))
        case "postgresql" | "postgres":
            # 0.04 s with its driver, and most commands run on SQLite.
            from outrider.stores.postgres.store import PostgresStore

            require_postgres_url(url)
            return PostgresStore(url)
        case _:
            # Not repeated: what is before a colon may be part of a password.
            raise InvalidInput(
                "the database URL is for neither SQLite nor Postgres",
                hint="use sqlite:///FILE or postgresql://USER@HOST/DATABASE",
            )


def make_artifacts(place: Path | str) -> ArtifactStore:
    """A folder, or an object store's URL."""
    if "://" in str(place):
        return ObjectArtifacts(str(place))
    return LocalArtifacts(Path(place))


class StorageRoles(Wiring):
    @cached_property
    def artifacts(self) -> ArtifactStore:
        return make_artifacts(self.settings.artifacts)

    async def set_clock(self) -> None:
        """From now on use the database's time; a test's own clock is left alone."""
        if isinstance(self.clock, DatabaseClock):
            await self.clock.look()

    def clock_is_steady(self) -> bool:
        return not isinstance(self.clock, DatabaseClock) or self.clock.is_steady

    def clock_steady_seconds(self) -> float:
        return self.clock.steady_seconds if isinstance(self.clock, DatabaseClock) else math.inf

    def clock_unseen_seconds(self, span_seconds: float, /) -> float:
        clock = self.clock
        return clock.unseen_seconds(span_seconds) if isinstance(clock, DatabaseClock) else 0.0

    async def check_writable(self) -> None:
        """Raises StoreUnavailable if the disk is full or nearly so."""
        now = self.clock.now()
        most = now + timedelta(seconds=self.limits.clock_ahead_seconds)
        await self.store.write(ledger_clock.keep(now, most))
        path = self.settings.database_url.removeprefix("sqlite:///")
        if path == self.settings.database_url:
            return
        free = await asyncio.to_thread(lambda: shutil.disk_usage(Path(path).parent).free)
        if free < READY_FREE_BYTES:
            raise StoreUnavailable(
                f"the disk of the database has {free:,} bytes left",
                hint="free some space; waiting work then continues automatically",
            )
