"""The watcher: in every process, checks whether the other roles make progress.

A check finds what is stalled, and since when; an alert is open for as long as it is found, and
resolves automatically. A check that fails or hangs does not affect the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

import structlog

from outrider.domain.errors import OutriderError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.times import rfc3339
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.transactions import deliveries, watching
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
    raise_alert,
    resolve_in_workspace,
)
from outrider.kernel.transactions.deliveries import TargetRates
from outrider.kernel.transactions.targets import DOOR_ALERTS
from outrider.kernel.transactions.watching import OpenAlert, Sighting
from outrider.kernel.work.stall_looks import (
    ClosedTargets,
    MissingWorkers,
    Outage,
    SilentEngine,
    StalledRuns,
)
from outrider.limits.receipts import (
    DEFAULT_RATE_LIMITS,
    DEFAULT_RECEIPT_LIMITS,
    RateLimits,
    ReceiptLimits,
)
from outrider.ports.clock import Clock
from outrider.ports.engine import Stalled
from outrider.ports.spool import Spool
from outrider.ports.store import Transaction

log = structlog.get_logger()


async def answers() -> datetime | None:
    """An engine without a server is never away."""
    return None


Find = Callable[[], Awaitable[Sequence[Sighting]]]


@dataclass(frozen=True, slots=True)
class Look:
    """`owner`: this process resolves only alerts about this subject. `raises`: the look raises
    alerts rather than only reporting which of them still apply. `resolves`: it closes alerts whose
    cause is gone. `urgent`: it is part of every visit; the others run every fifth time."""

    code: AlertCode
    what: str
    find: Find
    owner: str | None = None
    raises: bool = True
    resolves: bool = True
    urgent: bool = False


class Watcher:
    def __init__(
        self,
        foundation: Foundation,
        spools: Mapping[str, Spool],
        blocker_finder: BlockerFinder,
        receipt_limits: ReceiptLimits = DEFAULT_RECEIPT_LIMITS,
        rate_limits: Mapping[str, RateLimits] | None = None,
        engine_away_since: Callable[[], Awaitable[datetime | None]] = answers,
    ) -> None:
        """`rate_limits` are those of targets with their own settings."""
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        rates = RateLook(foundation, receipt_limits, rate_limits or {})
        lag, stall = (
            foundation.limits.projector_lag_alert_seconds,
            foundation.limits.watcher_stall_seconds,
        )
        ask, closed = self._asking, ClosedTargets(foundation)
        self.outage = Outage(self._clock.now, self._limits.database_still_down_seconds)
        self.looks = [
            Look(
                AlertCode.PROJECTOR_LAG_HIGH,
                "the snapshot of the run is behind its log",
                ask(watching.unprojected_runs, lag),
                urgent=True,
            ),
            Look(
                AlertCode.RUN_STALLED,
                "nothing of the run has ended",
                StalledRuns(foundation, blocker_finder).find,
                urgent=True,
            ),
            Look(
                AlertCode.NO_WORKER,
                "work is due and no worker takes it",
                MissingWorkers(foundation).find,
                urgent=True,
            ),
            Look(
                AlertCode.ENGINE_DOWN,
                "the engine does not answer",
                SilentEngine(engine_away_since).find,
                urgent=True,
            ),
            Look(
                AlertCode.DOUBTS_WAITING,
                "items are in doubt",
                ask(watching.waiting_doubts, foundation.limits.doubts_wait_seconds),
            ),
            *(
                Look(code, "the target is closed", closed.find, resolves=False, urgent=True)
                for code in DOOR_ALERTS
            ),
            Look(
                AlertCode.EVENTS_STUCK,
                "domain events are waiting and no worker processes them",
                ask(watching.unrouted_events, stall),
            ),
            Look(
                AlertCode.EVENT_BUS_STUCK,
                "events for the sink are due and no worker delivers them",
                self._stuck_sinks,
                urgent=True,
            ),
            Look(
                AlertCode.HISTORY_BEHIND,
                "the history is behind",
                ask(watching.late_history, foundation.limits.history_behind_seconds),
            ),
            Look(
                AlertCode.WORKFLOW_STUCK,
                "its workflow was restarted",
                ask(watching.unmoved_workflows, 0.0),
                raises=False,
            ),
            Look(
                AlertCode.LATE_ACCEPTANCE,
                "items were accepted that already had another outcome",
                ask(watching.late_acceptances, foundation.limits.watcher_notice_seconds),
                raises=False,
            ),
            Look(
                AlertCode.BOUNCE_RATE_HIGH,
                "more of what was sent bounced than the target's bounce_rate_alert allows",
                rates.bounced,
            ),
            Look(
                AlertCode.COMPLAINT_RATE_HIGH,
                "what was sent drew more complaints than the target's complaint_rate_alert allows",
                rates.complained,
            ),
            *(
                Look(
                    AlertCode.SPOOL_STUCK,
                    "spooled events are not reaching the log",
                    SpoolLook(name, spool, foundation.clock, stall).find,
                    owner=name,
                    urgent=True,
                )
                for name, spool in spools.items()
            ),
        ]

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        for visit in count(1):
            await self._clock.sleep(self._limits.watcher_seconds)
            await self.look_once(urgent_only=visit % self._limits.watcher_whole_visits != 0)

    async def look_once(self, *, urgent_only: bool = False) -> None:
        try:
            opened = await self._open_alerts()
        except (OutriderError, TimeoutError) as error:
            self._log_outage(str(error) or "no answer in time")
            return
        if (seconds := self.outage.over()) is not None:
            log.info("database_back", after_seconds=round(seconds, 1))
        # Looks for several alerts may share one reading.
        readings: dict[Find, Sequence[Sighting]] = {}
        for look in self.looks:
            if urgent_only and not look.urgent:
                continue
            try:
                async with asyncio.timeout(self._limits.watcher_look_seconds):
                    if look.find not in readings:
                        readings[look.find] = await look.find()
                    found = [each for each in readings[look.find] if each.code in (None, look.code)]
                    await self._compare(look, found, opened)
            except (OutriderError, OSError, TimeoutError) as error:
                reason = str(error) or "no answer in time"
                log.warning("look_failed", code=look.code.value, error=reason)

    async def tell_stuck_workflow(self, stalled: Stalled, failed: int) -> None:
        """The engine could not make progress with its execution of this work, and restarts it. The
        alert is open until the job moves."""
        scope = await self._store.read(watching.scope_of_job(stalled.job_id))
        work = stalled.work
        why = (
            f"its workflow task failed {failed} times in a row"
            if failed
            else "none of its tasks could be taken by a worker"
        )
        message = (
            f"{why}, so that the {work.kind.value} was stuck; its execution was ended and restarted"
        )
        detail = {"jobId": stalled.job_id, "kind": work.kind.value, "failedTasks": failed}
        alert = Alert(scope or DEFAULT_SCOPE, AlertCode.WORKFLOW_STUCK, work.id, message, detail)
        await self._store.write(raise_alert(alert, self._ids, self._clock.now()))
        log.warning(
            "alert_raised", code=AlertCode.WORKFLOW_STUCK.value, subject=work.id, why=message
        )

    async def _open_alerts(self) -> list[OpenAlert]:
        codes = {look.code for look in self.looks}
        async with asyncio.timeout(self._limits.watcher_look_seconds):
            script = watching.open_alerts(codes, self._limits.watcher_alerts)
            return await self._store.read(script)

    async def _compare(
        self, look: Look, found: Sequence[Sighting], opened: Sequence[OpenAlert]
    ) -> None:
        now = self._clock.now()
        of_look = {
            (each.subject, each.scope): each
            for each in opened
            if each.code is look.code and look.owner in (None, each.subject)
        }
        raised_before = now - timedelta(seconds=self._limits.watcher_repeat_seconds)
        for sighting in found:
            known = of_look.pop((sighting.subject, sighting.scope), None)
            if look.raises and (known is None or known.last_seen_at < raised_before):
                await self._raise(look, sighting, now, fresh=known is None)
        if look.owner is None and len(found) >= self._limits.watcher_subjects:
            # There may be more than one check returns, so it is unknown which alerts no longer
            # apply.
            return
        for gone in of_look.values() if look.resolves else ():
            resolved = resolve_in_workspace(look.code, gone.subject, gone.scope, now)
            if await self._store.write(resolved):
                log.info("alert_resolved", code=look.code.value, subject=gone.subject)

    async def _raise(self, look: Look, sighting: Sighting, now: datetime, *, fresh: bool) -> None:
        seconds = (now - sighting.since).total_seconds()
        message = sighting.message or f"{look.what}, for {seconds:.1f} s"
        detail = {
            **(sighting.detail or {}),
            "subject": sighting.subject,
            "since": rfc3339(sighting.since),
            "seconds": round(seconds, 3),
        }
        alert = Alert(sighting.scope, look.code, sighting.subject, message, detail)
        await self._store.write(raise_alert(alert, self._ids, now))
        if fresh:
            log.warning("alert_raised", code=look.code.value, subject=sighting.subject, why=message)

    async def _stuck_sinks(self) -> Sequence[Sighting]:
        """Nobody delivers to them, or they take nothing."""
        limits = self._limits
        failing = await self._asking(watching.failing_sinks, limits.sink_failing_seconds)()
        known = {each.subject for each in failing}
        undelivered = self._asking(watching.undelivered_sinks, limits.watcher_stall_seconds)
        return [*failing, *(each for each in await undelivered() if each.subject not in known)]

    def _log_outage(self, error: str) -> None:
        """Once, and then once a minute: everything that needs it fails meanwhile."""
        if (event := self.outage.seen()) is not None:
            log.error(event, error=error, since=self.outage.since)

    def _asking(
        self,
        script: Callable[[datetime, int], Transaction[list[Sighting]]],
        seconds: float,
    ) -> Find:
        async def find() -> Sequence[Sighting]:
            before = self._clock.now() - timedelta(seconds=seconds)
            return await self._store.read(script(before, self._limits.watcher_subjects))

        return find


class RateLook:
    """Of each target's messages of the last hours: whether too many came back, or were complained
    of. Few messages make no rate."""

    def __init__(
        self,
        foundation: Foundation,
        receipt_limits: ReceiptLimits,
        rate_limits: Mapping[str, RateLimits],
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._receipt_limits = receipt_limits
        self._rate_limits = rate_limits

    async def bounced(self) -> Sequence[Sighting]:
        return await self._over(
            lambda rates: rates.bounced > self._most(rates).bounced * rates.messages
        )

    async def complained(self) -> Sequence[Sighting]:
        return await self._over(
            lambda rates: rates.complained > self._most(rates).complained * rates.messages
        )

    def _most(self, rates: TargetRates) -> RateLimits:
        return self._rate_limits.get(rates.submission_target, DEFAULT_RATE_LIMITS)

    async def _over(self, is_over: Callable[[TargetRates], bool]) -> Sequence[Sighting]:
        since = self._clock.now() - timedelta(hours=self._receipt_limits.rate_hours)
        found = await self._store.read(deliveries.rates(since, self._limits.watcher_subjects))
        return [
            Sighting(rates.scope, rates.submission_target, rates.since)
            for rates in found
            if rates.messages >= self._receipt_limits.rate_sample_messages and is_over(rates)
        ]


class SpoolLook:
    """Checks whether the oldest entry of a local spool has been the same for long."""

    def __init__(self, name: str, spool: Spool, clock: Clock, seconds: float) -> None:
        self._name = name
        self._spool = spool
        self._clock = clock
        self._patience = timedelta(seconds=seconds)
        self._oldest: tuple[str, datetime] | None = None

    async def find(self) -> Sequence[Sighting]:
        now = self._clock.now()
        names = await self._spool.names(1)
        if not names:
            self._oldest = None
            return []
        if self._oldest is None or self._oldest[0] != names[0]:
            self._oldest = names[0], now
        since = self._oldest[1]
        if now - since <= self._patience:
            return []
        return [Sighting(DEFAULT_SCOPE, self._name, since)]
