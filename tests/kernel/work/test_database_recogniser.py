"""The recogniser: which databases are taken for restored ones, and which are not."""

from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.domain.restored_database import RestoredDatabase
from tests.support.database_copies import copied
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened


async def recognised(outrider: Outrider) -> str | None:
    found = await outrider.database_recogniser.recognise()
    return None if found is None else found.reason


async def test_a_database_that_stayed_where_it_was_is_recognised(
    database: str, tmp_path: Path
) -> None:
    for _ in range(2):
        async with opened(database, tmp_path) as outrider:
            assert await recognised(outrider) is None
            assert await recognised(outrider) is None


async def test_a_copy_is_recognised_as_one_on_a_machine_that_never_saw_it(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
    async with (
        copied(database, tmp_path / "copy") as copy,
        opened(copy, tmp_path / "copy") as outrider,
    ):
        assert await recognised(outrider) == RestoredDatabase.MOVED
        # Whoever comes later is told the same.
        assert await recognised(outrider) == RestoredDatabase.MOVED
        await outrider.database_releaser.release("test")
        assert await recognised(outrider) is None


async def test_a_copy_of_a_database_that_no_worker_used_is_none(
    database: str, tmp_path: Path
) -> None:
    async with (
        copied(database, tmp_path / "copy") as copy,
        opened(copy, tmp_path / "copy") as outrider,
    ):
        assert await recognised(outrider) is None


async def test_a_database_that_went_back_in_time_is_recognised_by_what_the_machine_remembers(
    database: str, tmp_path: Path
) -> None:
    """A file that was overwritten, a dump restored in place: it is where it was."""
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
        async with raw_sql(database) as raw:
            await raw.run("UPDATE database_places SET noted_at = '2020-01-01T00:00:00.000000Z'")
        assert await recognised(outrider) == RestoredDatabase.WENT_BACK


async def test_a_memory_that_cannot_be_read_is_none(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
        for file in outrider.settings.spool.glob("*.noted"):
            file.write_text("nonsense")
        assert await recognised(outrider) is None
