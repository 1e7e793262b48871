"""The time of a database, whatever the clocks of its workers say (X2, A7, X14)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.states import Channel
from outrider.kernel.transactions import audit_trail, ledger_clock, paging, run_records
from outrider.kernel.transactions.alerts import LAST, AlertCode, alerts_page
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.limits.kernel import Limits
from outrider.settings import Settings
from outrider.system import SystemClock
from outrider.testing.launches import launch, message, people, registry, target, until_terminal
from tests.support.eventually import eventually
from tests.support.whole_runs import working

TWO_HOURS = 7_200.0
LEASE_SECONDS = 30.0
LIMITS = Limits(
    idle_poll_seconds=0.02, rescue_interval_seconds=0.05, lease_seconds=LEASE_SECONDS,
    heartbeat_seconds=1.0, clock_look_seconds=0.05,
)  # fmt: skip


class WrongClock(SystemClock):
    """A machine's clock that is set to another time, and may be set again."""

    def __init__(self, off_seconds: float) -> None:
        self.off_seconds = off_seconds
        self.passed_seconds = 0.0
        """Of which nothing else has noticed anything."""

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_seconds

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.off_seconds)


@asynccontextmanager
async def machine(
    database: str, folder: Path, clock: WrongClock, name: str
) -> AsyncIterator[Outrider]:
    file = folder / "registry.json"
    if not file.exists():
        file.write_bytes(registry(target("noop.all", "noop", "noop://here")))
    settings = Settings(database_url=database, registry=file, spool=folder / name)
    async with open_outrider(settings, limits=LIMITS, machine_clock=clock) as outrider:
        await outrider.store.migrate()
        yield outrider


async def standing(outrider: Outrider, code: AlertCode) -> set[str]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    return {each.subject for each in await outrider.store.read(page) if each.code == code}


async def until_alerts(outrider: Outrider, *, stand: bool) -> None:
    async def is_so() -> bool:
        return bool(await standing(outrider, AlertCode.CLOCK_SKEW)) is stand

    await eventually(is_so, seconds=60)


async def losses(outrider: Outrider, run_id: RunId) -> int:
    page = audit_trail.audit_of_run(DEFAULT_SCOPE, run_id, paging.FIRST, 1_000)
    entries = await outrider.store.read(page)
    return sum(entry.event == "job.rescued" for entry in entries)


@pytest.mark.parametrize("off_seconds", [TWO_HOURS, -TWO_HOURS])
async def test_a_worker_whose_clock_is_two_hours_off_takes_no_lease_and_loses_none(
    database: str, tmp_path: Path, off_seconds: float
) -> None:
    """X2, A7: leases, due times and deadlines are by the database's clock."""
    async with (
        machine(database, tmp_path, WrongClock(0.0), "right") as right,
        machine(database, tmp_path, WrongClock(off_seconds), "wrong") as wrong,
    ):
        async with (
            right.worker(worker_id=WorkerId("right")) as first,
            wrong.worker(worker_id=WorkerId("wrong")) as second,
        ):
            both = [asyncio.create_task(each.run()) for each in (first, second)]
            offer = message(Channel.SMS, "noop.all")
            run_id = await launch(wrong, [offer], people(400), batch_size=10)
            accounting = await until_terminal(right, run_id, seconds=60)
            for each in (first, second):
                each.stop()
            await asyncio.gather(*both)
        assert accounting.sent == 400
        assert await losses(right, run_id) == 0
        run = await right.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        assert abs((run.created_at - datetime.now(UTC)).total_seconds()) < 60
        assert len(await standing(right, AlertCode.CLOCK_SKEW)) == 1, "and somebody is told"


async def test_a_clock_set_back_two_hours_in_the_middle_of_a_campaign_holds_up_nothing(
    database: str, tmp_path: Path
) -> None:
    """X14: what was due stays due, and an alert says that the clock is wrong."""
    clock = WrongClock(0.0)
    async with machine(database, tmp_path, clock, "one") as outrider, working(outrider):
        offer = message(Channel.SMS, "noop.all")
        first = await launch(outrider, [offer], people(50), batch_size=10)
        await until_terminal(outrider, first, seconds=60)
        clock.off_seconds = -TWO_HOURS
        second = await launch(outrider, [offer], people(50), batch_size=10)
        assert (await until_terminal(outrider, second, seconds=60)).sent == 50
        await until_alerts(outrider, stand=True)
        clock.off_seconds = 0.0
        await until_alerts(outrider, stand=False)


async def test_time_continues_from_where_it_was_when_the_databases_clock_is_set_back(
    database: str, tmp_path: Path
) -> None:
    """X14: another process, begun after it, finds what is due, and a lease ends when it ends."""
    ahead = datetime.now(UTC) + timedelta(seconds=TWO_HOURS)
    async with machine(database, tmp_path, WrongClock(0.0), "one") as outrider:
        await outrider.store.write(ledger_clock.keep(ahead, ahead + timedelta(days=1)))
        await outrider.set_clock()
        assert outrider.clock.now() >= ahead
        run_id = await launch(outrider, [message(Channel.SMS, "noop.all")], people(5))
        async with machine(database, tmp_path, WrongClock(0.0), "two") as other:
            async with working(other):
                assert (await until_terminal(other, run_id, seconds=60)).sent == 5
            assert await standing(other, AlertCode.CLOCK_SKEW) >= {"database"}


async def test_a_time_too_far_ahead_to_be_right_is_forgotten(database: str, tmp_path: Path) -> None:
    ahead = datetime.now(UTC) + timedelta(days=400)
    async with machine(database, tmp_path, WrongClock(0.0), "one") as outrider:
        await outrider.store.write(ledger_clock.keep(ahead, ahead + timedelta(days=1)))
        await outrider.set_clock()
        assert outrider.clock.now() < ahead - timedelta(days=399)


async def test_after_a_clock_jump_no_worker_is_considered_dead_for_a_lease(
    database: str, tmp_path: Path
) -> None:
    """X2: a lease that the leap has ended was not the worker's to extend in time."""
    machine_clock = WrongClock(0.0)
    async with machine(database, tmp_path, machine_clock, "one") as outrider:
        clock = outrider.clock
        assert isinstance(clock, DatabaseClock)
        await clock.look()
        # It may have leapt just before.
        assert not clock.is_steady
        machine_clock.passed_seconds = outrider.limits.lease_seconds + 1
        assert clock.is_steady
        leap = clock.now() + timedelta(seconds=TWO_HOURS)
        await outrider.store.write(ledger_clock.keep(leap, leap + timedelta(days=1)))
        await clock.look()
        assert clock.now() >= leap
        assert not clock.is_steady


async def test_a_leap_before_a_process_began_is_allowed_for_until_it_has_watched_long_enough(
    database: str, tmp_path: Path
) -> None:
    async with machine(database, tmp_path, WrongClock(0.0), "one") as outrider:
        clock = outrider.clock
        assert isinstance(clock, DatabaseClock)
        unnoticed = 2 * outrider.limits.clock_keep_seconds
        assert clock.unseen_seconds(0.0) == unnoticed
        await clock.look()
        assert clock.unseen_seconds(0.0) == 0.0
        assert clock.unseen_seconds(3_600.0) == unnoticed
