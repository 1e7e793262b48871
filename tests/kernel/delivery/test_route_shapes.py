"""Route shapes: what the domains of a route allow, agreed between workers through the database."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from outrider.domain.domain_limits import DomainLimits, DomainShaping
from outrider.domain.ids import WorkerId
from outrider.kernel.delivery.route_shapes import RouteShape
from outrider.kernel.transactions import domain_doors
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.delivery import ANSWERS_LATELY_SECONDS
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation
from tests.support.whole_runs import START

KEY = DoorKey("mail", "smtp://relay")
LIMITED = DomainShaping(
    named={"rate.test": DomainLimits(rate_per_second=10), "few.test": DomainLimits(connections=3)}
)


class OneProvider:
    """The provider of both these domains is known; the others stand for themselves."""

    async def of(self, domains: Collection[str]) -> Mapping[str, str]:
        shared = {"one.test": "mailhost.test", "two.test": "mailhost.test"}
        return {each: shared.get(each, each) for each in domains}


def shape(
    store: Store,
    clock: FakeClock,
    name: str = "a",
    shaping: DomainShaping = LIMITED,
    limits: Limits | None = None,
) -> RouteShape:
    return RouteShape(
        foundation(store, clock=clock, limits=limits), OneProvider(), shaping, KEY, 8,
        WorkerId(name),
    )  # fmt: skip


def answering(
    store: Store, clock: FakeClock, name: str = "a", limits: Limits | None = None
) -> RouteShape:
    """Calls to all these domains have ended just now."""
    made = shape(store, clock, name, limits=limits)
    for domain in ("plain.test", "rate.test", "few.test", "mailhost.test"):
        made.bucket(domain).ended_at = clock.monotonic()
    return made


async def test_a_domain_without_limits_or_problems_is_never_written(store: Store) -> None:
    one = answering(store, FakeClock(START))
    await one.draw({"plain.test": 5})
    assert one.free("plain.test") == 5
    assert await store.read(domain_doors.doors_of(KEY, ["plain.test"])) == {}


async def test_workers_share_the_rate_of_a_domain(store: Store) -> None:
    clock = FakeClock(START)
    one, other = answering(store, clock, "a"), answering(store, clock, "b")
    await one.draw({"rate.test": 7})
    await other.draw({"rate.test": 7})
    # No more than three quarters of its eight calls at once are one domain's.
    assert (one.free("rate.test"), other.free("rate.test")) == (6, 3)
    assert one.bucket("rate.test").granted == 7
    clock.advance(0.5)
    third = answering(store, clock, "c")
    await third.draw({"rate.test": 7})
    assert third.bucket("rate.test").granted == 5


async def test_workers_share_the_connections_of_a_domain(store: Store) -> None:
    clock = FakeClock(START)
    one, other = answering(store, clock, "a"), answering(store, clock, "b")
    await one.draw({"few.test": 7})
    assert one.free("few.test") == 3, "nobody else wants any"
    await other.draw({"few.test": 7})
    assert other.free("few.test") == 0
    clock.advance(one.limits.share_seconds + 0.01)
    await one.draw({"few.test": 7})
    await other.draw({"few.test": 7})
    assert (one.free("few.test"), other.free("few.test")) == (2, 1)


async def test_what_a_domain_asked_for_is_known_to_all_workers_and_one_of_them_probes(
    store: Store,
) -> None:
    clock = FakeClock(START)
    one, other = answering(store, clock, "a"), answering(store, clock, "b")
    await one.draw({"mailhost.test": 5})
    one.bucket("mailhost.test").close(0, 30.0, "451 later")
    await one.publish()
    await other.draw({"mailhost.test": 5})
    until = START + timedelta(seconds=30)
    for each in (one, other):
        assert each.free("mailhost.test") == 0
        assert each.bucket("mailhost.test").wait_until == until
    clock.advance(30)
    other.bucket("mailhost.test").ended_at = clock.monotonic()
    await other.draw({"mailhost.test": 5})
    await one.draw({"mailhost.test": 5})
    assert (other.free("mailhost.test"), one.free("mailhost.test")) == (1, 0)
    bucket = other.bucket("mailhost.test")
    other.take("mailhost.test")
    bucket.answered(bucket.epoch)
    await other.draw({"mailhost.test": 5})
    assert other.free("mailhost.test") == 5, "it is open again"


async def test_what_was_taken_and_not_opened_is_put_back(store: Store) -> None:
    one = answering(store, FakeClock(START))
    await one.draw({"plain.test": 5})
    one.take("plain.test")
    assert one.free("plain.test") == 4
    one.opened(["plain.test"], [])
    assert one.free("plain.test") == 5


async def test_domains_that_are_not_used_are_forgotten(store: Store) -> None:
    clock = FakeClock(START)
    one = shape(store, clock, limits=Limits(domains_known=2))
    await one.draw({"a.test": 1, "b.test": 1, "c.test": 1})
    clock.advance(60)
    held = one.bucket("a.test")
    await one.draw({"d.test": 1})
    assert one.bucket("a.test") is not held


async def test_a_domain_that_has_not_answered_has_a_quarter_of_the_calls(store: Store) -> None:
    clock = FakeClock(START)
    one = shape(store, clock)
    await one.draw({"new.test": 7})
    assert one.free("new.test") == 2
    one.bucket("new.test").ended_at = clock.monotonic()
    assert one.free("new.test") == 6
    clock.advance(ANSWERS_LATELY_SECONDS)
    await one.draw({"new.test": 7})
    assert one.free("new.test") == 2, "it may be hanging"


async def test_the_last_quarter_is_for_domains_with_less_than_one(store: Store) -> None:
    """However many calls two domains had when they began to hang, a third one has some."""
    one = answering(store, FakeClock(START))
    await one.draw({"plain.test": 9, "mailhost.test": 9, "new.test": 9})
    for name in ("plain.test", "mailhost.test"):
        for _ in range(3):
            one.take(name)
    assert (one.free("plain.test"), one.free("mailhost.test")) == (0, 0)
    assert one.free("new.test") == 2
