"""The run reader: a run as its log tells it, now or at any sequence, to those who may see it."""

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.testing.store_suite.workshop import ELSEWHERE
from tests.support.noop_launches import noop_launch
from tests.support.whole_runs import work_until_terminal


async def test_a_run_can_be_read_as_it_was_after_each_of_its_events(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider)
    await work_until_terminal(noop_outrider, run_id)
    reader = noop_outrider.run_reader
    events = await reader.events(DEFAULT_SCOPE, run_id, 0, 100)
    assert [event.run_seq for event in events] == list(range(1, len(events) + 1))
    last = await reader.snapshot(DEFAULT_SCOPE, run_id)
    assert last.last_event_seq == len(events)
    past = [await reader.snapshot(DEFAULT_SCOPE, run_id, each.run_seq) for each in events]
    assert [each.last_event_seq for each in past] == [event.run_seq for event in events]
    assert past[-1] == last != past[0]


async def test_before_anything_starts_the_plan_says_what_is_pending(
    noop_outrider: Outrider,
) -> None:
    run_id = await noop_launch(noop_outrider)
    whole = await noop_outrider.run_reader.whole_snapshot(DEFAULT_SCOPE, run_id)
    assert [step.status.value for step in whole.steps.values()] == ["PENDING"]


async def test_a_run_of_another_workspace_does_not_exist(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    with pytest.raises(NotFound):
        await noop_outrider.run_reader.snapshot(ELSEWHERE, run_id)
