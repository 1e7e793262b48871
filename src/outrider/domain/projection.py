"""What a run looked like: its events folded, in the order of their sequence, into a snapshot.

Events go in, a new snapshot comes out; nothing is ever changed in place. Folding the same events
again, or some of them twice, gives the same snapshot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from outrider.domain.ids import RunId
from outrider.domain.run_events import FIRST_LOGICAL_ATTEMPT, RunEvent, RunEventType
from outrider.domain.times import rfc3339


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


@dataclass(frozen=True, slots=True)
class StepError:
    code: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    step_id: str
    status: StepStatus
    logical_attempt: int = FIRST_LOGICAL_ATTEMPT
    engine_attempt: int | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: tuple[Mapping[str, Any], ...] = ()
    error: StepError | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """`last_event_seq` is the highest sequence that was applied: the watermark."""

    run_id: RunId
    status: SnapshotStatus = SnapshotStatus.PENDING
    last_event_seq: int = 0
    steps: Mapping[str, StepSnapshot] = field(default_factory=lambda: MappingProxyType({}))
    artifacts: tuple[Mapping[str, Any], ...] = ()
    failed_steps: int = 0
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
    """A new snapshot with these events applied; those at or below the watermark are in it already.

    They come in strictly increasing order of their sequence: what comes otherwise is not ours to
    reorder, and is refused.
    """
    steps = dict(snapshot.steps)
    state = _Fold(snapshot)
    last = snapshot.last_event_seq
    previous = 0
    for event in new_events:
        if event.run_seq <= previous:
            raise ValueError(f"event {event.run_seq} comes after {previous}")
        previous = event.run_seq
        if event.run_seq <= last:
            continue
        state.apply(event, steps)
        last = event.run_seq
    if last == snapshot.last_event_seq:
        return snapshot
    failed = sum(step.status is StepStatus.FAILED for step in steps.values())
    return replace(
        state.run,
        last_event_seq=last,
        steps=MappingProxyType(steps),
        failed_steps=failed,
    )


def detect_non_contiguous(last_seq: int, next_seq: int) -> bool:
    """Whether something may lie between the two. It is no sign of loss, only of lag."""
    return next_seq > last_seq + 1


class _Fold:
    """The run's own fields while events are applied; steps are kept beside it."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        self.run = snapshot

    def apply(self, event: RunEvent, steps: dict[str, StepSnapshot]) -> None:
        try:
            kind = RunEventType(event.type)
        except ValueError:
            # From a later version: the watermark moves past it, the state does not.
            return
        if event.step_id is not None:
            _apply_to_step(kind, event, steps)
            return
        self._apply_to_run(kind, event, steps)

    def _apply_to_run(
        self, kind: RunEventType, event: RunEvent, steps: Mapping[str, StepSnapshot]
    ) -> None:
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
                artifacts = tuple(each for step in steps.values() for each in step.artifacts)
                self._end(SnapshotStatus.COMPLETED, event)
                self.run = replace(self.run, artifacts=artifacts)
            case RunEventType.RUN_FAILED:
                self._end(SnapshotStatus.FAILED, event)
                self.run = replace(self.run, root_cause=_text(event.payload.get("rootCause")))
            case RunEventType.RUN_CANCELLED:
                self._end(SnapshotStatus.CANCELLED, event)
            case _:
                # Signals are decisions on record; what they lead to has events of its own.
                return

    def _end(self, status: SnapshotStatus, event: RunEvent) -> None:
        self.run = replace(self.run, status=status, completed_at=event.occurred_at)


def _apply_to_step(kind: RunEventType, event: RunEvent, steps: dict[str, StepSnapshot]) -> None:
    step_id = event.step_id or ""
    known = replace(
        steps.get(step_id) or StepSnapshot(step_id, StepStatus.PENDING),
        logical_attempt=event.logical_attempt,
        engine_attempt=event.engine_attempt,
    )
    match kind:
        case RunEventType.STEP_STARTED:
            steps[step_id] = StepSnapshot(
                step_id,
                StepStatus.RUNNING,
                event.logical_attempt,
                event.engine_attempt,
                started_at=event.occurred_at,
            )
        case RunEventType.STEP_COMPLETED:
            steps[step_id] = replace(
                known,
                status=StepStatus.SUCCESS,
                completed_at=event.occurred_at,
                artifacts=_artifacts(event.payload.get("artifacts")),
                error=None,
            )
        case RunEventType.STEP_FAILED:
            steps[step_id] = replace(
                known,
                status=StepStatus.FAILED,
                completed_at=event.occurred_at,
                error=_error(event.payload.get("error")),
            )
        case RunEventType.STEP_SKIPPED:
            steps[step_id] = replace(
                known,
                status=StepStatus.SKIPPED,
                completed_at=event.occurred_at,
                reason=_text(event.payload.get("reason")),
            )
        case _:
            return


def _text(given: object) -> str | None:
    return None if given is None else str(given)


def _artifacts(given: object) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return tuple(MappingProxyType(dict(each)) for each in given if isinstance(each, Mapping))


def _error(given: object) -> StepError:
    found = given if isinstance(given, Mapping) else {}
    return StepError(
        str(found.get("code", "unknown")),
        str(found.get("message", "")),
        bool(found.get("retryable", False)),
    )


def snapshot_document(snapshot: RunSnapshot) -> dict[str, object]:
    """As contract 002 prints it; what is not known is left out."""
    document: dict[str, object] = {
        "runId": snapshot.run_id,
        "status": snapshot.status.value,
        "lastEventSeq": snapshot.last_event_seq,
        "steps": [_step_document(step) for step in snapshot.steps.values()],
        "artifacts": [dict(each) for each in snapshot.artifacts],
        "failedSteps": snapshot.failed_steps,
    }
    optional = {
        "engineRunRef": snapshot.engine_run_ref,
        "rootCause": snapshot.root_cause,
        "startedAt": snapshot.started_at and rfc3339(snapshot.started_at),
        "completedAt": snapshot.completed_at and rfc3339(snapshot.completed_at),
        "totalDurationMs": snapshot.total_duration_ms,
    }
    return document | {name: value for name, value in optional.items() if value is not None}


def _step_document(step: StepSnapshot) -> dict[str, object]:
    document: dict[str, object] = {
        "stepId": step.step_id,
        "status": step.status.value,
        "logicalAttemptId": str(step.logical_attempt),
        "artifacts": [dict(each) for each in step.artifacts],
    }
    optional = {
        "engineAttemptId": None if step.engine_attempt is None else str(step.engine_attempt),
        "startedAt": step.started_at and rfc3339(step.started_at),
        "completedAt": step.completed_at and rfc3339(step.completed_at),
        "reason": step.reason,
        "error": step.error
        and {
            "code": step.error.code,
            "message": step.error.message,
            "retryable": step.error.retryable,
        },
    }
    return document | {name: value for name, value in optional.items() if value is not None}
