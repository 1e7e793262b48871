"""The rollout keeper: a launch in steps, which pauses itself where too much goes wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import PauseOn
from outrider.domain.errors import SignalRefused
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.keys import KeyId, KeyScope, Principal
from outrider.domain.phases import Action
from outrider.domain.rollouts import RolloutStep, StepProgress, draw
from outrider.domain.run_events import RunEvent
from outrider.domain.signals import AskedSignal, Signal
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.transactions import rollouts, run_log
from outrider.kernel.transactions.phase_controls import Control
from outrider.ports.store import ask
from outrider.testing.launches import launch, message, observe, people, target
from tests.support.noop_launches import campaign_of
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, items_of, opened, working

SMS = message(Channel.SMS, "sms.all", body="Hi")
THREE = (RolloutStep(1, 10), RolloutStep(10, 30), RolloutStep(100))
TWO = (RolloutStep(10, 10), RolloutStep(100))
MINUTE = 60
ANN = Principal(DEFAULT_SCOPE, KeyId("key"), "ann", frozenset({KeyScope.OPERATE}), kind="key")


class Scene:
    def __init__(
        self, outrider: Outrider, clock: SteppedClock, sandbox: Sandbox, database: str
    ) -> None:
        self.outrider, self.clock, self.sandbox = outrider, clock, sandbox
        self.database = database

    async def launch(self, count: int = 200, **terms: Any) -> RunId:
        return await launch(self.outrider, [SMS], people(count), batch_size=50, **terms)

    async def until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Time passes in small steps: workers sleep by this clock."""
        for _ in range(2_000):
            if await look():
                return
            await self.clock.step(0.5)
            await asyncio.sleep(0.002)
        raise AssertionError("it never came to be")

    async def until_sent(self, run_id: RunId, count: int) -> None:
        async def are_sent() -> bool:
            return await self.sent(run_id) >= count

        await self.until(are_sent)

    async def until_state(self, run_id: RunId, step: int, state: str) -> None:
        async def is_so() -> bool:
            return (await self.steps(run_id))[step - 1].state == state

        await self.until(is_so)

    async def until_paused(self, run_id: RunId) -> str:
        async def is_paused() -> bool:
            return (await self.phase(run_id))[0] == "paused"

        await self.until(is_paused)
        return (await self.phase(run_id))[1] or ""

    async def some_time(self, minutes: float) -> None:
        """Steps as large as a lease allows, each with time for the workers to act."""
        for _ in range(int(minutes * 4)):
            await self.clock.step(15)
            await asyncio.sleep(0.002)

    async def sent(self, run_id: RunId) -> int:
        _, accounting = await observe(self.outrider, run_id)
        assert accounting.holds, accounting
        return accounting.sent

    async def steps(self, run_id: RunId) -> list[StepProgress]:
        return await self.outrider.store.read(rollouts.of_run(run_id))

    async def states(self, run_id: RunId) -> list[str]:
        return [step.state.value for step in await self.steps(run_id)]

    async def phase(self, run_id: RunId) -> tuple[str, str | None]:
        campaign_id = await campaign_of(self.outrider, run_id)
        found = await self.outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
        [phase] = found.phases
        return phase.state, phase.reason

    async def control(self, run_id: RunId, action: Action) -> RunId:
        campaign_id = await campaign_of(self.outrider, run_id)
        controlled = asyncio.create_task(
            self.outrider.phase_controller.control(
                DEFAULT_SCOPE, campaign_id, "launch", Control(action, "ann", confirm=True)
            )
        )

        async def is_done() -> bool:
            return controlled.done()

        # A pause waits, by this clock, until the workers have seen it.
        await self.until(is_done)
        answer = await controlled
        assert answer.run_id is not None
        return answer.run_id

    async def advance(self, run_id: RunId, signal_id: str = "once") -> bool:
        asked = AskedSignal(Signal.ADVANCE, signal_id)
        return (await self.outrider.run_signaller.signal(ANN, run_id, asked)).changed

    async def rolled_out(self, run_id: RunId) -> list[RunEvent]:
        events = await self.outrider.store.read(run_log.events_after(run_id, 0, 1_000))
        return [event for event in events if event.type.startswith("Rollout")]

    async def reported(self, run_id: RunId, state: str, items: int) -> None:
        async with raw_sql(self.database) as raw:
            await raw.run(f"INSERT INTO run_deliveries VALUES ('{run_id}', '{state}', {items})")


@asynccontextmanager
async def opened_scene(database: str, folder: Path) -> AsyncIterator[Scene]:
    clock = SteppedClock()
    async with Sandbox(Faults(seed=7)) as sandbox:
        sms = target(
            "sms.all", "sms", sandbox.http_url, maxAttempts=1,
            terminalOutcomes=["SENT", "FAILED"],
        )  # fmt: skip
        async with opened(database, folder, sms, clock=clock) as outrider:
            yield Scene(outrider, clock, sandbox, database)


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with opened_scene(database, tmp_path) as made:
        yield made


async def test_each_step_follows_when_the_one_before_has_ended_and_was_held(scene: Scene) -> None:
    run_id = await scene.launch(rollout=THREE)
    assert [step.items for step in await scene.steps(run_id)] == [2, 18, 180]
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        assert await scene.sent(run_id) == 2
        assert await scene.states(run_id) == ["holding", "waiting", "waiting"]
        await scene.some_time(9)
        assert await scene.sent(run_id) == 2, "the hold is not over"
        await scene.until_state(run_id, 2, "holding")
        assert await scene.sent(run_id) == 20
        await scene.some_time(28)
        assert await scene.sent(run_id) == 20
        await scene.until_sent(run_id, 200)
        await scene.until_state(run_id, 3, "done")
    assert set(scene.sandbox.deliveries.values()) == {1}
    events = await scene.rolled_out(run_id)
    assert [(event.type, event.payload.get("step")) for event in events] == [
        ("RolloutPlanned", None),
        ("RolloutStepEnded", 1),
        ("RolloutStepReleased", 2),
        ("RolloutStepEnded", 2),
        ("RolloutStepReleased", 3),
    ]
    assert events[2].payload["by"] == "plan"
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate.criteria


async def test_who_is_in_which_step_depends_on_the_run_and_the_recipient_alone(
    scene: Scene,
) -> None:
    run_id = await scene.launch(rollout=TWO)
    in_order = sorted(range(200), key=lambda number: draw(run_id, f"lead-{number}"))
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
    first = await items_of(scene.outrider, run_id)
    assert set(first) == {f"lead-{number}" for number in in_order[:20]}


async def test_the_databases_draw_as_the_domain_does(scene: Scene) -> None:
    def drawn() -> Any:
        return (
            yield from ask(
                "draws_at_ranks", {"rank": [1, 2, 3]}, campaign_id=campaign_id, salt="s|é"
            )
        )

    run_id = await scene.launch(3)
    campaign_id = await campaign_of(scene.outrider, run_id)
    rows = await scene.outrider.store.read(drawn())
    expected = sorted(draw("s|é", f"lead-{number}") for number in range(3))
    assert sorted(int(row[1]) for row in rows) == expected


async def test_a_rollout_in_which_too_much_fails_pauses_itself_and_says_so(scene: Scene) -> None:
    scene.sandbox.faults.fail_rate = 1.0
    run_id = await scene.launch(rollout=THREE, pause_on=PauseOn(failure_rate=0.05))
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.some_time(9)
        reason = await scene.until_paused(run_id)
        assert reason == (
            "2 of 2 messages failed or are in doubt (100.00%), and pauseOn.failureRate is 5.00%"
        )
        await scene.some_time(60)
        assert await scene.states(run_id) == ["holding", "waiting", "waiting"]
        [halted] = [e for e in await scene.rolled_out(run_id) if e.type == "RolloutHalted"]
        assert halted.payload["reason"] == reason
        assert halted.payload["rates"] == [
            {"rate": "failureRate", "items": 2, "of": 2, "limit": 0.05}
        ]
        # Whoever resumes it has seen why: the next step follows, and is judged again.
        scene.sandbox.faults.fail_rate = 0.0
        await scene.control(run_id, Action.RESUME)
        await scene.until_state(run_id, 2, "holding")
        assert await scene.sent(run_id) == 18
        await scene.some_time(28)
        again = await scene.until_paused(run_id)
        assert again.startswith("2 of 20 messages failed or are in doubt (10.00%)")
    events = await scene.outrider.store.read(run_log.events_after(run_id, 0, 1_000))
    paused = [event.payload["reason"] for event in events if event.type == "RunPaused"]
    assert paused == [reason, again]


@pytest.mark.parametrize(
    ("limits", "state", "items", "said"),
    [
        (PauseOn(bounce_rate=0.05), "bounced", 2, "2 of 20 sent messages bounced"),
        (PauseOn(complaint_rate=0.01), "complained", 1, "1 of 20 sent messages were complained of"),
        (PauseOn(silence_rate=0.5), "delivered", 9, "11 of 20 sent messages have no receipt"),
    ],
)
async def test_receipts_or_the_lack_of_them_pause_a_rollout(
    scene: Scene, limits: PauseOn, state: str, items: int, said: str
) -> None:
    run_id = await scene.launch(rollout=TWO, pause_on=limits)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.reported(run_id, state, items)
        await scene.some_time(9)
        assert await scene.states(run_id) == ["holding", "waiting"]
        assert said in await scene.until_paused(run_id)
    assert await scene.sent(run_id) == 20


async def test_a_person_may_advance_a_rollout_before_its_hold_is_over(scene: Scene) -> None:
    run_id = await scene.launch(rollout=THREE)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        assert await scene.advance(run_id)
        assert await scene.advance(run_id), "the same signal gets the same answer"
        assert await scene.states(run_id) == ["done", "sending", "waiting"]
        await scene.control(run_id, Action.PAUSE)
        with pytest.raises(SignalRefused, match="paused"):
            await scene.advance(run_id, "while paused")
        await scene.control(run_id, Action.RESUME)
        assert await scene.advance(run_id, "two steps at once")
        await scene.until_sent(run_id, 200)
        released = [e for e in await scene.rolled_out(run_id) if e.type == "RolloutStepReleased"]
        assert [(e.payload["step"], e.payload["by"]) for e in released] == [
            (2, ANN.actor),
            (3, ANN.actor),
        ]


async def test_a_run_without_a_rollout_cannot_be_advanced(scene: Scene) -> None:
    run_id = await scene.launch(3)
    with pytest.raises(SignalRefused, match="no rollout"):
        await scene.advance(run_id)


async def test_pausing_and_resuming_releases_no_later_step(scene: Scene) -> None:
    run_id = await scene.launch(rollout=TWO)
    await scene.control(run_id, Action.PAUSE)
    await scene.control(run_id, Action.RESUME)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.control(run_id, Action.PAUSE)
        await scene.some_time(15)
        assert await scene.states(run_id) == ["holding", "waiting"], "paused means paused"
        assert await scene.sent(run_id) == 20
        await scene.control(run_id, Action.RESUME)
        await scene.until_sent(run_id, 200)


async def test_the_retry_of_a_stopped_rollout_keeps_its_steps(scene: Scene) -> None:
    """What a stop left over is not sent to at once either."""
    run_id = await scene.launch(rollout=THREE)
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "holding")
        await scene.control(run_id, Action.STOP)
        await scene.until_state(run_id, 1, "done")
        again = await scene.control(run_id, Action.RETRY)
        assert [step.items for step in await scene.steps(again)] == [0, 18, 180]
        assert await scene.states(again) == ["done", "sending", "waiting"]
        await scene.until_state(again, 2, "holding")
        assert await scene.sent(again) == 18
        await scene.some_time(28)
        await scene.until_sent(again, 198)
    assert set(scene.sandbox.deliveries.values()) == {1}


async def test_small_audiences_leave_steps_out(scene: Scene) -> None:
    run_id = await scene.launch(1, rollout=THREE)
    assert [step.items for step in await scene.steps(run_id)] == [1, 0, 0]
    async with working(scene.outrider):
        await scene.until_state(run_id, 1, "done")
    assert await scene.sent(run_id) == 1


async def test_ten_keepers_release_a_step_once(scene: Scene) -> None:
    run_id = await scene.launch(rollout=(RolloutStep(10), RolloutStep(100)))
    async with working(scene.outrider):
        await scene.until_sent(run_id, 20)
        await asyncio.gather(*(scene.outrider.rollout_keeper.look() for _ in range(10)))
        await scene.until_sent(run_id, 200)
    types = [event.type for event in await scene.rolled_out(run_id)]
    assert types == ["RolloutPlanned", "RolloutStepEnded", "RolloutStepReleased"]
