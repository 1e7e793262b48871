"""Who works at the database, on the wire."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.kernel.transactions.workers import HeldWork, SeenWorker


class HeldJobsAnswer(Answer):
    run_id: str | None = Field(description="Null for single messages.")
    submission_target: str
    jobs: int
    since: datetime
    lease_ends_at: datetime | None = Field(
        description="When others take them over, unless the worker reports first."
    )


class WorkerAnswer(Answer):
    """A server or worker that wrote its row lately, or still holds jobs."""

    worker_id: str
    role: str = Field(description="`worker` processes jobs; `server` only serves the API.")
    host: str
    pid: int
    version: str
    engine: str
    targets: list[str] | None = Field(description="What it is limited to; null: everything.")
    mode: str | None
    started_at: datetime
    seen_at: datetime
    is_alive: bool = Field(description="False if it has been silent for a while.")
    holds: list[HeldJobsAnswer]

    @classmethod
    def of(cls, worker: SeenWorker, held: Sequence[HeldWork], since: datetime) -> "WorkerAnswer":
        card = worker.card
        return cls(
            worker_id=card.id,
            role=card.role,
            host=card.host,
            pid=card.pid,
            version=card.version,
            engine=card.engine,
            targets=list(card.targets) if card.targets is not None else None,
            mode=card.mode,
            started_at=worker.started_at,
            seen_at=worker.seen_at,
            is_alive=worker.seen_at >= since,
            holds=[
                HeldJobsAnswer(
                    run_id=each.run_id,
                    submission_target=each.submission_target,
                    jobs=each.jobs,
                    since=each.since,
                    lease_ends_at=each.lease_ends_at,
                )
                for each in held
                if each.worker_id == card.id
            ],
        )
