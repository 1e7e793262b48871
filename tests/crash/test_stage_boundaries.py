"""A worker is killed on every boundary that delivery passes, and a second one finishes its work.

What the first leaves in doubt is what had begun on the wire and was not recorded yet: never more
than a window, nothing that was merely open (X15), and only where the provider cannot dedupe.
"""

from typing import NamedTuple

import pytest

from outrider.testing.chaos import Boundary
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene

ITEMS = 2 * (MAIL_WINDOW_ITEMS + 4)
BATCH = ITEMS // 2
"""Two jobs; for mail each is a full window and a small one."""
WHOLE_WINDOW_SECONDS = 5.0
"""A close group waits for its whole window, so that a boundary leaves the same behind each time."""


class Left(NamedTuple):
    """What a kill leaves in doubt at a provider that cannot dedupe, at least and at the most, and
    how much of that had arrived at least."""

    least: int = 0
    most: int = 0
    arrived_least: int = 0


NOTHING = Left()
FULL = MAIL_WINDOW_ITEMS
SOME = Left(0, FULL)
"""The next window is opened while calls of the first are out."""
BOUNDARIES = {
    "claim:after:1": NOTHING,
    "claim:after:2": NOTHING,
    "load:before:1": NOTHING,
    "load:after:2": NOTHING,
    "screen:before:1": NOTHING,
    "screen:after:2": SOME,
    "render:before:2": SOME,
    "render:after:1": NOTHING,
    "reserve:before:1": NOTHING,
    "reserve:before:2": SOME,
    "open:after:1": NOTHING,
    "open:after:2": SOME,
    "call:before:1": NOTHING,
    "call:before:7": SOME,
    "call:after:1": Left(1, FULL, 1),
    "call:after:7": Left(1, FULL, 1),
    "close:before:1": Left(1, FULL, 1),
    "close:after:1": SOME,
    "close:after:2": SOME,
    "settle:before:1": NOTHING,
    "settle:after:1": NOTHING,
    "settle:before:2": NOTHING,
    "settle:after:2": NOTHING,
}
TOLD_ON_POSTGRES = (
    "claim:after:1",
    "reserve:before:2",
    "open:after:1",
    "call:after:7",
    "close:before:1",
    "close:after:1",
    "settle:before:2",
    "settle:after:1",
)
"""SQLite passes them all; these are the ones whose statements the two stores do differently."""

CASES = [("sqlite", boundary) for boundary in BOUNDARIES] + [
    ("postgres", boundary) for boundary in TOLD_ON_POSTGRES
]


@pytest.mark.parametrize("provider", Provider)
@pytest.mark.parametrize(("database", "boundary"), CASES, indirect=["database"])
async def test_a_worker_killed_on_a_boundary_loses_nothing_and_repeats_nothing(
    scene: Scene, boundary: str, provider: Provider
) -> None:
    body = "Hi {{ firstName }}" if boundary.startswith("render") else "An offer for you"
    await scene.launch(provider, ITEMS, batch_size=BATCH, body=body)
    doomed = scene.start_worker(kill_at=boundary, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await doomed.died_of_its_boundary()
    second = scene.start_worker()
    doubts = await scene.comes_to_rest()

    left = NOTHING if provider.dedupes else BOUNDARIES[boundary]
    deliveries = scene.witness.deliveries()
    assert left.least <= len(doubts) <= left.most
    arrived = sum(doubt.reference in deliveries for doubt in doubts)
    assert left.arrived_least <= arrived

    await scene.ends_well()
    await second.stop()


RECOVERIES = {
    Provider.SMS: (
        "load:after:1",
        "open:before:1",
        "open:after:1",
        "call:after:3",
        "close:before:1",
        "close:after:1",
        "settle:before:1",
    ),
    Provider.MAIL: ("load:before:1", "load:after:1", "settle:before:1", "settle:after:1"),
}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("provider", "boundary"),
    [(provider, boundary) for provider, told in RECOVERIES.items() for boundary in told],
)
async def test_a_worker_killed_while_it_recovers_from_another_kill_repeats_nothing(
    scene: Scene, provider: Provider, boundary: str
) -> None:
    await scene.launch(provider, BATCH, batch_size=BATCH)
    first = scene.start_worker(kill_at="call:after:7", close_group_seconds=WHOLE_WINDOW_SECONDS)
    await first.died_of_its_boundary()
    second = scene.start_worker(kill_at=boundary, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await second.died_of_its_boundary()
    third = scene.start_worker()

    doubts = await scene.comes_to_rest()
    assert len(doubts) <= (0 if provider.dedupes else MAIL_WINDOW_ITEMS)
    await scene.ends_well()
    await third.stop()


def test_a_boundary_reads_back_as_it_was_written() -> None:
    assert [str(Boundary.parse(text)) for text in BOUNDARIES] == list(BOUNDARIES)
