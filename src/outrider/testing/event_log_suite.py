"""The conformance suite of event logs: subclass it and provide a `bench` fixture.

    class TestMine(EventLogConformance):
        '''`bench` is an EventLogBench over an empty log.'''

What a database cannot refuse is skipped with the reason; what every log must keep is never skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest

from outrider.domain.errors import StoreError, StoreUnavailable
from outrider.domain.ids import RunId
from outrider.domain.run_events import EMITTERS, RunEvent, RunEventType, event_key
from outrider.ports.event_log import Appended, EventDraft, EventLog

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAN = "1"
MOST = 1_000
APPENDERS = 4
EVENTS_PER_APPENDER = 10
WAIT_SECONDS = 600
TRIES = 200
"""How often a database that refuses a second writer, instead of blocking it, is asked again."""

APPROVED = EventDraft(RunEventType.RUN_APPROVED)
STARTED = EventDraft(RunEventType.RUN_STARTED, payload={"engineRunRef": "local"})
STEP_DONE = EventDraft(RunEventType.STEP_COMPLETED, "job-1", engine_attempt=1)
PAYLOADS: tuple[dict[str, object], ...] = (
    {},
    {"text": "Zoë 🚀 ключ 鍵", "quotes": 'it\'s "so" \\ 100% %s :name $1 ? {} --'},
    {"control": "line\nfeed\ttab", "nothing": "\0", "": "an empty name"},
    {"deep": {"a": [{"b": [[], {}, None, True, False]}]}},
    {"most": 2**63 - 1, "least": -(2**63), "beyond floats": 2**53 + 1, "small": 1e-9, "tenth": 0.1},
    {"long": "x" * 100_000},
)


class Tampering(StrEnum):
    """Ways to tamper with an event behind the log's back."""

    REWRITE = "rewrite"
    ERASE = "erase"
    SAME_SEQUENCE = "same_sequence"
    SAME_KEY = "same_key"


class Refused(Exception):
    """The database itself refused the tampering."""


@dataclass(frozen=True, slots=True)
class EventLogBench:
    """One log, reached twice as two processes would reach it, and over connections that break.

    `tamper` tries it on an event and raises Refused if the database refuses; what it cannot refuse
    is in `cannot_refuse`, with the reason.
    """

    here: EventLog
    there: EventLog
    breaks_before_commit: EventLog
    breaks_after_commit: EventLog
    new_run: Callable[[], Awaitable[RunId]]
    tamper: Callable[[Tampering, RunEvent], Awaitable[None]]
    cannot_refuse: str | None = None


async def append_to(
    log: EventLog, run_id: RunId, *drafts: EventDraft, plan_version: str = PLAN
) -> Sequence[Appended]:
    """Append until it is known to be written: a repeat is one event."""
    for tries_left in reversed(range(TRIES)):
        try:
            return await log.append(run_id, plan_version, drafts, NOON)
        except StoreUnavailable:
            if not tries_left:
                raise
            await asyncio.sleep(0)
    raise AssertionError


async def everything(log: EventLog, run_id: RunId) -> Sequence[RunEvent]:
    return await log.events_after(run_id, 0, MOST)


def steps(first: int, count: int) -> list[EventDraft]:
    return [replace(STEP_DONE, step_id=f"job-{first + number}") for number in range(count)]


class EventLogConformance:
    @pytest.fixture
    async def run_id(self, bench: EventLogBench) -> RunId:
        return await bench.new_run()

    async def test_sequences_of_a_run_only_grow_and_follow_the_order_of_telling(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        first = await append_to(bench.here, run_id, APPROVED, STARTED)
        second = await append_to(bench.there, run_id, *steps(1, 5))
        sequences = [each.run_seq for each in (*first, *second)]
        assert sequences == sorted(set(sequences))
        assert sequences[0] > 0
        events = await everything(bench.here, run_id)
        assert [event.run_seq for event in events] == sequences
        assert [(event.type, event.step_id) for event in events] == [
            ("RunApproved", None), ("RunStarted", None),
            *(("StepCompleted", f"job-{number}") for number in range(1, 6)),
        ]  # fmt: skip

    async def test_an_event_is_read_back_as_it_was_written(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        seen_at = NOON - timedelta(microseconds=1)
        draft = EventDraft(
            RunEventType.STEP_FAILED, "job-1", 3, 7, {"code": "X"}, "signal-1", seen_at
        )
        (appended,) = await append_to(bench.here, run_id, draft, plan_version="plan-9")
        (event,) = await everything(bench.there, run_id)
        key = event_key(run_id, "job-1", 3, "StepFailed", "plan-9")
        emitter = EMITTERS[RunEventType.STEP_FAILED].value
        assert event == RunEvent(
            run_id, appended.run_seq, "StepFailed", seen_at, "job-1", 3, 7, {"code": "X"}, emitter,
            "plan-9", key,
        )  # fmt: skip

    async def test_an_event_without_a_time_happened_now(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, APPROVED)
        assert [event.occurred_at for event in await everything(bench.here, run_id)] == [NOON]

    async def test_a_repeated_append_is_one_event_and_changes_nothing(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, APPROVED, STEP_DONE)
        before = await everything(bench.here, run_id)
        again = replace(STEP_DONE, payload={"changed": True})
        assert not await append_to(bench.there, run_id, again, APPROVED)
        assert await everything(bench.here, run_id) == before

    async def test_two_concurrent_appends_of_the_same_are_one_event(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        assert len(await append_to(bench.here, run_id, STEP_DONE, STEP_DONE, STEP_DONE)) == 1
        assert len(await everything(bench.here, run_id)) == 1

    async def test_new_events_are_appended_among_known_ones(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, APPROVED)
        (appended,) = await append_to(bench.here, run_id, APPROVED, STARTED)
        assert appended.type == "RunStarted"
        events = await everything(bench.here, run_id)
        assert [event.type for event in events] == ["RunApproved", "RunStarted"]
        assert appended.run_seq == events[1].run_seq

    async def test_the_engines_attempt_makes_no_other_event(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, STEP_DONE)
        assert not await append_to(bench.here, run_id, replace(STEP_DONE, engine_attempt=2))
        assert [event.engine_attempt for event in await everything(bench.here, run_id)] == [1]

    async def test_another_logical_attempt_step_type_or_plan_is_another_event(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, STEP_DONE)
        others = (
            replace(STEP_DONE, logical_attempt=2),
            replace(STEP_DONE, step_id="job-2"),
            replace(STEP_DONE, type=RunEventType.STEP_FAILED),
        )
        assert len(await append_to(bench.here, run_id, *others)) == len(others)
        assert len(await append_to(bench.here, run_id, STEP_DONE, plan_version="2")) == 1
        events = await everything(bench.here, run_id)
        assert len({event.idempotency_key for event in events}) == len(events) == len(others) + 2

    async def test_another_run_has_its_own_sequences_and_keys(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, APPROVED, STARTED, *steps(1, 3))
        other = await bench.new_run()
        (appended,) = await append_to(bench.here, other, APPROVED)
        assert appended.run_seq == (await everything(bench.here, run_id))[0].run_seq
        assert [event.run_id for event in await everything(bench.here, other)] == [other]

    async def test_an_unknown_run_has_no_events(self, bench: EventLogBench, run_id: RunId) -> None:
        assert not await bench.here.append(run_id, PLAN, (), NOON)
        assert not await everything(bench.here, run_id)

    @pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: next(iter(payload), "empty"))
    async def test_any_payload_is_read_back_byte_for_byte(
        self, bench: EventLogBench, run_id: RunId, payload: dict[str, object]
    ) -> None:
        await append_to(bench.here, run_id, replace(STARTED, payload=payload))
        (event,) = await everything(bench.there, run_id)
        assert event.payload == payload
        assert list(event.payload) == list(payload)

    async def test_a_reader_continues_from_its_watermark_page_by_page(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, *steps(0, 7))
        read: list[RunEvent] = []
        sizes = []
        while page := await bench.there.events_after(run_id, read[-1].run_seq if read else 0, 3):
            sizes.append(len(page))
            read += page
        assert sizes == [3, 3, 1]
        assert read == list(await everything(bench.here, run_id))

    async def test_appenders_at_once_never_share_a_sequence_and_nothing_appears_behind_a_reader(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        async def append(number: int) -> list[int]:
            log = (bench.here, bench.there)[number % 2]
            drafts = steps(100 * number, EVENTS_PER_APPENDER)
            return [(await append_to(log, run_id, draft))[0].run_seq for draft in drafts]

        async def watch() -> list[RunEvent]:
            seen: list[RunEvent] = []
            while len(seen) < APPENDERS * EVENTS_PER_APPENDER:
                seen += await bench.there.events_after(run_id, seen[-1].run_seq if seen else 0, 5)
            return seen

        async with asyncio.timeout(WAIT_SECONDS):
            watched, given = await asyncio.gather(
                watch(), asyncio.gather(*map(append, range(APPENDERS)))
            )
        sequences = [sequence for each in given for sequence in each]
        assert all(each == sorted(each) for each in given)
        assert len(set(sequences)) == len(sequences) == APPENDERS * EVENTS_PER_APPENDER
        assert [event.run_seq for event in watched] == sorted(sequences)
        assert watched == list(await everything(bench.here, run_id))

    async def test_of_concurrent_appends_of_the_same_event_exactly_one_is_written(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        logs = (bench.here, bench.there) * APPENDERS
        appended = await asyncio.gather(*(append_to(log, run_id, STEP_DONE) for log in logs))
        assert sum(len(each) for each in appended) == 1
        assert len(await everything(bench.here, run_id)) == 1

    async def test_concurrent_first_appends_of_a_run_share_no_sequence(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        logs = (bench.here, bench.there) * APPENDERS
        await asyncio.gather(
            *(append_to(log, run_id, *steps(number, 1)) for number, log in enumerate(logs))
        )
        events = await everything(bench.here, run_id)
        assert len({event.run_seq for event in events}) == len(events) == len(logs)

    async def test_a_line_that_breaks_before_the_commit_leaves_nothing_and_a_retry_writes_it_once(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        await append_to(bench.here, run_id, APPROVED)
        with pytest.raises(StoreUnavailable):
            await bench.breaks_before_commit.append(run_id, PLAN, [STARTED, *steps(1, 3)], NOON)
        assert [event.type for event in await everything(bench.here, run_id)] == ["RunApproved"]
        assert len(await append_to(bench.here, run_id, STARTED, *steps(1, 3))) == 4
        assert len(await everything(bench.here, run_id)) == 5

    async def test_a_line_that_breaks_after_the_commit_and_a_retry_write_it_once(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        with pytest.raises(StoreUnavailable):
            await bench.breaks_after_commit.append(run_id, PLAN, [APPROVED, STARTED], NOON)
        before = await everything(bench.there, run_id)
        assert len(before) == 2
        assert not await append_to(bench.here, run_id, APPROVED, STARTED)
        assert await everything(bench.here, run_id) == before

    @pytest.mark.parametrize("tampering", Tampering)
    async def test_the_database_itself_refuses_to_change_the_log_or_repeat_a_number_or_a_key(
        self, bench: EventLogBench, run_id: RunId, tampering: Tampering
    ) -> None:
        await append_to(bench.here, run_id, APPROVED)
        before = await everything(bench.here, run_id)
        if bench.cannot_refuse is not None:
            pytest.skip(bench.cannot_refuse)
        with pytest.raises((Refused, StoreError)):
            await bench.tamper(tampering, before[0])
        assert await everything(bench.here, run_id) == before
