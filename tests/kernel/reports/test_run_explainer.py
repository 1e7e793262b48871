"""The run explainer: says in sentences how a run stands, and what it waits for."""

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.whole_runs import work_until_terminal


async def test_a_run_names_the_paused_target_it_waits_for_and_later_its_end(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider)

    async def said() -> str:
        return " ".join(await noop_outrider.run_explainer.explain(DEFAULT_SCOPE, run_id))

    await noop_outrider.target_keeper.pause(DEFAULT_SCOPE, NOOP, "ops")
    assert "3 items are waiting; no worker has a job of it" in await said()
    assert "paused by ops since" in await said()
    assert f"`outrider target resume {NOOP}`." in await said()
    await noop_outrider.target_keeper.resume(DEFAULT_SCOPE, NOOP, "ops")
    assert "paused" not in await said()
    await work_until_terminal(noop_outrider, run_id)
    assert "The run is completed: of 3 intended items, 3 were sent" in await said()
