"""The database clock: the time that all workers of a database share, whatever their own clocks say.

It is the database's time, advanced by this machine's monotonic clock between readings. It never
goes back, because leases and due times were written by it; an alert reports differences.
"""

import math
from datetime import UTC, datetime, timedelta

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions import ledger_clock
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.ledger_clock import ClockReading
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store

log = structlog.get_logger()

DATABASE = "database"
"""The alert's subject when the database's own clock was set back."""


class DatabaseClock:
    def __init__(
        self, machine: Clock, store: Store, ids: IdSource, limits: Limits, host: str
    ) -> None:
        self._machine = machine
        self.monotonic = machine.monotonic
        """The function itself, without a wrapper: every call reads it."""
        self._store = store
        self._ids = ids
        self._limits = limits
        self._host = host
        self._offset_seconds: float | None = None
        """Offset from the machine's monotonic clock to the database's time, in seconds since the
        epoch."""
        self._leapt_at: float | None = None
        self._first_read_at: float | None = None
        self._is_known: dict[str, bool] = {}
        """By alert subject: whether the alert is open, as far as this process knows."""

    def now(self) -> datetime:
        """Before the first reading it is the machine's own time."""
        if self._offset_seconds is None:
            return self._machine.now()
        # Computed with floats: every call that ends asks for the time.
        return datetime.fromtimestamp(self._offset_seconds + self.monotonic(), UTC)

    async def sleep(self, seconds: float) -> None:
        await self._machine.sleep(seconds)

    @property
    def is_steady(self) -> bool:
        """Whether it was seen to run evenly for longer than a lease: only then does an expired
        lease show that its worker had the time to extend it. A process that has just begun may have
        missed that the clock was set forward, and those leases are still relied on."""
        lease_seconds = self._limits.lease_seconds
        return self.steady_seconds > lease_seconds and not self.unseen_seconds(lease_seconds)

    @property
    def steady_seconds(self) -> float:
        """For how long it has run evenly, as far as is known."""
        return math.inf if self._leapt_at is None else self.monotonic() - self._leapt_at

    def unseen_seconds(self, span_seconds: float) -> float:
        """By how much it may have been set during the last `span_seconds` without anyone noticing:
        before this process began to read it, a small leap looks like time in which nobody did."""
        began = self._first_read_at
        if began is not None and self.monotonic() - began >= span_seconds:
            return 0.0
        return 2 * self._limits.clock_keep_seconds

    async def look(self) -> None:
        """Read the database's time, and use it from now on."""
        asked_at = self.monotonic()
        reading = await self._store.read(ledger_clock.read())
        answered_at = self.monotonic()
        unsure_seconds = (answered_at - asked_at) / 2
        then = self._then(reading, asked_at + unsure_seconds)
        self._go_by(then, asked_at + unsure_seconds, unsure_seconds, reading)
        await self._keep(reading)
        await self._update_alerts(reading)

    async def run(self) -> None:
        """Read it periodically; runs until cancelled."""
        while True:
            await self.sleep(self._limits.clock_look_seconds)
            try:
                await self.look()
            except StoreError as error:
                log.warning("database_clock_not_read", error=error.message)

    def _then(self, reading: ClockReading, at: float) -> datetime:
        """The time when the database answered: its own time, or the ledger's if that is ahead of
        it, in which case the workers' time continues from there."""
        if not self._is_behind(reading):
            return reading.database_at
        assert reading.told_at is not None
        known = self._at(at)
        return reading.told_at if known is None else max(known, reading.told_at)

    def _is_behind(self, reading: ClockReading) -> bool:
        """Whether the database's clock was set back, by no more than is plausible."""
        if reading.told_at is None:
            return False
        ahead_seconds = (reading.told_at - reading.database_at).total_seconds()
        return self._limits.clock_step_seconds < ahead_seconds <= self._limits.clock_ahead_seconds

    def _at(self, at: float) -> datetime | None:
        if self._offset_seconds is None:
            return None
        return datetime.fromtimestamp(self._offset_seconds + at, UTC)

    def _go_by(
        self, then: datetime, at: float, unsure_seconds: float, reading: ClockReading
    ) -> None:
        known = self._at(at)
        if known is None:
            self._first_read_at = at
            told_at = reading.told_at
            quiet = timedelta(seconds=2 * self._limits.clock_keep_seconds)
            if told_at is not None and then - told_at > quiet:
                # No worker ran here for a while, or the clock jumped while others did.
                self._leapt_at = at
        else:
            off_seconds = (then - known).total_seconds()
            if abs(off_seconds) <= unsure_seconds:
                return
            if abs(off_seconds) > self._limits.clock_step_seconds:
                log.warning("database_clock_leapt", seconds=off_seconds)
                self._leapt_at = at
        self._offset_seconds = then.timestamp() - at

    async def _keep(self, reading: ClockReading) -> None:
        """Periodically, and always while it is ahead of the database, so that new processes
        continue it."""
        now, told_at = self.now(), reading.told_at
        apart = timedelta(seconds=self._limits.clock_keep_seconds)
        if told_at is not None and not self._is_behind(reading) and abs(now - told_at) <= apart:
            return
        most = reading.database_at + timedelta(seconds=self._limits.clock_ahead_seconds)
        await self._store.write(ledger_clock.keep(now, most))

    async def _update_alerts(self, reading: ClockReading) -> None:
        skew_seconds = (self._machine.now() - self.now()).total_seconds()
        behind_seconds = (self.now() - reading.database_at).total_seconds()
        await self._alert(
            self._host, skew_seconds,
            f"the clock of {self._host} differs from the database's by {skew_seconds:.0f} s",
        )  # fmt: skip
        await self._alert(
            DATABASE, behind_seconds,
            f"the database's clock was set back by {behind_seconds:.0f} s; until it catches up,"
            " times continue from the previous value",
        )  # fmt: skip

    async def _alert(self, subject: str, off_seconds: float, message: str) -> None:
        is_off = abs(off_seconds) > self._limits.clock_skew_seconds
        if self._is_known.get(subject) is is_off:
            return
        now = self.now()
        if is_off:
            log.warning("clock_skew", subject=subject, seconds=off_seconds)
            detail = {"seconds": round(off_seconds, 3)}
            alert = Alert(DEFAULT_SCOPE, AlertCode.CLOCK_SKEW, subject, message, detail)
            await self._store.write(raise_alert(alert, self._ids, now))
        else:
            await self._store.write(resolve_alert(AlertCode.CLOCK_SKEW, subject, now))
        self._is_known[subject] = is_off
