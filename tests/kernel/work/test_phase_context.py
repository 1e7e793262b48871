"""A phase's context: the audience, the last launch and the artifacts of one campaign."""

from collections.abc import AsyncIterator

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import AddressKind
from outrider.limits.campaigns import BATCH_SIZE_MAX
from tests.support.noop_launches import campaign_of, noop_launch
from tests.support.whole_runs import work_until_terminal


async def content() -> AsyncIterator[bytes]:
    yield b"a,b\n"


async def test_a_handler_sees_the_audience_and_the_last_launch(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    campaign_id = await campaign_of(noop_outrider, run_id)
    contexts = noop_outrider.phase_contexts
    context = await contexts.context(DEFAULT_SCOPE, campaign_id, run_id)
    assert await context.positions() == 3
    await context.mark_invalid(AddressKind.PHONE, [1])
    assert len(await context.members(0, 2)) == 3
    with pytest.raises(InvalidInput, match="at most"):
        await context.members(0, BATCH_SIZE_MAX)
    await work_until_terminal(noop_outrider, run_id)
    summary = await context.launch_summary()
    assert summary is not None
    assert summary["runs"] == 1
    lines = [line async for page in context.launch_lines() for line in page]
    assert len(lines) == 3


async def test_what_a_handler_keeps_is_an_artifact_of_its_run(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    campaign_id = await campaign_of(noop_outrider, run_id)
    context = await noop_outrider.phase_contexts.context(DEFAULT_SCOPE, campaign_id, run_id)
    await context.keep("results", "text/csv", content())
    (kept,) = context.kept
    assert kept["kind"] == "results"
    assert kept["sizeBytes"] == 4
