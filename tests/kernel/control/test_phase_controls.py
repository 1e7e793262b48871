"""A control's answer as a document, and a refusal as a line in the log."""

import pytest
from structlog.testing import capture_logs

from outrider.bootstrap import Outrider
from outrider.domain.errors import Conflict
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from tests.support.controls import control
from tests.support.noop_launches import campaign_of, noop_launch


async def test_an_answer_has_the_current_state_of_the_phase(noop_outrider: Outrider) -> None:
    run_id = await noop_launch(noop_outrider)
    campaign_id = await campaign_of(noop_outrider, run_id)
    document = (await control(noop_outrider, campaign_id, Action.PAUSE)).as_document()
    assert document.pop("sequence")
    assert document == {
        "campaignId": campaign_id,
        "phase": "launch",
        "state": PhaseState.PAUSED.value,
        "changed": True,
        "runId": run_id,
        "waitsFor": None,
        "success": True,
    }


async def test_anyone_who_asks_why_a_phase_did_not_move_finds_it_in_the_log(
    noop_outrider: Outrider,
) -> None:
    campaign_id = await campaign_of(noop_outrider, await noop_launch(noop_outrider))
    await control(noop_outrider, campaign_id, Action.STOP)
    with capture_logs() as logs, pytest.raises(Conflict):
        await control(noop_outrider, campaign_id, Action.PAUSE)
    (refused,) = [each for each in logs if each["event"] == "phase_control_refused"]
    assert refused["attempted_action"] == "pause"
    assert refused["campaign_id"] == campaign_id
