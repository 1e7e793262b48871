"""The writer thread of SQLite: short transactions first, and large ones have their turn."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from outrider.limits.stores import SQLITE_SHORT_BEFORE_LARGE
from outrider.stores.sqlite.writer_thread import WriterThread


class Scene:
    """A writer that is held up while others queue, and the order in which they were served."""

    def __init__(self) -> None:
        self.writer = WriterThread()
        self.go = threading.Event()
        self.served: list[str] = []
        self.writer.submit(self.go.wait)

    def queue(self, name: str, *, large: bool) -> Future[None]:
        return self.writer.submit(lambda: self.served.append(name), large=large)

    def let_go(self) -> None:
        self.go.set()
        self.writer.shutdown()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.let_go()


def test_what_is_short_goes_first_and_otherwise_who_came_first(scene: Scene) -> None:
    scene.queue("window 1", large=True)
    scene.queue("window 2", large=True)
    scene.queue("claim", large=False)
    scene.queue("message", large=False)
    scene.let_go()
    assert scene.served == ["claim", "message", "window 1", "window 2"]


def test_a_large_one_waits_for_so_many_short_ones_and_no_more(scene: Scene) -> None:
    scene.queue("window", large=True)
    for number in range(2 * SQLITE_SHORT_BEFORE_LARGE):
        scene.queue(f"short {number}", large=False)
    scene.let_go()
    # The one that held up the writer was short too.
    assert scene.served.index("window") == SQLITE_SHORT_BEFORE_LARGE - 1


def test_an_error_is_its_own_and_the_next_is_served(scene: Scene) -> None:
    def fail() -> None:
        raise ValueError("no")

    failed, served = scene.writer.submit(fail), scene.queue("next", large=False)
    scene.let_go()
    assert isinstance(failed.exception(), ValueError)
    assert served.exception() is None


def test_whoever_gave_up_waiting_is_not_served(scene: Scene) -> None:
    assert scene.queue("gone", large=False).cancel()
    scene.let_go()
    assert scene.served == []


def test_a_closed_writer_takes_nothing(scene: Scene) -> None:
    scene.let_go()
    with pytest.raises(RuntimeError, match="closed"):
        scene.queue("late", large=False)
