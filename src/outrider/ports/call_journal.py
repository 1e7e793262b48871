"""The call journal port: which calls a worker has begun, as whoever comes after its death reads it.

It must outlive its process, and nothing more: after a restart of the machine it is worth nothing,
and then every call that was open is in doubt.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from outrider.domain.ids import Fence, JobId, OutboxId


class CallJournal(Protocol):
    def begin(self, outbox_id: OutboxId, job_id: JobId, fence: Fence) -> None:
        """Noted before the first byte of the call leaves."""
        ...

    def end(self, outbox_ids: Iterable[OutboxId]) -> None:
        """How their calls ended is committed."""
        ...

    def let_go(self, job_id: JobId, fence: Fence) -> None:
        """It is committed that the job is not held under this fence any more: what was called of
        it, and nobody has heard the end of, is for the next holder to judge."""
        ...

    def begun(self) -> Sequence[OutboxId] | None:
        """The calls that are begun and not ended; None where nobody can know."""
        ...

    def close(self) -> None:
        """This worker ends in good order, and has nothing out."""
        ...


class CallJournals(Protocol):
    def begun_by(self, worker_id: str) -> Sequence[OutboxId] | None:
        """The calls that a dead worker had begun and not ended; None where nobody can know."""
        ...

    def forget(self, worker_id: str) -> None: ...
