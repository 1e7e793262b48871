"""The step recorder: what has started is in the run's log at once, and there only once."""

from outrider.bootstrap import Outrider
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.noop_launches import noop_launch
from tests.support.run_logs import events_of


async def test_a_started_step_is_logged_once_with_its_worker(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    (job,) = await Workshop(noop_outrider.store).claim(ONE, now=noop_outrider.clock.now())
    recorder = noop_outrider.step_recorder(ONE)
    await recorder.started([job])
    await recorder.started([job])
    (started,) = [
        event for event in await events_of(noop_outrider, run_id) if event.type == "StepStarted"
    ]
    assert (started.step_id, started.engine_attempt) == (job.id, 1)
    assert started.payload["worker"] == ONE
    assert await recorder.reconcile_once() == 0, "nothing was left for later"
