"""A run's log under everything that may happen to it, in any order, on real databases.

Appends, crashes, repeats, events of later versions, projectors that come, go and forget: whatever
hypothesis makes of these, the invariants hold after every step.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.projection import project_run
from outrider.domain.run_events import RunEvent, RunEventType, event_key
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.transactions.run_log import EventDraft
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.postgres import create_database, drop_database
from outrider.testing.store_suite.workshop import NOON, Workshop
from tests.support.foundations import foundation
from tests.support.raw_logs import (
    VERSION,
    Crash,
    CrashingStore,
    burn_numbers,
    events_of,
    snapshots_of,
    tell,
    tell_unknown,
    watermark,
)
from tests.support.raw_sql import Raw, raw_sql

LIMITS = Limits(projector_page_events=3, projector_delta_events=5, projector_steps_remembered=3)
"""So small that pages end, visits are cut short and memory overflows all the time."""

SQLITE_EXAMPLES = 40
POSTGRES_EXAMPLES = 10
STEPS = 20

STEP_KINDS = [kind for kind in RunEventType if kind.startswith("Step")]
RUN_KINDS = [kind for kind in RunEventType if kind not in STEP_KINDS]

payloads = st.sampled_from(
    [{}, {"signal": "CANCEL"}, {"outcome": "failed", "sent": 1, "failed": 2, "skipped": 0}]
)
of_steps = st.builds(
    EventDraft,
    st.sampled_from(STEP_KINDS),
    step_id=st.sampled_from(["a", "b", "c"]),
    logical_attempt=st.integers(1, 2),
    engine_attempt=st.none() | st.integers(1, 3),
    payload=payloads,
)
of_runs = st.builds(EventDraft, st.sampled_from(RUN_KINDS), payload=payloads)
windows = st.lists(of_steps | of_runs, min_size=1, max_size=4)


class RunLog(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    store: ClassVar[Store]
    raw: ClassVar[Raw]

    @initialize()
    def begin(self) -> None:
        self.run_id: RunId = self.runner.run(Workshop(self.store).launch(1))
        self.crashing = CrashingStore(self.store)
        self.clock = FakeClock(NOON)
        self.known = self.log()
        self.told: list[list[EventDraft]] = []
        self.reached = 0
        self.new_projector()

    def log(self) -> list[RunEvent]:
        return self.runner.run(events_of(self.store, self.run_id))

    @rule(window=windows)
    def append(self, window: list[EventDraft]) -> None:
        before = {event.idempotency_key for event in self.log()}
        appended = self.runner.run(tell(self.store, self.run_id, *window))
        keys = dict.fromkeys(self.key(draft) for draft in window)
        new = [key for key in keys if key not in before]
        by_seq = {event.run_seq: event.idempotency_key for event in self.log()}
        assert [by_seq[each.run_seq] for each in appended] == new, "what is new, in its order"
        self.told.append(window)

    @rule(window=windows, statements=st.integers(0, 4))
    def crash_while_appending(self, window: list[EventDraft], statements: int) -> None:
        before = self.log()
        self.crashing.write_dies_after = statements
        try:
            self.runner.run(tell(self.crashing, self.run_id, *window))
        except Crash:
            assert self.log() == before, "all of it or nothing"
        else:
            raise AssertionError("it should have died")

    @rule(data=st.data(), engine_attempt=st.none() | st.integers(1, 9))
    def tell_it_again(self, data: st.DataObject, engine_attempt: int | None) -> None:
        """The same, or another engine's attempt at it: it is in the log already."""
        if not self.told:
            return
        window = [
            EventDraft(draft.type, draft.step_id, draft.logical_attempt, engine_attempt)
            for draft in data.draw(st.sampled_from(self.told))
        ]
        before = self.log()
        assert self.runner.run(tell(self.store, self.run_id, *window)) == []
        assert self.log() == before

    @rule(skip=st.integers(0, 3), payload=st.sampled_from(["{}", "[1]", '{"outcome":"failed"}']))
    def a_later_version_appends(self, skip: int, payload: str) -> None:
        self.runner.run(tell_unknown(self.raw, self.run_id, payload=payload, skip=skip))

    @rule(count=st.integers(1, 3))
    def numbers_are_lost(self, count: int) -> None:
        self.runner.run(burn_numbers(self.raw, self.run_id, count))

    @rule()
    def project(self) -> None:
        self.runner.run(self.projector.project_once())

    @rule(statements=st.integers(0, 6))
    def crash_while_projecting(self, statements: int) -> None:
        self.crashing.write_dies_after = statements
        dying = Projector(foundation(self.crashing, clock=self.clock, limits=LIMITS))
        dying._memory = self.projector._memory
        self.runner.run(dying.project_once())
        self.crashing.write_dies_after = None

    @rule()
    def new_projector(self) -> None:
        """It remembers nothing, and goes by what is stored."""
        self.projector = Projector(foundation(self.store, clock=self.clock, limits=LIMITS))

    @rule()
    def two_project_at_once(self) -> None:
        rival = Projector(foundation(self.store, clock=self.clock, limits=LIMITS))

        async def both() -> None:
            await asyncio.gather(self.projector.project_once(), rival.project_once())

        self.runner.run(both())

    @rule()
    def snapshots_are_cleared_away(self) -> None:
        """They follow from the log, so that none is needed."""
        cleared = f"DELETE FROM run_snapshots WHERE run_id = '{self.run_id}'"
        self.runner.run(self.raw.run(cleared))
        self.new_projector()

    @rule()
    def project_to_the_end(self) -> None:
        while self.runner.run(self.projector.project_once()):
            pass
        log, stored = self.log(), self.runner.run(snapshots_of(self.raw, self.run_id))
        if stored:
            assert stored[-1].last_event_seq == log[-1].run_seq
        last: int = self.runner.run(
            self.raw.value(f"SELECT last_seq FROM campaign_runs WHERE id = '{self.run_id}'")
        )
        assert self.runner.run(watermark(self.raw, self.run_id)) == last

    @rule(data=st.data())
    def travel_in_time(self, data: st.DataObject) -> None:
        log = self.log()
        at = data.draw(st.integers(0, log[-1].run_seq + 1))
        reader = RunReader(self.store, LIMITS)
        expected = project_run(self.run_id, [event for event in log if event.run_seq <= at])
        assert self.runner.run(reader.snapshot(DEFAULT_SCOPE, self.run_id, at)) == expected
        now = self.runner.run(reader.snapshot(DEFAULT_SCOPE, self.run_id))
        assert now == project_run(self.run_id, log)

    def teardown(self) -> None:
        """The next example's projectors have its run alone to look after."""
        if hasattr(self, "projector"):
            self.project_to_the_end()

    def key(self, draft: EventDraft) -> str:
        return event_key(self.run_id, draft.step_id, draft.logical_attempt, draft.type, VERSION)

    @invariant()
    def the_log_only_grows_and_its_sequence_with_it(self) -> None:
        log = self.log()
        sequences = [event.run_seq for event in log]
        assert sequences == sorted(set(sequences))
        assert len({event.idempotency_key for event in log}) == len(log)
        assert log[: len(self.known)] == self.known
        self.known = log

    @invariant()
    def every_stored_snapshot_is_what_the_log_comes_to_at_its_watermark(self) -> None:
        for stored in self.runner.run(snapshots_of(self.raw, self.run_id)):
            upto = [event for event in self.known if event.run_seq <= stored.last_event_seq]
            assert stored == project_run(self.run_id, upto)

    @invariant()
    def the_watermark_never_goes_back(self) -> None:
        seq = self.runner.run(watermark(self.raw, self.run_id))
        assert seq >= self.reached
        self.reached = seq


@contextmanager
def machine_on(url: str, runner: asyncio.Runner) -> Iterator[type[RunLog]]:
    """One database for all examples: each has a run of its own."""
    opened = make_store(url)
    looking = raw_sql(url)
    runner.run(opened.migrate())

    class Machine(RunLog):
        store = opened
        raw = runner.run(looking.__aenter__())

    Machine.runner = runner
    try:
        yield Machine
    finally:
        runner.run(looking.__aexit__(None, None, None))
        runner.run(opened.close())


def check(machine: type[RunLog], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_run_log_on_sqlite_keeps_its_invariants_whatever_happens(tmp_path: Path) -> None:
    with (
        asyncio.Runner() as runner,
        machine_on(f"sqlite:///{tmp_path}/outrider.db", runner) as machine,
    ):
        check(machine, SQLITE_EXAMPLES)


def test_a_run_log_on_postgres_keeps_its_invariants_whatever_happens(postgres_url: str) -> None:
    with asyncio.Runner() as runner:
        url = runner.run(create_database(postgres_url))
        with machine_on(url, runner) as machine:
            check(machine, POSTGRES_EXAMPLES)
        runner.run(drop_database(postgres_url, url))
