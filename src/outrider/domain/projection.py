"""What a run looked like: its events folded, in the order of their sequence, into a snapshot.

Events go in, a new snapshot comes out; nothing is ever changed in place. Folding the same events
again, or some of them twice, gives the same snapshot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from outrider.domain.ids import RunId
from outrider.domain.run_events import FIRST_LOGICAL_ATTEMPT, RunEvent, RunEventType
from outrider.domain.runs import run_status
from outrider.domain.states import JobOutcome, PhaseState, RunStatus

CANCEL_SIGNAL = "CANCEL"


class SnapshotStatus(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class StepStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


ENDED = frozenset({SnapshotStatus.COMPLETED, SnapshotStatus.FAILED, SnapshotStatus.CANCELLED})
ENDED_STEPS = frozenset({StepStatus.SUCCESS, StepStatus.FAILED, StepStatus.SKIPPED})


class StepError(NamedTuple):
    code: str
    message: str
    retryable: bool


class StepCounts(NamedTuple):
    """How the step's items ended."""

    sent: int
    failed: int
    skipped: int


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """A step as its current logical attempt left it; earlier attempts are in the log."""

    step_id: str
    status: StepStatus
    logical_attempt: int = FIRST_LOGICAL_ATTEMPT
    engine_attempt: int | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: tuple[Mapping[str, Any], ...] = ()
    error: StepError | None = None
    reason: str | None = None
    outcome: JobOutcome | None = None
    counts: StepCounts | None = None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """`last_event_seq` is the highest sequence that was applied: the watermark."""

    run_id: RunId
    status: SnapshotStatus = SnapshotStatus.PENDING
    last_event_seq: int = 0
    steps: MappingProxyType[str, StepSnapshot] = field(default_factory=lambda: MappingProxyType({}))
    artifacts: tuple[Mapping[str, Any], ...] = ()
    failed_steps: int = 0
    cancel_requested: bool = False
    engine_run_ref: str | None = None
    root_cause: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def total_duration_ms(self) -> int | None:
        if self.started_at is None or self.completed_at is None:
            return None
        return round((self.completed_at - self.started_at).total_seconds() * 1000)


def project_run(run_id: RunId, events: Iterable[RunEvent]) -> RunSnapshot:
    """The snapshot after all of these events, from nothing."""
    return incremental_project(RunSnapshot(run_id), events)


def incremental_project(snapshot: RunSnapshot, new_events: Iterable[RunEvent]) -> RunSnapshot:
    """A new snapshot with these events applied; those at or below the watermark are already in it.

    Events must come in strictly increasing sequence; others are refused, not reordered. A repeated
    event changes nothing.
    """
    fold = _Fold(snapshot)
    previous = 0
    seen: set[int] = set()
    for event in new_events:
        if event.run_id != snapshot.run_id:
            raise ValueError(f"event {event.run_seq} is of run {event.run_id}")
        if event.run_seq in seen:
            continue
        if event.run_seq <= previous:
            raise ValueError(f"event {event.run_seq} comes after {previous}")
        previous = event.run_seq
        seen.add(previous)
        if previous > snapshot.last_event_seq:
            fold.apply(event)
    if previous <= snapshot.last_event_seq:
        return snapshot
    return replace(
        fold.run,
        last_event_seq=previous,
        steps=MappingProxyType(fold.steps),
        failed_steps=fold.failed_steps,
    )


def detect_non_contiguous(last_seq: int, next_seq: int) -> bool:
    """Whether events may be missing between the two. It is a sign of lag, not of loss."""
    return next_seq > last_seq + 1


class Hole(NamedTuple):
    """Two consecutively fetched sequences that are not adjacent."""

    last_seq: int
    next_seq: int


def first_hole(last_seq: int, events: Iterable[RunEvent]) -> Hole | None:
    """The first gap in these events, fetched after that sequence."""
    for event in events:
        if detect_non_contiguous(last_seq, event.run_seq):
            return Hole(last_seq, event.run_seq)
        last_seq = event.run_seq
    return None


def row_status(snapshot: RunSnapshot) -> RunStatus:
    """The status of the run's row for this state of the log. An unstarted run is queued."""
    match snapshot.status:
        case SnapshotStatus.PENDING | SnapshotStatus.APPROVED:
            return RunStatus.QUEUED
        case SnapshotStatus.RUNNING | SnapshotStatus.PAUSED:
            return RunStatus.QUEUED if snapshot.started_at is None else RunStatus.RUNNING
        case SnapshotStatus.COMPLETED:
            ended = run_status(_outcomes(snapshot))
            return RunStatus.PARTIAL if ended is RunStatus.FAILED else ended
        case SnapshotStatus.CANCELLED:
            return run_status(_outcomes(snapshot))
        case SnapshotStatus.FAILED:
            return RunStatus.FAILED
        case _:
            assert_never(snapshot.status)


def phase_state(snapshot: RunSnapshot) -> PhaseState:
    """The state of the phase whose current run this is. Cancelling fails it before the run ends."""
    match snapshot.status:
        case SnapshotStatus.COMPLETED:
            return PhaseState.COMPLETED
        case SnapshotStatus.FAILED | SnapshotStatus.CANCELLED:
            return PhaseState.FAILED
        case SnapshotStatus.PAUSED if not snapshot.cancel_requested:
            return PhaseState.PAUSED
        case _:
            return PhaseState.FAILED if snapshot.cancel_requested else PhaseState.IN_PROGRESS


def _outcomes(snapshot: RunSnapshot) -> set[JobOutcome]:
    return {step.outcome for step in snapshot.steps.values() if step.outcome is not None}


_KINDS = {kind.value: kind for kind in RunEventType}

_STEP_STATUS = {
    RunEventType.STEP_STARTED: StepStatus.RUNNING,
    RunEventType.STEP_COMPLETED: StepStatus.SUCCESS,
    RunEventType.STEP_FAILED: StepStatus.FAILED,
    RunEventType.STEP_SKIPPED: StepStatus.SKIPPED,
}

_OUTCOMES = {outcome.value: outcome for outcome in JobOutcome}

_OUTCOME_UNTOLD = {
    RunEventType.STEP_COMPLETED: JobOutcome.COMPLETED,
    RunEventType.STEP_FAILED: JobOutcome.FAILED,
}


class _Fold:
    """A mutable snapshot: the run's own fields, and a copy of its steps."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        self.run = snapshot
        self.steps = snapshot.steps.copy()
        self.failed_steps = snapshot.failed_steps

    def apply(self, event: RunEvent) -> None:
        kind = _KINDS.get(event.type)
        if kind is None:
            # From a later version: the watermark moves past it, the state does not change.
            return
        if kind not in _STEP_STATUS:
            self._apply_to_run(kind, event)
        elif event.step_id is not None:
            known = self.steps.get(event.step_id)
            changed = _step_after(known, kind, event.step_id, event)
            if known is not None:
                self.failed_steps -= known.status is StepStatus.FAILED
            self.failed_steps += changed.status is StepStatus.FAILED
            self.steps[event.step_id] = changed

    def _apply_to_run(self, kind: RunEventType, event: RunEvent) -> None:
        if self.run.status in ENDED:
            return
        match kind:
            case RunEventType.RUN_APPROVED:
                self.run = replace(self.run, status=SnapshotStatus.APPROVED)
            case RunEventType.RUN_STARTED:
                self.run = replace(
                    self.run,
                    status=SnapshotStatus.RUNNING,
                    started_at=self.run.started_at or event.occurred_at,
                    engine_run_ref=_text(event.payload.get("engineRunRef")),
                )
            case RunEventType.RUN_PAUSED:
                self.run = replace(self.run, status=SnapshotStatus.PAUSED)
            case RunEventType.RUN_RESUMED:
                self.run = replace(self.run, status=SnapshotStatus.RUNNING)
            case RunEventType.RUN_COMPLETED:
                self._end(SnapshotStatus.COMPLETED, event)
                artifacts = (each for step in self.steps.values() for each in step.artifacts)
                self.run = replace(self.run, artifacts=tuple(artifacts))
            case RunEventType.RUN_FAILED:
                self._end(SnapshotStatus.FAILED, event)
                self.run = replace(self.run, root_cause=_text(event.payload.get("rootCause")))
            case RunEventType.RUN_CANCELLED:
                self._end(SnapshotStatus.CANCELLED, event)
            case RunEventType.SIGNAL_ACCEPTED:
                # A recorded decision: its consequences have their own events.
                if event.payload.get("signal") == CANCEL_SIGNAL:
                    self.run = replace(self.run, cancel_requested=True)
            case _:
                return

    def _end(self, status: SnapshotStatus, event: RunEvent) -> None:
        self.run = replace(self.run, status=status, completed_at=event.occurred_at)


def _step_after(
    known: StepSnapshot | None, kind: RunEventType, step_id: str, event: RunEvent
) -> StepSnapshot:
    """The step after one more event. A later logical attempt restarts it."""
    attempt, status = event.logical_attempt, _STEP_STATUS[kind]
    engine_attempt, started_at = event.engine_attempt, None
    if known is not None:
        if attempt < known.logical_attempt:
            return known
        if attempt == known.logical_attempt:
            started_at = known.started_at
            if kind is RunEventType.STEP_STARTED and known.status in ENDED_STEPS:
                # It was spooled while the store was slow, and arrives after the end.
                return replace(known, started_at=started_at or event.occurred_at)
            if engine_attempt is None:
                engine_attempt = known.engine_attempt
    if kind is RunEventType.STEP_STARTED:
        return StepSnapshot(
            step_id, status, attempt, engine_attempt, started_at or event.occurred_at
        )
    payload = event.payload
    return StepSnapshot(
        step_id,
        status,
        attempt,
        engine_attempt,
        started_at,
        event.occurred_at,
        _artifacts(payload.get("artifacts")),
        _error(payload.get("error")) if kind is RunEventType.STEP_FAILED else None,
        _text(payload.get("reason")),
        _OUTCOMES.get(str(payload.get("outcome")), _OUTCOME_UNTOLD.get(kind)),
        _counts(payload),
    )


def _text(given: object) -> str | None:
    return None if given is None else str(given)


def _artifacts(given: object) -> tuple[Mapping[str, Any], ...]:
    if not given or not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return tuple(MappingProxyType(dict(each)) for each in given if isinstance(each, Mapping))


def _error(given: object) -> StepError:
    found = given if isinstance(given, Mapping) else {}
    return StepError(
        str(found.get("code", "unknown")),
        str(found.get("message", "")),
        bool(found.get("retryable", False)),
    )


def _counts(payload: Mapping[str, object]) -> StepCounts | None:
    sent, failed, skipped = payload.get("sent"), payload.get("failed"), payload.get("skipped")
    if isinstance(sent, int) and isinstance(failed, int) and isinstance(skipped, int):
        return StepCounts(sent, failed, skipped)
    return None
