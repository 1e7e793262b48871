"""The call journal port: which calls a worker has started, readable after the worker's death.

It only has to outlive its process: after a reboot it is worthless, and then every open call is in
doubt.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from outrider.domain.ids import Fence, JobId, OutboxId


class CallJournal(Protocol):
    def begin(self, outbox_id: OutboxId, job_id: JobId, fence: Fence) -> None:
        """Record before the first byte of the call is sent."""
        ...

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        """The outcomes of these calls are committed."""
        ...

    def forget(self, job_id: JobId, fence: Fence) -> None:
        """It is committed that the job is no longer held under this fence: the next holder judges
        any of its calls without a known outcome."""
        ...

    def begun(self) -> Sequence[OutboxId] | None:
        """The calls that have started and not ended; None if that cannot be known."""
        ...

    def close(self) -> None:
        """This worker is shutting down cleanly, with no calls in progress."""
        ...


class CallJournals(Protocol):
    def begun_by(self, worker_id: str) -> Sequence[OutboxId] | None:
        """The calls that a dead worker had started and not ended; None if that cannot be known."""
        ...

    def forget(self, worker_id: str) -> None: ...
