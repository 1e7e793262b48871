"""The target keeper: pauses and resumes targets for operators, each change once and on record."""

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import work_until_terminal


async def test_a_target_is_paused_once_and_resumed_once_by_name(noop_outrider: Outrider) -> None:
    keeper = noop_outrider.target_keeper
    assert await keeper.pause(DEFAULT_SCOPE, NOOP, "ops")
    assert not await keeper.pause(DEFAULT_SCOPE, NOOP, "ops")
    assert list((await keeper.overview()).paused) == [NOOP]
    assert await keeper.resume(DEFAULT_SCOPE, NOOP, "ops")
    assert not await keeper.resume(DEFAULT_SCOPE, NOOP, "ops")
    async with raw_sql(noop_outrider.settings.database_url) as raw:
        rows = await raw.run("SELECT event, actor FROM campaign_audit_log ORDER BY id")
    assert [tuple(row) for row in rows] == [("target.paused", "ops"), ("target.resumed", "ops")]


async def test_a_target_without_trouble_has_nothing_to_reset(noop_outrider: Outrider) -> None:
    await work_until_terminal(noop_outrider, await noop_launch(noop_outrider))
    assert not await noop_outrider.target_keeper.reset(DEFAULT_SCOPE, NOOP, "ops")
