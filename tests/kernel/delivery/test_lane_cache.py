"""Places of messages are remembered, and asked for again where the database is another one."""

from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.submissions.submission_manager import Submission
from outrider.limits.campaigns import LANES_PER_TARGET
from outrider.ports.store import Statement
from outrider.settings import Settings
from outrider.testing.launches import registry, target
from tests.support.raw_sql import raw_sql


async def submit(outrider: Outrider, *numbers: int) -> list[bool]:
    given = [Submission(f"order-{number}", "sms", {"to": "+447700900123"}) for number in numbers]
    answers = await outrider.submissions.submit_all(DEFAULT_SCOPE, given)
    return [answer[1] for answer in answers if isinstance(answer, tuple)]


def settings(database: str, folder: Path) -> Settings:
    file = folder / "registry.json"
    file.write_bytes(registry(target("sms", "noop", "noop:")))
    return Settings(database_url=database, registry=file)


async def test_missing_lanes_are_created_again_and_no_message_is_lost(
    database: str, tmp_path: Path
) -> None:
    enough = range(20 * LANES_PER_TARGET)
    async with open_outrider(settings(database, tmp_path)) as outrider:
        await outrider.store.migrate()
        assert all(await submit(outrider, *enough))
        async with raw_sql(database) as raw:
            await raw.run("UPDATE job_queue SET lane = lane + 1000")
            known = {row[0] for row in await raw.run("SELECT id FROM job_queue")}
            # As if an older copy of the database had been put in place of this one.
            await raw.run("DELETE FROM job_queue")
        later = [number + len(enough) for number in enough]
        assert await submit(outrider, *later) == [True] * len(later)
        assert await submit(outrider, later[0]) == [False]
        async with raw_sql(database) as raw:
            made = {row[0] for row in await raw.run("SELECT id FROM job_queue")}
            placed = await raw.run(
                "SELECT count(*) FROM channel_outbox o JOIN job_queue j ON j.id = o.job_id"
            )
        assert made
        assert not made & known
        assert placed[0][0] == len(later)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_message_to_a_known_place_takes_one_statement(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.stores.postgres import store as postgres

    asked, real = [], postgres._rows

    async def noted(connection: postgres.Connection, statement: Statement) -> object:
        asked.append(statement.name)
        return await real(connection, statement)

    async with open_outrider(settings(database, tmp_path)) as outrider:
        await outrider.store.migrate()
        await submit(outrider, *range(20 * LANES_PER_TARGET))
        monkeypatch.setattr(postgres, "_rows", noted)
        await submit(outrider, 10**6)
    assert asked == ["insert_intents"]
