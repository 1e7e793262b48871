"""Shaped sources: domains take turns, and what has to wait for long is set aside."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from outrider.domain.domain_limits import DomainLimits, DomainShaping
from outrider.domain.ids import WorkerId
from outrider.domain.sending_hours import Wait
from outrider.kernel.delivery.call_sources import Listed
from outrider.kernel.delivery.route_shapes import RouteShape
from outrider.kernel.delivery.shaped_sources import ShapedSource, Shaping
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation
from tests.support.whole_runs import START

RATE = DomainShaping(named={"rate.test": DomainLimits(rate_per_second=2)})


class Themselves:
    async def of(self, domains: Collection[str]) -> Mapping[str, str]:
        return {each: each for each in domains}


class Scene:
    def __init__(self, store: Store, addresses: Sequence[str], *, together: bool = False) -> None:
        self.clock = FakeClock(START)
        made = foundation(store, clock=self.clock, limits=Limits(enclosing_items=2))
        self.shape = RouteShape(
            made, Themselves(), RATE, DoorKey("mail", "smtp://relay"), 80, WorkerId("w")
        )
        self.aside: list[tuple[str, Wait]] = []
        self.left: list[str] = []
        shaping = Shaping[str](
            lambda each: None if each.startswith("+") else each, self._set_aside,
            self.left.extend, together, lambda each: each.startswith("heavy"),
        )  # fmt: skip
        self.source = ShapedSource(Listed(addresses), self.shape, shaping)

    def answers(self, *domains: str) -> None:
        """Calls to them have ended just now."""
        for each in domains:
            self.shape.bucket(each).ended_at = self.clock.monotonic()

    async def _set_aside(self, aside: Sequence[tuple[str, Wait]]) -> None:
        self.aside.extend(aside)


async def test_each_domain_has_its_turn(store: Store) -> None:
    many = [f"{each}@many.test" for each in range(50)]
    scene = Scene(store, [*many, "a@few.test", "b@few.test", "c@one.test"])
    scene.answers("many.test")
    assert await scene.source.more()
    assert scene.source.waiting() == 53
    assert scene.source.take(5) == [
        "0@many.test", "a@few.test", "c@one.test", "1@many.test", "b@few.test"
    ]  # fmt: skip
    assert scene.source.take(2) == ["2@many.test", "3@many.test"]


async def test_what_has_no_domain_is_never_held(store: Store) -> None:
    scene = Scene(store, ["+1", "+2"])
    assert await scene.source.more()
    assert scene.source.take(5) == ["+1", "+2"]
    assert not await scene.source.more()


async def test_what_is_beyond_a_rate_is_set_aside_turn_by_turn(store: Store) -> None:
    scene = Scene(store, [f"{each}@rate.test" for each in range(7)])
    assert await scene.source.more()
    assert len(scene.source.take(10)) == 2
    assert await scene.source.more()
    waits = [wait.until - START for _, wait in scene.aside]
    first = waits[0]
    second = timedelta(seconds=1)
    assert waits == [first, first, first + second, first + second, first + 2 * second]
    assert {wait.waits_for for _, wait in scene.aside} == {"domain_limit"}
    assert not await scene.source.more()


async def test_what_comes_back_together_has_one_turn(store: Store) -> None:
    scene = Scene(store, [f"{each}@rate.test" for each in range(7)], together=True)
    assert await scene.source.more()
    scene.source.take(10)
    await scene.source.more()
    assert len({wait for _, wait in scene.aside}) == 1


async def test_a_busy_domain_is_waited_for_and_then_set_aside(store: Store) -> None:
    scene = Scene(store, [f"{each}@many.test" for each in range(70)])
    scene.answers("many.test")
    assert await scene.source.more()
    assert len(scene.source.take(100)) == 60, "three quarters of the route's calls"
    assert await scene.source.more()
    assert not scene.aside
    scene.clock.advance(scene.shape.limits.domain_patience_seconds + 0.1)
    assert await scene.source.more()
    assert len(scene.aside) == 10
    assert not await scene.source.more()


async def test_only_a_few_with_files_are_taken_at_a_time(store: Store) -> None:
    heavy = [f"heavy{each}@a.test" for each in range(5)]
    scene = Scene(store, [*heavy, "light@b.test"])
    await scene.source.more()
    assert scene.source.take(10) == ["heavy0@a.test", "light@b.test", "heavy1@a.test"]


async def test_what_is_left_is_given_back(store: Store) -> None:
    scene = Scene(store, ["a@one.test", "b@one.test"])
    await scene.source.more()
    scene.source.take(1)
    await scene.source.leave()
    assert scene.left == ["b@one.test"]
    assert scene.source.waiting() == 0
