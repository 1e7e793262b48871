"""The engine notifier: an engine that does not answer, and work that stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.errors import EngineUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, RunId, WorkerId
from outrider.domain.signals import Signal
from outrider.engines.local import LocalEngine
from outrider.kernel.foundation import Foundation
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.claims import Claimer
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.ports.engine import Stalled, Work
from outrider.system import SystemClock
from outrider.testing.claims import claim_any
from outrider.testing.clock import FakeClock
from outrider.testing.engine_suite.lanes import lane_of
from outrider.testing.launches import target
from tests.support.controls import begun, created
from tests.support.whole_runs import IMPATIENT, opened

LIMITS = replace(
    IMPATIENT, engine_tell_seconds=0.05, engine_deaf_seconds=0.05,
    stalled_recheck_seconds=0.5, stalled_retell_seconds=5.0,
)  # fmt: skip
RUN = RunId("a run")
MOMENT_SECONDS = 0.01
LANES = 3
HOUR = timedelta(hours=1)

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class HangingEngine(LocalEngine):
    """Whoever tells it something waits until his patience is at an end."""

    def __init__(self, foundation: Foundation, clock: FakeClock) -> None:
        super().__init__(foundation)
        self._clock = clock
        self.asked = 0

    async def start(self, run: Work) -> None:  # noqa: ARG002
        await self._hang()

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:  # noqa: ARG002
        await self._hang()

    async def _hang(self) -> None:
        self.asked += 1
        self._clock.advance(LIMITS.engine_tell_seconds)
        await asyncio.Event().wait()


class FailingEngine(LocalEngine):
    """Has a server, which is away."""

    polls_queue = False
    is_away = True

    async def check(self) -> None:
        if self.is_away:
            raise EngineUnavailable("connection refused")


class SlowEngine(LocalEngine):
    """Answers in time where it is asked about one at once, and not where it is about more."""

    def __init__(self, foundation: Foundation) -> None:
        super().__init__(foundation)
        self.told: list[Stalled] = []

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        if len(stalled) > 1:
            await asyncio.Event().wait()
        self.told += stalled
        return stalled


class KnowingEngine(LocalEngine):
    """Remembers what it was asked about, and says whether it had to be told."""

    def __init__(self, foundation: Foundation, *, knows: bool) -> None:
        super().__init__(foundation)
        self._knows = knows
        self.asked: list[Stalled] = []

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        self.asked += stalled
        return [] if self._knows else stalled


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def outrider(database: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Outrider]:
    noop = target("noop", "noop", "noop:")
    async with opened(database, tmp_path, noop, limits=LIMITS, clock=clock) as opened_here:
        yield opened_here


async def submit_to_lanes(outrider: Outrider) -> None:
    """One message to each of three lanes."""
    for lane in range(LANES):
        names = (f"intent-{number}" for number in range(100))
        intent_id = next(name for name in names if lane_of(name) == lane)
        submission = Submission(intent_id, "noop", {"to": "+447700900123", "message": "Hello"})
        await outrider.submissions.submit(DEFAULT_SCOPE, submission)


@SQLITE
async def test_a_caller_after_a_slow_notification_does_not_wait_too(
    outrider: Outrider, clock: FakeClock
) -> None:
    engine = HangingEngine(outrider.foundation, clock)
    engine_notifier = EngineNotifier(
        replace(outrider.foundation, clock=clock, limits=LIMITS), engine
    )
    await engine_notifier.released(DEFAULT_TENANT, RUN)
    assert engine.asked == 1
    await engine_notifier.released(DEFAULT_TENANT, RUN)
    await engine_notifier.steered(DEFAULT_TENANT, RUN, Signal.PAUSE)
    clock.advance(LIMITS.engine_deaf_seconds - MOMENT_SECONDS)
    await engine_notifier.steered(DEFAULT_TENANT, RUN, Signal.RESUME)
    assert engine.asked == 1
    clock.advance(MOMENT_SECONDS)
    await engine_notifier.steered(DEFAULT_TENANT, RUN, Signal.RESUME)
    assert engine.asked == 2


@SQLITE
async def test_no_caller_waits_for_an_unresponsive_engine_not_even_the_first(
    outrider: Outrider,
) -> None:
    """RM: the first control while Temporal was down took as long as an engine may take."""
    engine, clock = HangingEngine(outrider.foundation, FakeClock()), SystemClock()
    patient = replace(LIMITS, engine_tell_seconds=60.0, engine_wait_seconds=0.1)
    engine_notifier = EngineNotifier(
        replace(outrider.foundation, clock=clock, limits=patient), engine
    )
    began = clock.monotonic()
    await engine_notifier.released(DEFAULT_TENANT, RUN)
    await engine_notifier.steered(DEFAULT_TENANT, RUN, Signal.PAUSE)
    assert clock.monotonic() - began < 10
    assert engine.asked == 1, "whoever comes after it does not wait at all"


@SQLITE
@pytest.mark.parametrize(
    ("knows", "again_seconds"),
    [(True, LIMITS.stalled_recheck_seconds), (False, LIMITS.stalled_retell_seconds)],
    ids=["waited for", "told"],
)
async def test_the_engine_is_asked_again_soon_about_what_it_knew_and_later_about_the_rest(
    outrider: Outrider, clock: FakeClock, knows: bool, again_seconds: float
) -> None:
    engine = KnowingEngine(outrider.foundation, knows=knows)
    engine_notifier = EngineNotifier(
        replace(outrider.foundation, clock=clock, limits=LIMITS), engine
    )
    submission = Submission("a", "noop", {"to": "+447700900123", "message": "Hello"})
    await outrider.submissions.submit(DEFAULT_SCOPE, submission)
    told = await engine_notifier.recover_once()
    (first,) = engine.asked
    assert list(told) == ([] if knows else [first])
    clock.advance(again_seconds - MOMENT_SECONDS)
    await engine_notifier.recover_once()
    assert engine.asked == [first]
    clock.advance(MOMENT_SECONDS)
    await engine_notifier.recover_once()
    assert engine.asked == [first, first]


@SQLITE
async def test_a_slow_engine_is_notified_of_everything_in_small_groups(
    outrider: Outrider, clock: FakeClock
) -> None:
    await submit_to_lanes(outrider)
    engine = SlowEngine(outrider.foundation)
    engine_notifier = EngineNotifier(
        replace(outrider.foundation, clock=clock, limits=replace(LIMITS, stalled_told_at_once=1)),
        engine,
    )
    assert len(await engine_notifier.recover_once()) == LANES
    assert len(set(engine.told)) == LANES


@SQLITE
async def test_work_that_the_engine_knows_hides_none_that_it_does_not(
    outrider: Outrider, clock: FakeClock
) -> None:
    await submit_to_lanes(outrider)
    engine = KnowingEngine(outrider.foundation, knows=True)
    engine_notifier = EngineNotifier(
        replace(outrider.foundation, clock=clock, limits=replace(LIMITS, stalled_page=1)), engine
    )
    for _ in range(LANES):
        await engine_notifier.recover_once()
    assert len(engine.asked) == len(set(engine.asked)) == LANES


@SQLITE
async def test_the_more_the_engine_knows_the_less_often_it_is_asked_about_each(
    outrider: Outrider, clock: FakeClock
) -> None:
    await submit_to_lanes(outrider)
    engine = KnowingEngine(outrider.foundation, knows=True)
    engine_notifier = EngineNotifier(
        replace(
            outrider.foundation, clock=clock, limits=replace(LIMITS, stalled_asked_per_second=1.0)
        ),
        engine,
    )
    await engine_notifier.recover_once()
    clock.advance(LANES - MOMENT_SECONDS)
    await engine_notifier.recover_once()
    assert len(engine.asked) == LANES
    clock.advance(MOMENT_SECONDS)
    await engine_notifier.recover_once()
    assert len(engine.asked) == 2 * LANES


@SQLITE
async def test_each_job_that_is_taken_of_a_run_is_no_reason_to_ask_about_the_next(
    database: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with opened(
        database, tmp_path, target("sms.all", "noop", "noop:"), limits=LIMITS, clock=clock
    ) as outrider:
        await begun(outrider, await created(outrider, 20, batch_size=5))
        clock.advance(LIMITS.stalled_after_seconds)
        engine = KnowingEngine(outrider.foundation, knows=True)
        engine_notifier = EngineNotifier(
            replace(outrider.foundation, clock=clock, limits=LIMITS), engine
        )
        for _ in range(2):
            claimer = Claimer(WorkerId("w"), clock.now() + HOUR, engine.reference, outrider.ids)
            await engine_notifier.recover_once()
            assert await claim_any(outrider.store, claimer, 1, clock.now())
        assert len(engine.asked) == 1
        clock.advance(LIMITS.stalled_recheck_seconds)
        await engine_notifier.recover_once()
        first, second = engine.asked
        assert (first.work, first.job_id != second.job_id) == (second.work, True)


@SQLITE
async def test_an_engine_is_away_from_the_first_failure_until_it_answers_again(
    outrider: Outrider, clock: FakeClock
) -> None:
    engine = FailingEngine(outrider.foundation)
    notifier = EngineNotifier(replace(outrider.foundation, clock=clock, limits=LIMITS), engine)
    began = clock.now()
    assert await notifier.away_since() == began
    clock.advance(LIMITS.engine_deaf_seconds)
    assert await notifier.away_since() == began
    engine.is_away = False
    clock.advance(LIMITS.engine_deaf_seconds)
    assert await notifier.away_since() is None


@SQLITE
async def test_a_notification_that_is_only_slow_does_not_make_the_engine_away(
    outrider: Outrider,
) -> None:
    engine, clock = HangingEngine(outrider.foundation, FakeClock()), SystemClock()
    patient = replace(LIMITS, engine_tell_seconds=60.0, engine_wait_seconds=0.05)
    notifier = EngineNotifier(replace(outrider.foundation, clock=clock, limits=patient), engine)
    await notifier.released(DEFAULT_TENANT, RUN)
    assert notifier.deaf_since is None
