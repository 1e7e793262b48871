"""The writer thread of SQLite: short transactions first, and large ones have their turn."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.delivery.right_of_way import RightOfWay
from outrider.kernel.submissions.submission_manager import Submission
from outrider.limits.stores import SQLITE_SHORT_BEFORE_LARGE
from outrider.stores.sqlite import writer_thread
from outrider.stores.sqlite.writer_thread import WriterThread
from outrider.testing.launches import target
from tests.support.intents import opened


class Scene:
    """A writer that is held up while others queue, and the order in which they were served."""

    def __init__(self) -> None:
        self.writer = WriterThread()
        self.go = threading.Event()
        self.served: list[str] = []
        self.writer.submit(self.go.wait)

    def queue(self, name: str, *, large: bool) -> Future[None]:
        return self.writer.submit(lambda: self.served.append(name), large=large)

    def release(self) -> None:
        self.go.set()
        self.writer.shutdown()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.release()


def test_short_transactions_go_first_and_otherwise_the_oldest(scene: Scene) -> None:
    scene.queue("window 1", large=True)
    scene.queue("window 2", large=True)
    scene.queue("claim", large=False)
    scene.queue("message", large=False)
    scene.release()
    assert scene.served == ["claim", "message", "window 1", "window 2"]


def test_a_large_transaction_waits_for_a_limited_number_of_short_ones(scene: Scene) -> None:
    scene.queue("window", large=True)
    for number in range(2 * SQLITE_SHORT_BEFORE_LARGE):
        scene.queue(f"short {number}", large=False)
    scene.release()
    # The one that held up the writer was short too.
    assert scene.served.index("window") == SQLITE_SHORT_BEFORE_LARGE - 1


def test_an_error_is_its_own_and_the_next_is_served(scene: Scene) -> None:
    def fail() -> None:
        raise ValueError("no")

    failed, served = scene.writer.submit(fail), scene.queue("next", large=False)
    scene.release()
    assert isinstance(failed.exception(), ValueError)
    assert served.exception() is None


def test_a_caller_that_gave_up_waiting_is_not_served(scene: Scene) -> None:
    assert scene.queue("gone", large=False).cancel()
    scene.release()
    assert scene.served == []


def test_a_closed_writer_takes_nothing(scene: Scene) -> None:
    scene.release()
    with pytest.raises(RuntimeError, match="closed"):
        scene.queue("late", large=False)


def test_no_large_transaction_starts_between_the_short_ones_of_a_message(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_thread, "SQLITE_LARGE_WAIT_SECONDS", 60.0)
    is_taken = threading.Event()
    is_taken.set()
    scene.writer.gives_way = is_taken.is_set
    window = scene.queue("window", large=True)
    submitted = scene.queue("submit", large=False)
    scene.go.set()
    submitted.result(10)
    scene.queue("open", large=False).result(10)
    assert not window.done()
    is_taken.clear()
    window.result(10)
    assert scene.served == ["submit", "open", "window"]


def test_a_large_one_waits_only_for_a_moment(scene: Scene) -> None:
    scene.writer.gives_way = lambda: True
    window = scene.queue("window", large=True)
    scene.go.set()
    window.result(10)


async def test_many_single_messages_at_once_do_not_wait_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were as large as a campaign's window, and a large window waits for single messages."""
    monkeypatch.setattr(writer_thread, "SQLITE_LARGE_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(RightOfWay, "is_taken", True)
    entry = target("sms", "noop", "noop:", mode="realtime")
    many = [Submission(f"order-{n}", "sms", {"to": f"{n}", "message": "Hi"}) for n in range(200)]
    database = f"sqlite:///{tmp_path}/outrider.db"
    async with opened(database, tmp_path, entry) as outrider, asyncio.timeout(30):
        # The first ones find their lanes, with other statements.
        await outrider.submissions.submit_all(DEFAULT_SCOPE, many[:100])
        answers = await outrider.submissions.submit_all(DEFAULT_SCOPE, many[100:])
    assert len(answers) == 100
