"""The retention keeper: what is old goes by schedule, if there is one."""

import asyncio
from datetime import timedelta

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput
from outrider.domain.retention import parse_age
from outrider.kernel.proof.retention_keeper import RetentionKeeper
from tests.support.noop_launches import noop_launch
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import work_until_terminal

PATIENCE_SECONDS = 30


def keeper(outrider: Outrider, after: timedelta | None) -> RetentionKeeper:
    return RetentionKeeper(
        outrider.foundation,
        outrider.run_retirer,
        outrider.message_retirer,
        after,
        outrider.person_eraser,
    )


async def ledger_rows(database: str) -> int:
    async with raw_sql(database) as raw:
        found: int = (await raw.run("SELECT count(*) FROM channel_outbox"))[0][0]
        return found


async def test_by_schedule_what_is_old_enough_is_retired(
    noop_outrider: Outrider, database: str
) -> None:
    await work_until_terminal(noop_outrider, await noop_launch(noop_outrider))
    running = asyncio.create_task(keeper(noop_outrider, timedelta(seconds=-1)).run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await ledger_rows(database):
            await noop_outrider.clock.sleep(0.02)
    running.cancel()


async def test_nothing_is_retired_unless_settings_say_so(
    noop_outrider: Outrider, database: str
) -> None:
    assert noop_outrider.settings.retention.after_days is None
    await work_until_terminal(noop_outrider, await noop_launch(noop_outrider))
    running = asyncio.create_task(keeper(noop_outrider, None).run())
    await asyncio.sleep(0.2)
    running.cancel()
    assert await ledger_rows(database) == 3


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("12w", 84), ("1d", 1)])
def test_an_age_is_in_days_or_weeks(text: str, days: int) -> None:
    assert parse_age(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["", "90", "0d", "-1d", "1.5d", "d", "999999d", "90 d", "3m"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_age(text)
