"""What a phase plans, and what it says came of it, holds no secret: neither in jobs nor events."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.artifacts import artifact_ref
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import run_log
from outrider.limits.kernel import Limits
from outrider.ports.phases import PhaseContext, PhaseJob, PhaseJobPlan, PhaseResult
from outrider.testing.launches import target
from tests.gateways.test_no_leak import _stored
from tests.support.controls import begun, created, phase_state, until_ended, until_state
from tests.support.whole_runs import opened, working

PHASE = "talkative"
VALUE = "hunter2-7f3a9c"
LIMITS = Limits(idle_poll_seconds=0.02, rescue_interval_seconds=0.05, job_max_attempts=2)


class Talkative:
    """A handler of a team's own that says, in its plan or in its result, what it is told to."""

    name = PHASE

    def __init__(
        self, plan: dict[str, object] | None = None, result: dict[str, object] | None = None
    ) -> None:
        self._plan, self._result = plan or {}, result or {}

    async def plan(self, desk: PhaseContext) -> Sequence[PhaseJobPlan]:  # noqa: ARG002
        return [PhaseJobPlan(1, self._plan)]

    async def process(self, desk: PhaseContext, job: PhaseJob) -> PhaseResult:  # noqa: ARG002
        await desk.keep("notes.txt", "text/plain", _notes())
        return PhaseResult(1, detail=self._result)


async def _notes() -> AsyncIterator[bytes]:
    yield b"notes"


@pytest.fixture
async def outrider(tmp_path: Path) -> AsyncIterator[Outrider]:
    sms = target("sms.all", "sms", "http://127.0.0.1:9")
    database = f"sqlite:///{tmp_path}/outrider.db"
    async with opened(database, tmp_path, sms, limits=LIMITS) as made:
        yield made


async def events_of(outrider: Outrider, run_id: RunId) -> list[RunEvent]:
    return await outrider.store.read(run_log.events_after(run_id, 0, 1_000))


async def test_a_plan_that_holds_a_secret_is_refused_and_nothing_is_written(
    outrider: Outrider, tmp_path: Path
) -> None:
    outrider.handlers[PHASE] = Talkative(plan={"login": {"password": VALUE}})
    campaign_id = await created(outrider, 1, order=(PHASE, LAUNCH))
    with pytest.raises(InvalidInput, match="the plan of the phase 'talkative'") as refused:
        await begun(outrider, campaign_id, PHASE)
    assert VALUE not in f"{refused.value} {refused.value.problems}"
    assert await phase_state(outrider, campaign_id, PHASE) is PhaseState.NOT_STARTED
    assert not any(VALUE.encode() in cell for cell in _stored(tmp_path / "outrider.db"))


async def test_a_result_that_holds_a_secret_fails_its_job_and_reaches_no_event(
    outrider: Outrider, tmp_path: Path
) -> None:
    outrider.handlers[PHASE] = Talkative(result={"authToken": VALUE})
    campaign_id = await created(outrider, 1, order=(PHASE, LAUNCH))
    async with working(outrider):
        run_id = await begun(outrider, campaign_id, PHASE)
        accounting = await until_ended(outrider, run_id)
    assert accounting.failed == 1
    types = [event.type for event in await events_of(outrider, run_id)]
    assert "StepFailed" in types
    assert "StepCompleted" not in types
    assert not any(VALUE.encode() in cell for cell in _stored(tmp_path / "outrider.db"))


async def test_references_pass_and_a_steps_artifacts_are_references(outrider: Outrider) -> None:
    outrider.handlers[PHASE] = Talkative({"apiKey": "env:KEY"}, {"apiKey": "file:/run/key"})
    campaign_id = await created(outrider, 1, order=(PHASE, LAUNCH))
    async with working(outrider):
        run_id = await begun(outrider, campaign_id, PHASE)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED, PHASE)
    [done] = [event for event in await events_of(outrider, run_id) if event.type == "StepCompleted"]
    artifacts = done.payload["artifacts"]
    assert isinstance(artifacts, list)
    [kept] = [artifact_ref(each) for each in artifacts]
    assert (kept.kind, kept.size_bytes) == ("notes.txt", 5)
    assert kept.uri.startswith("file:///")
    assert kept.uri.endswith(f"/{run_id}/notes.txt")
