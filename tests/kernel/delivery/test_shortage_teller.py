"""The shortage teller: one alert while this machine lacks something, and none afterwards."""

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation


async def open_alerts(store: Store) -> list[str]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=True)
    return [each.subject for each in await store.read(page)]


async def test_an_alert_is_open_while_a_shortage_lasts_and_closed_after_it(store: Store) -> None:
    clock, limits = FakeClock(), Limits()
    teller = ShortageTeller(foundation(store, clock=clock, limits=limits), "host-1")
    await teller.report("too many open files")
    await teller.report("too many open files")
    assert (teller.is_alerting, await open_alerts(store)) == (True, ["host-1"])
    await teller.over()
    assert teller.is_alerting, "the last shortage was a moment ago"
    clock.advance(limits.shortage_tell_seconds)
    await teller.over()
    assert (teller.is_alerting, await open_alerts(store)) == (False, [])
