"""Doors at addresses that nothing uses any more are opened, and their alerts end by themselves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.targets import Door, Report, TargetPolicy, report
from outrider.kernel.delivery.door_sweeper import DoorSweeper
from outrider.kernel.delivery.door_writer import DoorWriter
from outrider.kernel.transactions import blockers
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.kernel.transactions.targets import DoorKey
from outrider.settings import Settings
from outrider.testing.clock import FakeClock
from outrider.testing.launches import launch, message, people, registry, target

DEAD, FIXED = "http://127.0.0.1:9", "http://127.0.0.1:10"
POLICY = TargetPolicy(breaker_failures=1)
SMS = DoorKey("sms", DEAD)


@asynccontextmanager
async def opened(database: str, folder: Path) -> AsyncIterator[tuple[Outrider, FakeClock]]:
    file, clock = folder / "registry.json", FakeClock()
    file.write_bytes(registry(target("sms", "sms", DEAD)))
    settings = Settings(database_url=database, registry=file, spool=folder / "spool")
    async with open_outrider(settings, clock=clock) as outrider:
        await outrider.store.migrate()
        yield outrider, clock


async def close(outrider: Outrider, key: DoorKey) -> None:
    """As a worker does that calls there in vain."""
    now = outrider.clock.now()

    def failed(door: Door) -> tuple[Door, tuple[Door, Door]]:
        after = report(door, POLICY, Report(door.epoch, failures=1, reason="refused"), now)
        return after, (door, after)

    await DoorWriter(outrider.foundation).change(DEFAULT_SCOPE, key, POLICY, failed, now)


async def open_codes(outrider: Outrider) -> list[str]:
    found = await outrider.store.read(alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=True))
    return [each.code for each in found]


async def closed_doors(outrider: Outrider) -> set[DoorKey]:
    return set((await outrider.store.read(blockers.targets_now(10))).doors)


async def test_the_door_of_a_corrected_address_is_forgotten_and_its_alert_ends(
    database: str, tmp_path: Path
) -> None:
    """It stayed closed for good, and its alert was raised again until `target reset`."""
    async with opened(database, tmp_path) as (outrider, clock):
        await close(outrider, SMS)
        assert await open_codes(outrider) == ["TARGET_DOWN"]
        clock.advance(1_000)
        assert await outrider.door_sweeper.sweep() == [], "the registry still names it"
        outrider.registry_keeper.replace(registry(target("sms", "sms", FIXED)))
        await close(outrider, SMS)
        assert await outrider.door_sweeper.sweep() == [], "somebody called it just now"
        clock.advance(POLICY.breaker_seconds + outrider.limits.door_unused_seconds + 1)
        assert await outrider.door_sweeper.sweep() == [SMS]
        assert await closed_doors(outrider) == set()
        assert await open_codes(outrider) == []
        await outrider.watcher.look_once()
        assert await open_codes(outrider) == []
        assert await outrider.door_sweeper.sweep() == []


async def test_a_door_that_open_jobs_go_through_is_kept(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path) as (outrider, clock):
        run_id = await launch(outrider, [message(Channel.SMS, "sms")], people(2))
        await close(outrider, SMS)
        outrider.registry_keeper.replace(registry(target("sms", "sms", FIXED)))
        clock.advance(1_000)
        assert await outrider.door_sweeper.sweep() == []
        await outrider.run_repointer.repoint(DEFAULT_SCOPE, run_id, "test")
        assert await outrider.door_sweeper.sweep() == [SMS]


async def test_the_alert_stays_while_another_door_of_the_target_is_closed(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as (outrider, clock):
        await close(outrider, SMS)
        outrider.registry_keeper.replace(registry(target("sms", "sms", FIXED)))
        now_used = SMS._replace(gateway_url=FIXED)
        await close(outrider, now_used)
        clock.advance(1_000)
        assert await outrider.door_sweeper.sweep() == [SMS]
        assert await closed_doors(outrider) == {now_used}
        assert await open_codes(outrider) == ["TARGET_DOWN"]


async def test_a_registry_that_cannot_be_read_forgets_no_door(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as (outrider, clock):
        await close(outrider, SMS)
        clock.advance(1_000)
        sweeper = DoorSweeper(outrider.foundation, dict)
        assert await sweeper.sweep() == []
        assert await closed_doors(outrider) == {SMS}
