"""ARCHITECTURE.md's walks are what the code does: each door is used, and its functions are called
in the order in which the document lists them."""

import asyncio
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import launch, message, people, target
from tests.support.whole_runs import items_of, opened, work_until_terminal, working
from tests.support.workflows import LEAD, email, office

ROOT = Path(__file__).parents[2]
SOURCE = str(ROOT / "src/outrider")
PATIENCE_SECONDS = 60
_WALK = re.compile(r"^### (.+?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_STOP = re.compile(r"^\| \d+ \| `(src/[\w/.]+)` \| `([\w.]+)` \|", re.MULTILINE)


class Stop(NamedTuple):
    path: str
    function: str


def walks() -> dict[str, list[Stop]]:
    """The walks of the document by their heading."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    chapter = text.partition("\n## A walk for each door\n")[2]
    found = {
        name: [Stop(*stop) for stop in _STOP.findall(part)] for name, part in _WALK.findall(chapter)
    }
    return {name: stops for name, stops in found.items() if stops}


@contextmanager
def calls_noted() -> Iterator[list[Stop]]:
    """Every call of a function of the package, in all threads that begin meanwhile."""
    calls: list[Stop] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            path = code.co_filename.removeprefix(f"{ROOT}/")
            calls.append(Stop(path, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def first_not_reached(walk: Sequence[Stop], calls: Sequence[Stop]) -> Stop | None:
    """The first function of the walk that was not called after the one before it."""
    remaining = iter(calls)
    return next((stop for stop in walk if stop not in remaining), None)


async def a_campaign_message(folder: Path) -> None:
    database = f"sqlite:///{folder}/outrider.db"
    async with opened(database, folder, target("noop", "noop", "noop:")) as outrider:
        run_id = await launch(outrider, [message(Channel.SMS, "noop")], people(3))
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == 3


async def an_intent(folder: Path) -> None:
    database = f"sqlite:///{folder}/outrider.db"
    async with (
        opened(database, folder, target("noop", "noop", "noop:")) as outrider,
        working(outrider),
    ):
        payload = {"to": "+447700900123", "message": "Hello"}
        submission = Submission("intent-1", "noop", payload)
        await outrider.submissions.submit(DEFAULT_SCOPE, submission)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "intent-1")
                if intent.status != "PENDING":
                    break
                await asyncio.sleep(0.01)
        assert intent.status == "ACCEPTED"


async def a_domain_event(folder: Path) -> None:
    async with office(f"sqlite:///{folder}/outrider.db", folder) as made:
        await made.rule("quote.created", Channel.EMAIL, email())
        emission = Emission("event-1", "quote.created", {"lead": LEAD}, {})
        async with working(made.outrider):
            await made.outrider.event_intake.emit(DEFAULT_SCOPE, emission)
            rows = await made.until(lambda rows: [row.status for row in rows] == ["succeeded"])
        assert len(rows) == 1


async def a_receipt(folder: Path) -> None:
    database = f"sqlite:///{folder}/outrider.db"
    async with opened(database, folder, target("noop", "noop", "noop:")) as outrider:
        run_id = await launch(outrider, [message(Channel.SMS, "noop")], people(1))
        await work_until_terminal(outrider, run_id)
        (item,) = (await items_of(outrider, run_id)).values()
        bounce = Receipt(
            "r-1", ReceiptEvent.BOUNCED, reference=item.reference, permanent=True, reason="gone"
        )
        await outrider.receipt_intake.take_in(DEFAULT_SCOPE, "noop", [bounce])
        outcome = await outrider.receipt_matcher.match_due()
        assert outcome.matched == 1


DOORS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "A campaign message": a_campaign_message,
    "An intent": an_intent,
    "A domain event": a_domain_event,
    "A receipt": a_receipt,
}


def test_there_is_a_walk_for_each_door() -> None:
    assert walks().keys() == DOORS.keys()


@pytest.mark.parametrize("name", DOORS)
async def test_a_walk_calls_what_it_lists_in_order(name: str, tmp_path: Path) -> None:
    with calls_noted() as calls:
        await DOORS[name](tmp_path)
    walk = walks()[name]
    assert len(walk) > 5
    assert first_not_reached(walk, calls) is None


def test_a_function_that_is_not_called_or_too_early_is_found() -> None:
    first, second = Stop("a.py", "first"), Stop("b.py", "second")
    assert first_not_reached([first, second], [first, second]) is None
    assert first_not_reached([first, second], [second, first]) == second
    assert first_not_reached([first], []) == first
