"""The herald's patience: with an engine that does not answer, and with work that stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, DEFAULT_TENANT, RunId
from outrider.domain.signals import Signal
from outrider.engines.local import LocalEngine
from outrider.kernel.herald import Herald
from outrider.kernel.submission_manager import Submission
from outrider.ports.engine import Stalled, Work
from outrider.testing.clock import FakeClock
from outrider.testing.launches import target
from tests.whole_runs import IMPATIENT, opened

LIMITS = replace(
    IMPATIENT, engine_tell_seconds=0.05, engine_deaf_seconds=0.05,
    stalled_recheck_seconds=0.5, stalled_retell_seconds=5.0,
)  # fmt: skip
RUN = RunId("a run")
MOMENT_SECONDS = 0.01

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class HangingEngine(LocalEngine):
    """Whoever tells it something waits until his patience is at an end."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
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


class KnowingEngine(LocalEngine):
    """Remembers what it was asked about, and says whether it had to be told."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__()
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


@SQLITE
async def test_who_comes_after_a_telling_that_took_too_long_does_not_wait_too(
    outrider: Outrider, clock: FakeClock
) -> None:
    engine = HangingEngine(clock)
    herald = Herald(engine, outrider.store, clock, LIMITS)
    await herald.let_go(DEFAULT_TENANT, RUN)
    assert engine.asked == 1
    await herald.let_go(DEFAULT_TENANT, RUN)
    await herald.steered(DEFAULT_TENANT, RUN, Signal.PAUSE)
    clock.advance(LIMITS.engine_deaf_seconds - MOMENT_SECONDS)
    await herald.steered(DEFAULT_TENANT, RUN, Signal.RESUME)
    assert engine.asked == 1
    clock.advance(MOMENT_SECONDS)
    await herald.steered(DEFAULT_TENANT, RUN, Signal.RESUME)
    assert engine.asked == 2


@SQLITE
@pytest.mark.parametrize(
    ("knows", "again_seconds"),
    [(True, LIMITS.stalled_recheck_seconds), (False, LIMITS.stalled_retell_seconds)],
    ids=["waited for", "told"],
)
async def test_the_engine_is_asked_again_soon_about_what_it_knew_and_later_about_the_rest(
    outrider: Outrider, clock: FakeClock, knows: bool, again_seconds: float
) -> None:
    engine = KnowingEngine(knows=knows)
    herald = Herald(engine, outrider.store, clock, LIMITS)
    submission = Submission("a", "noop", {"to": "+447700900123", "message": "Hello"})
    await outrider.submissions.submit(DEFAULT_SCOPE, submission)
    told = await herald.recover_once()
    (first,) = engine.asked
    assert list(told) == ([] if knows else [first])
    clock.advance(again_seconds - MOMENT_SECONDS)
    await herald.recover_once()
    assert engine.asked == [first]
    clock.advance(MOMENT_SECONDS)
    await herald.recover_once()
    assert engine.asked == [first, first]
