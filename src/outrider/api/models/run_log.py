"""A run's log on the wire: its events, and the snapshot that follows from them."""

from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.common import Answer, Page
from outrider.domain.projection import SnapshotStatus, StepStatus
from outrider.domain.run_events import RunEvent
from outrider.domain.states import JobOutcome


class RunEventLine(Answer):
    contract_version: str = Field(description="The contract version it was written under.")
    run_id: str
    run_seq: int = Field(description="Increases within the run; there may be gaps.")
    event_type: str = Field(description="Clients must tolerate unknown types.")
    emitted_by: str
    step_id: str | None
    logical_attempt_id: str = Field(description="Increases when a job is retried on purpose.")
    engine_attempt_id: str | None = Field(description="Increases when a worker is lost.")
    plan_version: str
    idempotency_key: str
    occurred_at: datetime
    payload: dict[str, Any]

    @classmethod
    def of(cls, event: RunEvent) -> "RunEventLine":
        engine_attempt = event.engine_attempt
        return cls(
            contract_version=event.contract_version,
            run_id=event.run_id,
            run_seq=event.run_seq,
            event_type=event.type,
            emitted_by=event.emitter,
            step_id=event.step_id,
            logical_attempt_id=str(event.logical_attempt),
            engine_attempt_id=None if engine_attempt is None else str(engine_attempt),
            plan_version=event.plan_version,
            idempotency_key=event.idempotency_key,
            occurred_at=event.occurred_at,
            payload=dict(event.payload),
        )


def events_page(events: list[RunEvent], limit: int) -> Page[RunEventLine]:
    """The cursor is a sequence here, not opaque."""
    return Page(
        items=[RunEventLine.of(event) for event in events],
        next=str(events[-1].run_seq) if len(events) == limit else None,
    )


class StepErrorAnswer(Answer):
    code: str
    message: str
    retryable: bool


class StepCountsAnswer(Answer):
    sent: int
    failed: int
    skipped: int


class StepSnapshotAnswer(Answer):
    step_id: str
    status: StepStatus
    logical_attempt_id: str
    engine_attempt_id: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: list[dict[str, Any]]
    error: StepErrorAnswer | None = None
    reason: str | None = None
    outcome: JobOutcome | None = None
    counts: StepCountsAnswer | None = None


class RunSnapshotAnswer(Answer):
    """Unknown values are omitted."""

    contract_version: str
    run_id: str
    status: SnapshotStatus
    last_event_seq: int = Field(
        description="The last event included in this snapshot: the watermark."
    )
    steps: list[StepSnapshotAnswer]
    artifacts: list[dict[str, Any]]
    failed_steps: int
    cancel_requested: bool | None = None
    engine_run_ref: str | None = None
    root_cause: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_duration_ms: int | None = None
