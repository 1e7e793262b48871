"""The door writer: a door and its alert change together, in words its workspace may read."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from structlog.testing import capture_logs

from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.domain.targets import Door, DoorState, Report, TargetPolicy, hold, report, reset
from outrider.kernel.delivery.door_writer import DoorWriter
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.alerts import LAST, AlertRecord, alerts_page
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.store_suite.workshop import NOON
from tests.support.foundations import foundation

POLICY = TargetPolicy()
KEY = DoorKey("sms.main", "http://gateway.test")
OTHERS = Scope(
    TenantId("00000000-0000-7000-8000-0000000000aa"),
    WorkspaceId("00000000-0000-7000-8000-0000000000ab"),
)


async def changed(
    store: Store,
    change: Callable[[Door], Door],
    *,
    scope: Scope = DEFAULT_SCOPE,
    now: datetime = NOON,
    owner_told: str | None = None,
) -> tuple[Door, Door]:
    def both(door: Door) -> tuple[Door, tuple[Door, Door]]:
        after = change(door)
        return after, (door, after)

    writer = DoorWriter(foundation(store))
    return await writer.change(scope, KEY, POLICY, both, now, owner_told)


def held(door: Door) -> Door:
    return hold(door, POLICY, "HTTP 401", NOON)


def throttled(door: Door) -> Door:
    opens_at = NOON + timedelta(seconds=60)
    return replace(door, state=DoorState.THROTTLED, since=NOON, opens_at=opens_at)


async def open_alerts(store: Store, scope: Scope = DEFAULT_SCOPE) -> list[AlertRecord]:
    return await store.read(alerts_page(scope, LAST, 10, only_open=True))


async def test_a_door_that_closes_is_closed_for_all_workers_and_opens_an_alert(
    store: Store,
) -> None:
    before, after = await changed(store, held)
    assert (before.state, after.state) == (DoorState.OPEN, DoorState.DOWN)
    stored = (await store.read(targets.target_state(KEY))).shared
    assert stored is not None
    assert (stored.state, stored.reason, stored.epoch) == (DoorState.DOWN, "HTTP 401", after.epoch)
    [alert] = await open_alerts(store)
    assert (alert.code, alert.subject) == ("TARGET_HELD", "sms.main")
    assert "The target sms.main refuses us or our set-up" in alert.message
    assert "HTTP 401" in alert.message


async def test_a_door_that_opens_resolves_its_alert(store: Store) -> None:
    await changed(store, held)
    await changed(store, lambda door: reset(door, NOON))
    assert await open_alerts(store) == []


async def test_being_throttled_is_an_alert_only_after_a_while(store: Store) -> None:
    await changed(store, throttled)
    assert await open_alerts(store) == []
    later = NOON + timedelta(seconds=Limits().door_alert_seconds)
    await changed(store, lambda door: replace(door, opens_at=later), now=later)
    [alert] = await open_alerts(store)
    assert (alert.code, alert.severity) == ("TARGET_THROTTLED", "P3")


async def test_of_the_three_alerts_of_a_target_one_is_open_at_a_time(store: Store) -> None:
    await changed(store, held)
    failing = replace(POLICY, breaker_failures=1)

    def down(door: Door) -> Door:
        return report(door, failing, Report(door.epoch, failures=1, reason="refused"), NOON)

    await changed(store, down)
    [alert] = await open_alerts(store)
    assert alert.code == "TARGET_DOWN"
    await changed(store, held)
    [alert] = await open_alerts(store)
    assert alert.code == "TARGET_HELD"


async def test_only_the_owner_of_the_target_reads_what_is_wrong_with_its_set_up(
    store: Store,
) -> None:
    secret = "the secret file:owners-key is empty"
    await changed(store, held, scope=OTHERS, owner_told=secret)
    await changed(store, held, owner_told=secret)
    [owners] = await open_alerts(store)
    [theirs] = await open_alerts(store, OTHERS)
    assert secret in owners.message
    assert secret not in theirs.message
    assert "HTTP 401" in theirs.message


async def test_only_a_change_of_state_is_logged(store: Store) -> None:
    writer = DoorWriter(foundation(store))
    before, after = await changed(store, held)
    with capture_logs() as logged:
        writer.log_change(KEY, before, after)
        writer.log_change(KEY, after, after)
    [line] = logged
    assert (line["event"], line["reason"]) == ("target_door_down", "HTTP 401")
