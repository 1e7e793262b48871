"""The lease rescuer: jobs of the dead come back at once, those of the silent after their lease."""

from pathlib import Path

from outrider.domain.ids import WorkerId
from outrider.files.call_journal import CallJournalFolder
from outrider.kernel.transactions import lost_jobs
from outrider.kernel.work.lease_rescuer import LeaseRescuer
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import LEASE_SECONDS, NOON, ONE, OTHER, Workshop
from tests.support.foundations import foundation

LIMITS = Limits(lease_seconds=LEASE_SECONDS)


def rescuer(
    store: Store, clock: FakeClock, folder: Path, *, dead: tuple[WorkerId, ...] = ()
) -> LeaseRescuer:
    journals = CallJournalFolder(folder)
    return LeaseRescuer(
        foundation(store, clock=clock, limits=LIMITS),
        journals,
        OTHER,
        lambda worker: worker in dead,
    )


async def test_jobs_of_a_dead_worker_are_released_at_once(store: Store, tmp_path: Path) -> None:
    shop, clock = Workshop(store), FakeClock(NOON)
    await shop.launch(4, batch_size=2)
    await shop.claim(ONE, most=2)
    assert await rescuer(store, clock, tmp_path).rescue_once() == 0
    assert await rescuer(store, clock, tmp_path, dead=(ONE,)).rescue_once() == 2
    assert await store.read(lost_jobs.lock_holders()) == []


async def test_a_job_of_a_silent_worker_is_released_when_its_lease_ends(
    store: Store, tmp_path: Path
) -> None:
    shop, clock = Workshop(store), FakeClock(NOON)
    await shop.launch(1)
    await shop.claim(ONE)
    role = rescuer(store, clock, tmp_path)
    clock.advance(LEASE_SECONDS - 1)
    assert await role.rescue_once() == 0
    clock.advance(2)
    assert await role.rescue_once() == 1


async def test_a_lease_is_judged_by_a_clock_that_has_just_been_read(
    store: Store, tmp_path: Path
) -> None:
    """A process is frozen while the database's clock is set back; by its own reckoning, the leases
    that others took meanwhile are over."""
    shop, clock = Workshop(store), FakeClock(NOON)
    await shop.launch(1)
    await shop.claim(ONE)
    clock.advance(LEASE_SECONDS + 1)

    async def read_it() -> None:
        clock.advance(-LEASE_SECONDS)

    role = LeaseRescuer(
        foundation(store, clock=clock, limits=LIMITS),
        CallJournalFolder(tmp_path),
        OTHER,
        lambda _worker: False,
        set_clock=read_it,
    )
    assert await role.rescue_once() == 0
