"""The blocker finder: says why runs, lanes and events are not moving.

It is the only place that does. Pages, `run explain`, alerts, log and metrics all show its answer.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.blocker_facts import (
    Blocker,
    BlockerCode,
    Doubts,
    HeldByPolicy,
    JobsAtTarget,
    MessageFacts,
    PausedTarget,
    RunFacts,
    SilentHolders,
    Surroundings,
)
from outrider.domain.blocker_words import doubt_of_message
from outrider.domain.blockers import event_blockers, message_blockers, run_blockers
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, JobId, RunId, Scope
from outrider.domain.rollouts import StepProgress
from outrider.domain.states import ItemStatus, PhaseState
from outrider.domain.submission import Contract
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import blockers, workers
from outrider.kernel.transactions.blockers import DoubtOfItem, JudgedRun, TargetsNow, WaitingJobs
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.workers import SeenWorker


class JudgedBlockers(NamedTuple):
    """A run and its blockers; none while it moves."""

    run: JudgedRun
    blockers: list[Blocker]
    jobs: Sequence[WaitingJobs] = ()
    at_targets: Sequence[JobsAtTarget] = ()


class _Conditions(NamedTuple):
    """What all runs of one look share."""

    now: datetime
    targets: TargetsNow
    live: Sequence[SeenWorker]
    around: Surroundings


class BlockerFinder:
    def __init__(
        self,
        foundation: Foundation,
        contracts_in_force: Callable[[], Mapping[str, Contract]],
        engine_down_since: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._contracts_in_force = contracts_in_force
        self._contracts = ContractCache(foundation.store)
        self._engine_down_since = engine_down_since

    async def of_run(self, run_id: RunId) -> list[Blocker]:
        return (await self.of_runs([run_id])).get(run_id, [])

    async def of_runs(self, run_ids: Collection[RunId]) -> dict[RunId, list[Blocker]]:
        return {each.run.id: each.blockers for each in await self.judge(run_ids)}

    async def judge(self, run_ids: Collection[RunId]) -> list[JudgedBlockers]:
        """A few statements, however many runs there are. Read after the caller's own query, so that
        what has ended since is not reported as waiting."""
        if not run_ids:
            return []
        now = self._clock.now()
        facts = await self._store.read(blockers.runs(list(run_ids), now, self._silent_before(now)))
        if all(run.is_finished for run in facts.runs):
            return [JudgedBlockers(run, []) for run in facts.runs]
        conditions = await self._conditions(now)
        return [
            await self._judged(
                run,
                facts.jobs.get(run.id, []),
                facts.doubts.get(run.id),
                facts.held.get(run.id, []),
                facts.rollouts.get(run.id, []),
                facts.without_winner.get(run.id, []),
                conditions,
            )
            for run in facts.runs
        ]

    async def blocked_runs(self) -> Counter[BlockerCode]:
        """How many runs each blocker keeps from moving, for a scrape: of the first `metric_runs`
        that have not ended. A run that waits for two things counts for both."""
        found: Counter[BlockerCode] = Counter()
        after, judged, most = FIRST, 0, self._limits.watcher_subjects
        while judged < self._limits.metric_runs:
            page = await self._store.read(blockers.open_runs(after, most))
            for each in await self.judge(page):
                found.update({blocker.code for blocker in each.blockers})
            judged += len(page)
            if len(page) < most:
                break
            after = page[-1]
        return found

    async def of_items(self, scope: Scope, items: Sequence[Item]) -> list[Blocker]:
        """What those wait for that have not ended, each cause once: their run or their lane."""
        waiting = [item for item in items if item.status == ItemStatus.QUEUED]
        found = await self._of_run_items([item for item in waiting if item.run_id is not None])
        found += await self._of_messages(scope, [item for item in waiting if item.run_id is None])
        return list({(each.code, each.submission_target): each for each in found}.values())

    async def _of_run_items(self, items: Sequence[Item]) -> list[Blocker]:
        targets = {item.submission_target for item in items}
        facts = await self._facts([item for item in items if item.doubted_at is not None])
        by_run = await self.of_runs({RunId(item.run_id) for item in items if item.run_id})
        return [
            *(doubt_of_message(each, each.doubted_at) for each in facts if each.doubted_at),
            *(
                each
                for found in by_run.values()
                for each in found
                if each.submission_target is None or each.submission_target in targets
            ),
        ]

    async def _of_messages(self, scope: Scope, items: Sequence[Item]) -> list[Blocker]:
        if not items:
            return []
        now = self._clock.now()
        lane_ids = list({JobId(item.job_id): None for item in items if item.job_id is not None})
        waiting = await self._store.read(blockers.lanes(lane_ids, now, self._silent_before(now)))
        conditions = await self._conditions(now)
        lanes = {
            lane_id: await self._at_target(scope, each, conditions)
            for lane_id, each in waiting.items()
        }
        return [
            blocker
            for item, facts in zip(items, await self._facts(items), strict=True)
            for blocker in message_blockers(
                facts, lanes.get(item.job_id or ""), conditions.around, now
            )
        ]

    async def _facts(self, items: Sequence[Item]) -> list[MessageFacts]:
        doubted = [item.id for item in items if item.doubted_at is not None]
        doubts = await self._store.read(blockers.doubts_of(doubted)) if doubted else {}
        return [_message(item, doubts.get(item.id)) for item in items]

    async def of_event(self, due_at: datetime) -> list[Blocker]:
        """Of a domain event that waits to be routed."""
        now = self._clock.now()
        live = await self._live(now)
        seen_at = None if live else await self._store.read(workers.seen_last())
        return event_blockers(due_at, len(live), seen_at, now)

    async def _judged(
        self,
        run: JudgedRun,
        waiting: Sequence[WaitingJobs],
        doubts: Doubts | None,
        held: Sequence[HeldByPolicy],
        rollout: Sequence[StepProgress],
        without_winner: Sequence[str],
        conditions: _Conditions,
    ) -> JudgedBlockers:
        jobs = [await self._at_target(run.scope, each, conditions) for each in waiting]
        facts = RunFacts(
            run.id,
            run.is_finished,
            run.waits_for,
            run.created_at,
            run.scheduled_for,
            run.state_since if run.state == PhaseState.PAUSED else None,
            run.phase,
            run.campaign_id,
            jobs,
            doubts,
            held,
            rollout,
            without_winner,
        )
        found = run_blockers(facts, conditions.around, conditions.now)
        return JudgedBlockers(run, found, waiting, jobs)

    async def _at_target(
        self, scope: Scope, waiting: WaitingJobs, conditions: _Conditions
    ) -> JobsAtTarget:
        target, url = waiting.submission_target, None
        is_elsewhere, registry_url, shown = False, None, scope == DEFAULT_SCOPE
        if waiting.contract_id is not None:
            url = (await self._contracts.by_id(waiting.contract_id)).gateway_url
            present = self._in_force().get(target)
            is_elsewhere = present is not None and present.gateway_url != url
            registry_url = present.gateway_url if present is not None and is_elsewhere else None
        else:
            present = self._in_force().get(target)
            url = present.gateway_url if present is not None else None
        paused = conditions.targets.paused.get(target)
        return JobsAtTarget(
            target,
            url if shown else None,
            waiting.held,
            waiting.due,
            waiting.due_at,
            waiting.next_at,
            waiting.parked,
            _silent(waiting),
            conditions.targets.door(target, url, str(scope.workspace_id))
            if url is not None
            else None,
            PausedTarget(*paused) if paused is not None else None,
            is_elsewhere,
            registry_url if shown else None,
            sum(worker.takes(target, waiting.mode) for worker in conditions.live),
        )

    async def _conditions(self, now: datetime) -> _Conditions:
        shared = await self._store.read(blockers.surroundings(self._limits.page_items))
        live = await self._live(now)
        working = sum(worker.takes_jobs for worker in live)
        if not working:
            # Workers of the release before this one write no row of theirs.
            working = await self._store.read(workers.unlisted_holders(now))
        seen_at = None if working else await self._store.read(workers.seen_last())
        # Known to whoever asked it, and to everybody by the alert.
        away_since = self._engine_down_since() or shared.engine_down_at
        quarantined = shared.quarantine
        around = Surroundings(
            working, seen_at, away_since, None if quarantined is None else quarantined.since
        )
        return _Conditions(now, shared.targets, live, around)

    async def _live(self, now: datetime) -> list[SeenWorker]:
        since = self._silent_before(now)
        return await self._store.read(workers.seen_since(since, self._limits.workers_judged))

    def _silent_before(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self._limits.worker_silent_seconds)

    def _in_force(self) -> Mapping[str, Contract]:
        """Empty if no registry could be read: runs are judged without it."""
        try:
            return self._contracts_in_force()
        except InvalidInput:
            return {}


def _message(item: Item, doubt: DoubtOfItem | None) -> MessageFacts:
    return MessageFacts(
        item.id,
        item.submission_target,
        item.updated_at,
        item.doubted_at,
        item.waits_for,
        item.next_attempt_at,
        *(doubt or (None, None)),
    )


def _silent(waiting: WaitingJobs) -> SilentHolders | None:
    if not waiting.silent_jobs or waiting.silent_worker is None or waiting.silent_since is None:
        return None
    return SilentHolders(
        waiting.silent_jobs,
        short_name(waiting.silent_worker),
        waiting.silent_since,
        waiting.silent_lease_ends_at,
    )


def short_name(worker_id: str) -> str:
    """Host and process id, of an id that also has boot, namespace and start."""
    parts = worker_id.split("/")
    return f"{parts[0]}/{parts[2]}" if len(parts) == 4 else worker_id
