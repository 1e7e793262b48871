"""The result closer: ends of calls come in one by one, and are committed in groups.

A group closes after a few milliseconds or a few hundred results, whichever comes first, and a few
groups may be on their way at once. What a provider said is truth: while the store is away or fails,
results are kept and tried again. One that the store refuses costs no other.
"""

import asyncio
from datetime import datetime

import structlog

from outrider.domain.errors import StoreError, StoreRefused, StoreUnavailable
from outrider.domain.ids import JobId
from outrider.domain.states import SUCCESSES
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import ledger
from outrider.kernel.transactions.ledger import ClosedAttempt
from outrider.ports.call_journal import CallJournal
from outrider.ports.stages import Stage, StageObserver

log = structlog.get_logger()

TOLD_ITEMS = 10


class ResultCloser:
    def __init__(
        self, foundation: Foundation, observer: StageObserver, journal: CallJournal
    ) -> None:
        self._store = foundation.store
        self._journal = journal
        self._ids = foundation.ids
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._observer = observer
        self._pending: list[ClosedAttempt] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._arrived = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Semaphore(foundation.limits.close_groups_in_parallel)
        self._under_way: set[asyncio.Task[None]] = set()
        self._unrecorded: dict[JobId, StoreError] = {}
        """Jobs of which a result was given up, until they hear of it."""

    def put(self, closed: ClosedAttempt) -> None:
        """Hand over one result; `barrier` says when it is durable."""
        self._pending.append(closed)
        if not self._arrived.is_set():
            self._arrived.set()
        if len(self._pending) >= self._limits.close_group_items:
            self._full.set()

    async def barrier(self, job_id: JobId | None = None) -> None:
        """Wait until everything handed over so far is committed. StoreError: a result of that job
        could not be, in this group or in one that left before."""
        durable = asyncio.get_running_loop().create_future()
        self._waiters.append(durable)
        self._arrived.set()
        # Whoever waits has no more results to add, so the group need not wait for company.
        self._full.set()
        try:
            await durable
        finally:
            failure = self._unrecorded.pop(job_id, None) if job_id is not None else None
        if failure is not None:
            raise failure

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        async with asyncio.TaskGroup() as closing:
            while True:
                await self._arrived.wait()
                await self._company()
                await self._room.acquire()
                group, self._pending = self._pending, []
                waiters, self._waiters = self._waiters, []
                self._arrived.clear()
                self._full.clear()
                earlier = frozenset(self._under_way)
                task = closing.create_task(self._close(group, waiters, earlier))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _close(
        self,
        group: list[ClosedAttempt],
        waiters: list[asyncio.Future[None]],
        earlier: frozenset[asyncio.Task[None]],
    ) -> None:
        failure = None
        try:
            await self._commit(group, self._clock.now())
        except StoreUnavailable as error:
            failure = error
            jobs = (closed.job_id for closed in group if closed.job_id is not None)
            self._unrecorded |= dict.fromkeys(jobs, error)
        finally:
            self._room.release()
        if waiters and earlier:
            # Some of what they handed over may be in a group that left before.
            await asyncio.wait(earlier)
        _answer(waiters, failure)

    async def _company(self) -> None:
        try:
            async with asyncio.timeout(self._limits.close_group_seconds):
                await self._full.wait()
        except TimeoutError:
            return

    async def _commit(self, group: list[ClosedAttempt], began: datetime) -> None:
        while group:
            try:
                self._observer.before(Stage.CLOSE)
                await self._store.write(ledger.close(group, self._clock.now()))
                await self._note_late(group)
                self._journal.end([closed.id for closed in group])
                self._observer.after(Stage.CLOSE)
                return
            except StoreError as error:
                waited = (self._clock.now() - began).total_seconds()
                is_over = waited > self._limits.close_patience_seconds
                if is_over and isinstance(error, StoreUnavailable):
                    log.error("results_not_recorded", items=len(group), error=error.message)
                    _tell_unscheduled(group, error)
                    raise
                if is_over or isinstance(error, StoreRefused):
                    await self._part(group, error, began)
                    return
                log.warning("close_waits_for_store", items=len(group), error=error.message)
                await self._clock.sleep(self._limits.close_backoff_seconds)

    async def _part(self, group: list[ClosedAttempt], error: StoreError, began: datetime) -> None:
        """The store will not take something of this group, however often it is asked: the others
        are committed without it. Its attempt stays open, and its job hears of it."""
        if len(group) > 1:
            middle = len(group) // 2
            await self._commit(group[:middle], began)
            await self._commit(group[middle:], began)
            return
        (refused,) = group
        log.error("result_refused", outbox_id=refused.id, error=error.message)
        if refused.job_id is not None:
            self._unrecorded[refused.job_id] = error

    async def _note_late(self, group: list[ClosedAttempt]) -> None:
        """While the lease stands under which a call was opened, nobody can have judged it. This
        process may have been frozen since, so it is asked when all is written."""
        now = self._clock.now()
        late = [
            closed
            for closed in group
            if closed.call_by is not None
            and closed.call_by <= now
            and closed.verdict.status in SUCCESSES
        ]
        if late:
            await self._store.write(ledger.note_late(late, self._ids, now))


def _tell_unscheduled(group: list[ClosedAttempt], error: StoreUnavailable) -> None:
    """Their attempts stay open, and whoever takes their job next goes on from there."""
    retries = [closed.id for closed in group if closed.verdict.next_attempt_at is not None]
    if retries:
        log.error(
            "retry_scheduling_failed", items=len(retries), outbox_ids=retries[:TOLD_ITEMS],
            error=error.message,
        )  # fmt: skip


def _answer(waiters: list[asyncio.Future[None]], failure: StoreUnavailable | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)
