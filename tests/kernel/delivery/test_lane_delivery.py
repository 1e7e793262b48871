"""Lanes at their edges: late answers, verdicts that race with a release, and lost holders."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Progress
from outrider.domain.ids import DEFAULT_SCOPE, WorkerId, intent_key
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.engines.local import local_reference
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import closing, doubts, ledger, lost_jobs, reserving, submissions
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.submissions import DueItem
from outrider.limits.campaigns import LANES_PER_TARGET
from outrider.testing.claims import claim_any
from outrider.testing.launches import target
from outrider.testing.store_suite.workshop import WORD
from tests.support.eventually import observed_for
from tests.support.intents import at_work, ended, opened, submit, until

LEASE = timedelta(seconds=30)
IDLE_SECONDS = 0.5


def now() -> datetime:
    return datetime.now(UTC)


async def claim(outrider: Outrider, worker: str) -> ClaimedLane:
    # By the clock that lanes are woken by, which may be ahead of this machine's.
    began = outrider.clock.now()
    claimed = await claim_any(
        outrider.store,
        Claimer(WorkerId(worker), began + LEASE, local_reference, outrider.ids),
        10,
        began,
    )
    [lane] = [each for each in claimed if isinstance(each, ClaimedLane)]
    return lane


async def open_only_item(outrider: Outrider, lane: ClaimedLane) -> DueItem:
    began = outrider.clock.now()
    [row] = await outrider.store.read(submissions.due(lane, 10, began))
    assert await outrider.store.write(
        reserving.reopen(lane, [row.id], None, WORD, began + LEASE, began)
    )
    return row


async def lose(outrider: Outrider, worker: str) -> ClaimedLane:
    """That worker's lane goes to another, who doubts what was left open and lets go again."""
    await outrider.store.write(
        lost_jobs.rescue_from([worker], WorkerId("rescuer"), outrider.ids, now())
    )
    taken = await claim(outrider, "another")
    [row] = await outrider.store.read(submissions.due(taken, 10, now()))
    await outrider.store.write(ledger.doubt(taken, [row.id], now()))
    return taken


async def answer(outrider: Outrider, lane: ClaimedLane, row: DueItem, verdict: Verdict) -> None:
    closed = ClosedAttempt(row.id, row.attempts + 1, lane.fence, now(), verdict)
    await outrider.store.write(closing.close([closed], now()))


@pytest.mark.parametrize(
    "again",
    [
        Verdict(
            ItemStatus.QUEUED, IntentStatus.PENDING, Progress.ANSWERED, "message_refused",
            next_attempt_at=now(),
        ),
        Verdict(
            ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, "target_throttled",
            given_back=True, counts_as_call=True,
        ),
        Verdict(ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, given_back=True),
    ],
    ids=["rejected", "throttled", "withheld"],
)  # fmt: skip
async def test_a_late_answer_that_asks_for_a_retry_wakes_the_lane(
    database: str, tmp_path: Path, again: Verdict
) -> None:
    async with Sandbox() as sandbox:
        entry = target("mail", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, entry) as outrider:
            await submit(outrider, "a", "mail", to="a@example.test", subject="S", body="B")
            lost = await claim(outrider, "lost")
            row = await open_only_item(outrider, lost)
            taken = await lose(outrider, "lost")
            assert await outrider.store.write(submissions.release(taken, now(), now()))
            await answer(outrider, lost, row, again)
            async with at_work(outrider):
                intent, _ = await until(outrider, "a", ended)
        assert intent.status == "ACCEPTED"
        assert sandbox.requests == 1


async def test_a_verdict_while_the_lane_is_held_is_not_forgotten_at_its_release(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox:
        entry = target("mail", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, entry) as outrider:
            await submit(outrider, "a", "mail", to="a@example.test", subject="S", body="B")
            row = await open_only_item(outrider, await claim(outrider, "lost"))
            taken = await lose(outrider, "lost")
            resolved = await outrider.store.write(
                doubts.resolve(
                    DEFAULT_SCOPE, [row.id], DoubtVerdict.RESUBMIT, "their log", "test",
                    outrider.ids, now(),
                )
            )  # fmt: skip
            assert resolved == [row.id]
            assert await outrider.store.write(submissions.release(taken, now(), now()))
            async with at_work(outrider):
                intent, _ = await until(outrider, "a", ended)
        assert intent.status == "ACCEPTED"


async def test_an_acceptance_counts_even_after_a_verdict_said_it_never_arrived(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox() as sandbox:
        entry = target("mail", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, entry) as outrider:
            await submit(outrider, "a", "mail", to="a@example.test", subject="S", body="B")
            lost = await claim(outrider, "lost")
            row = await open_only_item(outrider, lost)
            taken = await lose(outrider, "lost")
            await outrider.store.write(
                doubts.resolve(
                    DEFAULT_SCOPE, [row.id], DoubtVerdict.RESUBMIT, "a guess", "test",
                    outrider.ids, now(),
                )
            )  # fmt: skip
            accepted = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
            await answer(outrider, lost, row, accepted)
            await outrider.store.write(submissions.release(taken, now(), now()))
            async with at_work(outrider):
                intent, _ = await until(outrider, "a", ended)
                await observed_for(0.1)
        assert intent.item_status == "sent"
        assert sandbox.requests == 0


async def test_a_lane_with_nothing_to_do_is_not_claimed_again_and_again(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("sms", "noop", "noop:")) as outrider:
        async with at_work(outrider):
            await submit(outrider, "a", to="x")
            await until(outrider, "a", ended)
            await observed_for(IDLE_SECONDS)
        await submit(outrider, _of_the_same_lane_as("a"), to="x")
        lane = await claim(outrider, "counter")
        # Each claim raises the fence by one: for the first intent, perhaps once more, and now.
        assert 2 <= lane.fence <= 3


def _of_the_same_lane_as(intent_id: str) -> str:
    def lane(name: str) -> int:
        return int(intent_key(name)[:8], 16) % LANES_PER_TARGET

    return next(
        name for name in (f"b-{number}" for number in range(100)) if lane(name) == lane(intent_id)
    )
