"""The result closer: results of calls come in one by one, and are committed in groups.

A group closes after a few milliseconds or a few hundred results; several may be in flight. Results
are kept and retried while the store is unavailable; a refused one does not affect the others.
"""

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime

import structlog

from outrider.domain.errors import StoreError, StoreRefused, StoreUnavailable
from outrider.domain.ids import JobId
from outrider.domain.states import SUCCESSES
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import closing
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.limits.delivery import CLOSE_LOGGED_ITEMS
from outrider.ports.call_journal import CallJournal
from outrider.ports.stages import Stage, StageObserver

log = structlog.get_logger()


class _Queue:
    """Results that wait for their group, and the futures waiting for them."""

    def __init__(self, groups_in_parallel: int) -> None:
        self.pending: list[ClosedAttempt] = []
        self._taken = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Each with how many results had been handed over when it began to wait."""
        self.arrived = asyncio.Event()
        self.full = asyncio.Event()
        self.room = asyncio.Semaphore(groups_in_parallel)
        self.under_way: set[asyncio.Task[None]] = set()

    def wait(self, durable: asyncio.Future[None]) -> None:
        self._waiters.append((self._taken + len(self.pending), durable))
        self.arrived.set()
        # A waiter has no more results to add, so the group need not wait for others.
        self.full.set()

    def take(self, most: int) -> tuple[list[ClosedAttempt], list[asyncio.Future[None]]]:
        """A group, and who waits for nothing behind it: later results may never cease."""
        group, self.pending = self.pending[:most], self.pending[most:]
        self._taken += len(group)
        waiters = []
        while self._waiters and self._waiters[0][0] <= self._taken:
            waiters.append(self._waiters.popleft()[1])
        if not self.pending:
            self.arrived.clear()
            self.full.clear()
        return group, waiters


class ResultCloser:
    def __init__(
        self,
        foundation: Foundation,
        observer: StageObserver,
        journal: CallJournal,
        right_of_way: RightOfWay,
    ) -> None:
        self._store = foundation.store
        self._journal = journal
        self._ids = foundation.ids
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._observer = observer
        self._single = _Queue(foundation.limits.close_groups_in_parallel)
        self._of_campaigns = _Queue(foundation.limits.close_groups_in_parallel)
        self._right_of_way = right_of_way
        self._unrecorded: dict[JobId, StoreError] = {}
        """Jobs with a result that was given up, until they are notified."""

    def put(self, closed: ClosedAttempt, *, first: bool = False) -> None:
        """Hand over one result; `barrier` says when it is durable. `first` is for single messages:
        their lane is free again as soon as they are closed, whatever campaigns have to close."""
        queue = self._single if first else self._of_campaigns
        queue.pending.append(closed)
        if not queue.arrived.is_set():
            queue.arrived.set()
        if len(queue.pending) >= self._limits.close_group_items:
            queue.full.set()

    async def barrier(self, job_id: JobId | None = None, *, first: bool = False) -> None:
        """Wait until everything handed over so far is committed. StoreError: a result of that job
        could not be, in this group or an earlier one."""
        queue = self._single if first else self._of_campaigns
        durable = asyncio.get_running_loop().create_future()
        queue.wait(durable)
        try:
            await durable
        finally:
            failure = self._unrecorded.pop(job_id, None) if job_id is not None else None
        if failure is not None:
            raise failure

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        async with asyncio.TaskGroup() as endings:
            endings.create_task(self._close_all(self._single, endings))
            await self._close_all(self._of_campaigns, endings)

    async def _close_all(self, queue: "_Queue", endings: asyncio.TaskGroup) -> None:
        while True:
            await queue.arrived.wait()
            await self._fill_group(queue)
            await queue.room.acquire()
            group, waiters = queue.take(self._most_items(queue))
            earlier = frozenset(queue.under_way)
            task = endings.create_task(self._close(queue, group, waiters, earlier))
            queue.under_way.add(task)
            task.add_done_callback(queue.under_way.discard)

    def _most_items(self, queue: "_Queue") -> int:
        """Everything queued; or, alongside single messages, at most one campaign window."""
        if queue is not self._single and self._right_of_way.was_used_lately:
            return self._limits.beside_lanes_items
        return len(queue.pending)

    async def _close(
        self,
        queue: "_Queue",
        group: list[ClosedAttempt],
        waiters: list[asyncio.Future[None]],
        earlier: frozenset[asyncio.Task[None]],
    ) -> None:
        failure = None
        try:
            await self._commit(queue, group, self._clock.now())
        except StoreUnavailable as error:
            failure = error
            jobs = (closed.job_id for closed in group if closed.job_id is not None)
            self._unrecorded |= dict.fromkeys(jobs, error)
        finally:
            queue.room.release()
        if waiters and earlier:
            # Some of what they handed over may be in an earlier group.
            await asyncio.wait(earlier)
        _answer(waiters, failure)

    def _in_turn(self, queue: "_Queue") -> AbstractAsyncContextManager[None]:
        return nullcontext() if queue is self._single else self._right_of_way.behind()

    async def _fill_group(self, queue: "_Queue") -> None:
        try:
            async with asyncio.timeout(self._limits.close_group_seconds):
                await queue.full.wait()
        except TimeoutError:
            return

    async def _commit(self, queue: "_Queue", group: list[ClosedAttempt], began: datetime) -> None:
        while group:
            try:
                self._observer.before(Stage.CLOSE)
                async with self._in_turn(queue):
                    await self._store.write(closing.close(group, self._clock.now()))
                await self._note_late(group)
                self._journal.end([closed.id for closed in group])
                self._observer.after(Stage.CLOSE)
                return
            except StoreError as error:
                waited = (self._clock.now() - began).total_seconds()
                is_over = waited > self._limits.close_patience_seconds
                if is_over and isinstance(error, StoreUnavailable):
                    log.error("results_not_recorded", items=len(group), error=error.message)
                    _log_unscheduled(group, error)
                    raise
                if is_over or isinstance(error, StoreRefused):
                    await self._part(queue, group, error, began)
                    return
                log.warning("close_waits_for_store", items=len(group), error=error.message)
                await self._clock.sleep(self._limits.close_backoff_seconds)

    async def _part(
        self, queue: "_Queue", group: list[ClosedAttempt], error: StoreError, began: datetime
    ) -> None:
        """The store refuses something in this group every time: the others are committed without
        it. Its attempt stays open, and its job is notified."""
        if len(group) > 1:
            middle = len(group) // 2
            await self._commit(queue, group[:middle], began)
            await self._commit(queue, group[middle:], began)
            return
        (refused,) = group
        log.error("result_refused", outbox_id=refused.id, error=error.message)
        if refused.job_id is not None:
            self._unrecorded[refused.job_id] = error

    async def _note_late(self, group: list[ClosedAttempt]) -> None:
        """While the lease under which a call was opened is valid, no other worker can have judged
        the item. This process may have been frozen since, so this is checked after everything is
        written."""
        now = self._clock.now()
        late = [
            closed
            for closed in group
            if closed.call_by is not None
            and closed.call_by <= now
            and closed.verdict.status in SUCCESSES
        ]
        if late:
            await self._store.write(closing.note_late(late, self._ids, now))


def _log_unscheduled(group: list[ClosedAttempt], error: StoreUnavailable) -> None:
    """Their attempts stay open, and the next holder of their job continues from there."""
    retries = [closed.id for closed in group if closed.verdict.next_attempt_at is not None]
    if retries:
        log.error(
            "retry_scheduling_failed", items=len(retries), outbox_ids=retries[:CLOSE_LOGGED_ITEMS],
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
