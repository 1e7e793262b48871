"""The progress reporter: tells how far a phase is when that has changed, every so often."""

from dataclasses import replace

from outrider.bootstrap import Outrider
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.limits.kernel import Limits
from tests.support.controls import events_of
from tests.support.noop_launches import campaign_of, noop_launch
from tests.support.whole_runs import START, SteppedClock


async def test_a_stalled_phase_is_reported_once_until_it_continues(noop_outrider: Outrider) -> None:
    campaign_id = await campaign_of(noop_outrider, await noop_launch(noop_outrider))
    clock = SteppedClock(max(START, noop_outrider.clock.now()))
    limits = Limits()
    reporter = ProgressReporter(
        replace(noop_outrider.foundation, clock=clock, limits=limits), noop_outrider.hub
    )
    assert await reporter.report_once() == 1
    assert await reporter.report_once() == 0, "it is not time yet"
    clock.advance(limits.progress_seconds)
    assert await reporter.report_once() == 0, "nothing has changed"
    told = [
        event
        for event in await events_of(noop_outrider, campaign_id)
        if event.type == "campaign_progress"
    ]
    assert len(told) == 1
