"""A run's snapshot as a document, in the contract's own words, and back again without loss.

Unknown fields are ignored. A damaged document, or one of a later format, is Unreadable: the caller
folds the log again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from outrider.domain.contract_versions import (
    CONTRACT_VERSION,
    SNAPSHOT_FORMAT,
    SNAPSHOT_FORMATS_READ,
    UNVERSIONED,
    is_later,
    is_readable,
)
from outrider.domain.ids import RunId
from outrider.domain.projection import (
    RunSnapshot,
    SnapshotStatus,
    StepCounts,
    StepError,
    StepSnapshot,
    StepStatus,
)
from outrider.domain.states import JobOutcome
from outrider.domain.times import rfc3339

Document = dict[str, Any]

FORMAT = "snapshotFormat"


class Unreadable(ValueError):
    """A stored snapshot that this code cannot continue from."""

    def __init__(self, reason: str, *, later: bool = False) -> None:
        super().__init__(reason)
        self.later = later
        """Whether a later version wrote it, for which it is still valid."""


def snapshot_document(
    snapshot: RunSnapshot, written: Callable[[StepSnapshot], Any] | None = None
) -> Document:
    """As contract 002 prints it; unknown values are omitted.

    A caller that has already serialised the steps passes them.
    """
    document: Document = {
        "contractVersion": CONTRACT_VERSION,
        "runId": snapshot.run_id,
        "status": snapshot.status.value,
        "lastEventSeq": snapshot.last_event_seq,
        "steps": list(map(written or step_document, snapshot.steps.values())),
        "artifacts": [dict(each) for each in snapshot.artifacts],
        "failedSteps": snapshot.failed_steps,
    }
    optional = {
        "cancelRequested": snapshot.cancel_requested or None,
        "engineRunRef": snapshot.engine_run_ref,
        "rootCause": snapshot.root_cause,
        "startedAt": _time(snapshot.started_at),
        "completedAt": _time(snapshot.completed_at),
        "totalDurationMs": snapshot.total_duration_ms,
    }
    return document | {name: value for name, value in optional.items() if value is not None}


def stored_document(
    snapshot: RunSnapshot, written: Callable[[StepSnapshot], Any] | None = None
) -> Document:
    """The stored form: with the number of its format."""
    return {FORMAT: SNAPSHOT_FORMAT, **snapshot_document(snapshot, written)}


def step_document(step: StepSnapshot) -> Document:
    document: Document = {
        "stepId": step.step_id,
        "status": step.status.value,
        "logicalAttemptId": str(step.logical_attempt),
        "artifacts": [dict(each) for each in step.artifacts],
    }
    # Not one filtered dictionary: there are as many of these as a run has steps.
    if step.engine_attempt is not None:
        document["engineAttemptId"] = str(step.engine_attempt)
    if step.started_at is not None:
        document["startedAt"] = rfc3339(step.started_at)
    if step.completed_at is not None:
        document["completedAt"] = rfc3339(step.completed_at)
    if step.error is not None:
        document["error"] = step.error._asdict()
    if step.reason is not None:
        document["reason"] = step.reason
    if step.outcome is not None:
        document["outcome"] = step.outcome.value
    if step.counts is not None:
        document["counts"] = step.counts._asdict()
    return document


def snapshot_from_stored(document: Any) -> RunSnapshot:
    """The stored snapshot; raises Unreadable if it cannot be parsed."""
    if not isinstance(document, Mapping):
        raise Unreadable("it is no object")
    version = str(document.get("contractVersion", UNVERSIONED))
    number = document.get(FORMAT, 1)
    try:
        if number in SNAPSHOT_FORMATS_READ and is_readable(version):
            return snapshot_from(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unreadable(reason, later=is_later(version)) from error
    raise Unreadable(f"it has format {number} of contract {version}", later=True)


def snapshot_from(document: Mapping[str, Any]) -> RunSnapshot:
    """The snapshot of this document."""
    return RunSnapshot(
        run_id=RunId(document["runId"]),
        status=SnapshotStatus(document["status"]),
        last_event_seq=document["lastEventSeq"],
        steps=MappingProxyType({each["stepId"]: _step_from(each) for each in document["steps"]}),
        artifacts=_artifacts_from(document["artifacts"]),
        failed_steps=document["failedSteps"],
        cancel_requested=document.get("cancelRequested", False),
        engine_run_ref=document.get("engineRunRef"),
        root_cause=document.get("rootCause"),
        started_at=_time_from(document.get("startedAt")),
        completed_at=_time_from(document.get("completedAt")),
    )


def _step_from(document: Mapping[str, Any]) -> StepSnapshot:
    engine_attempt = document.get("engineAttemptId")
    error, counts, outcome = (document.get(name) for name in ("error", "counts", "outcome"))
    return StepSnapshot(
        step_id=document["stepId"],
        status=StepStatus(document["status"]),
        logical_attempt=int(document["logicalAttemptId"]),
        engine_attempt=None if engine_attempt is None else int(engine_attempt),
        started_at=_time_from(document.get("startedAt")),
        completed_at=_time_from(document.get("completedAt")),
        artifacts=_artifacts_from(document["artifacts"]),
        error=None if error is None else StepError(*map(error.__getitem__, StepError._fields)),
        reason=document.get("reason"),
        outcome=None if outcome is None else JobOutcome(outcome),
        counts=None if counts is None else StepCounts(*map(counts.__getitem__, StepCounts._fields)),
    )


def _artifacts_from(documents: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(MappingProxyType(dict(each)) for each in documents)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def _time_from(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
