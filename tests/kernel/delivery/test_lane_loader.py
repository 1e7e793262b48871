"""The lane loader: reads what is due in a lane, in order; what cannot go waits or is in doubt."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from outrider.documents.policy import parse_policy
from outrider.domain.ids import DEFAULT_SCOPE, WorkerId
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.states import Channel
from outrider.domain.written_workflows import WrittenStep
from outrider.engines.local import local_reference
from outrider.kernel.transactions import lost_jobs, reserving, submissions
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.testing.claims import claim_any
from outrider.testing.store_suite.workshop import WORD
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, working
from tests.support.workflows import TO_LEAD, Office, email, office, whatsapp

LEASE = timedelta(seconds=30)
SMS = WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Office]:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path, clock=SteppedClock()) as made:
        yield made


def clock_of(desk: Office) -> SteppedClock:
    assert isinstance(desk.clock, SteppedClock)
    return desk.clock


async def claimed(desk: Office) -> ClaimedLane:
    now, outrider = desk.clock.now(), desk.outrider
    found = await claim_any(
        outrider.store,
        Claimer(WorkerId("lost"), now + LEASE, local_reference, outrider.ids),
        10,
        now,
    )
    [lane] = [each for each in found if isinstance(each, ClaimedLane)]
    return lane


async def test_steps_keep_their_order_when_quiet_hours_held_them_back(desk: Office) -> None:
    quiet = parse_policy(b'{"quietHours": {"from": "00:00", "to": "02:00"}}')
    await desk.outrider.policy_keeper.put(DEFAULT_SCOPE, quiet, "test")
    steps = [email(order, f"step {order}") for order in range(9, 0, -1)]
    await desk.rule("lead_welcome", Channel.EMAIL, *steps)
    await desk.routed("lead_welcome")
    async with working(desk.outrider):
        await desk.until(lambda rows: {row.waits_for for row in rows} == {"quiet_hours"})
    clock_of(desk).advance(7_201)
    lane, now = await claimed(desk), desk.clock.now()
    due = await desk.outrider.store.read(submissions.due(lane, 100, now))
    bodies = [msgspec.json.decode(item.payload)["body"] for item in due]
    assert bodies == [f"step {order}" for order in range(1, 10)]


async def test_items_of_a_target_without_its_secret_wait_and_say_for_what(desk: Office) -> None:
    """F3: they failed at once, and mending the secret brought none of them back."""
    token = desk.outrider.settings.registry.parent / "token"
    secret = token.read_text()
    token.unlink()
    await desk.rule("lead_welcome", Channel.WHATSAPP, whatsapp())
    await desk.routed("lead_welcome")
    async with working(desk.outrider):
        (row,) = await desk.until(lambda rows: rows[0].waits_for == "target_setup")
        assert (row.status, row.attempts) == ("pending", 0)
        token.write_text(secret)
        clock_of(desk).advance(60)
        (row,) = await desk.until(lambda rows: rows[0].status == "succeeded")
    assert row.attempts == 1


async def test_an_abandoned_unreadable_item_is_in_doubt_and_its_lane_continues(
    desk: Office,
) -> None:
    await desk.rule("lead_welcome", Channel.SMS, SMS)
    await desk.routed("lead_welcome")
    async with raw_sql(desk.database) as raw:
        await raw.run(
            "UPDATE channel_outbox SET maybe_received = 1, attempts = 1, payload = '{\"body\": 7}'"
        )
    await desk.routed("lead_welcome")
    async with working(desk.outrider):
        await desk.until(lambda rows: "succeeded" in {row.status for row in rows})
    assert len([each async for each in desk.outrider.doubt_resolver.doubts(DEFAULT_SCOPE)]) == 1


async def test_an_item_that_killed_a_worker_at_every_repeat_is_in_doubt_and_not_called_again(
    desk: Office,
) -> None:
    """S2: and its contract has still counted one attempt."""
    await desk.rule("lead_welcome", Channel.SMS, SMS)
    await desk.routed("lead_welcome")
    store, ids = desk.outrider.store, desk.outrider.ids
    for _ in range(1 + CALL_REPEATS_MAX):
        lane, now = await claimed(desk), desk.clock.now()
        due = await store.read(submissions.due(lane, 10, now))
        found = [each.id for each in due]
        await store.write(reserving.reopen(lane, found, None, WORD, now + LEASE, now))
        clock_of(desk).advance(400)
        later = desk.clock.now()
        await store.write(lost_jobs.rescue_expired(later, WorkerId("rescuer"), ids, later))
    async with working(desk.outrider):
        (row,) = await desk.until(lambda rows: rows[0].last_error is not None)
    assert (row.attempts, row.last_error) == (1, "worker_lost_repeatedly")
    assert desk.sandbox.requests == 0
