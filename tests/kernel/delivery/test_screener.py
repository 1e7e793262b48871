"""The screen stage of workflow items on both stores, by a clock that the test moves."""

import json
from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog

from outrider.documents.phone_zones import phone_zones
from outrider.documents.policy import parse_policy
from outrider.domain.call_results import Progress
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, WorkerId
from outrider.domain.states import IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.engines.local import local_reference
from outrider.kernel.delivery.capped_lanes import capped_window
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import supported_templates
from outrider.kernel.delivery.unknown_zones import UnknownZones
from outrider.kernel.transactions import closing, reserving
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.jobs import Hold
from outrider.kernel.transactions.screening import Ending, HeldBack
from outrider.legacy.proposal_email import ProposalEmail
from outrider.ports.store import Rows, Statement, Store, Transaction
from outrider.testing.claims import claim_any
from outrider.testing.store_suite.workshop import WORD
from tests.support.foundations import foundation
from tests.support.raw_sql import raw_sql
from tests.support.workflow_scene import LEASE, NOON, WorkflowScene, moment

NIGHT = {"from": "21:00", "to": "08:00"}
TWO_A_DAY = {"messages": 2, "perHours": 24}


class Scene(WorkflowScene):
    def __init__(self, store: Store, database: str) -> None:
        super().__init__(store, database)
        self.keeper = PolicyKeeper(foundation(store, clock=self.clock, ids=self.ids))
        self.screener = Screener(
            foundation(store, clock=self.clock, ids=self.ids), self.keeper, phone_zones,
            UnknownZones(), supported_templates([ProposalEmail()]),
        )  # fmt: skip

    async def set(self, **document: Any) -> None:
        policies = parse_policy(json.dumps(document).encode())
        await self.keeper.put(DEFAULT_SCOPE, policies, "test")

    async def passing(self, lane: ClaimedLane) -> list[OutboxId]:
        passed = await self.screener.screen(lane, await self.due(lane))
        assert not isinstance(passed, Hold)
        return list(passed)

    async def screened(self) -> list[OutboxId]:
        async with self.lane() as lane:
            return await self.passing(lane)

    async def sent(
        self, lane: ClaimedLane, ids: Sequence[OutboxId], **verdict: Any
    ) -> list[OutboxId]:
        """Open an attempt of each that the cap allows, and close it."""
        now = self.clock.now()
        rows = [row for row in await self.due(lane) if row.id in set(ids)]
        capped = capped_window(await self.screener.policies(lane), rows)
        opened = await self.store.write(
            reserving.reopen(lane, ids, None, WORD, now + LEASE, now, capped=capped)
        )
        assert isinstance(opened, list)
        accepted = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
        ended = Verdict(**verdict) if verdict else accepted
        closed = [ClosedAttempt(each.id, each.attempt, lane.fence, now, ended) for each in opened]
        await self.store.write(closing.close(closed, now))
        return [each.id for each in opened]


@pytest.fixture
def scene(store: Store, database: str) -> Scene:
    return Scene(store, database)


def is_about(found: datetime | None, moment: datetime) -> bool:
    """What waits for the same moment goes in its order, a microsecond apart."""
    return found is not None and timedelta(0) <= found - moment < timedelta(milliseconds=1)


async def test_at_night_a_message_waits_until_the_recipients_own_morning(scene: Scene) -> None:
    """It is 23:30 in Amsterdam, and the afternoon in New York."""
    await scene.set(timeZone="Europe/Amsterdam", quietHours=NIGHT)
    scene.clock.advance(9.5 * 3600)
    here = await scene.enqueue("a@example.test")
    there = await scene.enqueue("b@example.test", zone="America/New_York")
    urgent = await scene.enqueue("c@example.test", urgent=True)
    assert set(await scene.screened()) == {there, urgent}
    row = await scene.row(here)
    morning = datetime(2026, 6, 2, 6, tzinfo=UTC)
    assert (row.status, row.waits_for, row.next_attempt_at) == ("queued", "quiet_hours", morning)
    assert row.due_at == morning, "its contract's time begins when it may go"


async def test_a_message_that_waits_for_the_morning_keeps_a_deadline(scene: Scene) -> None:
    """Counted from then. Without one nobody would end it, while it may not be called any more."""
    await scene.set(timeZone="Europe/Amsterdam", quietHours=NIGHT)
    scene.clock.advance(9.5 * 3600)
    waiting = await scene.enqueue("a@example.test")
    async with raw_sql(scene.database) as raw:
        await raw.run("UPDATE channel_outbox SET expires_at = '2026-06-01T22:30:00.000000Z'")
    assert await scene.screened() == []
    assert (await scene.row(waiting)).waits_for == "quiet_hours"
    async with raw_sql(scene.database) as raw:
        ((expires_at,),) = await raw.run("SELECT expires_at FROM channel_outbox")
    assert moment(expires_at) == datetime(2026, 6, 2, 7, tzinfo=UTC)


async def test_a_message_that_waited_is_sent_and_no_longer_says_that_it_waits(
    scene: Scene,
) -> None:
    await scene.set(sendingWindow={"days": ["tue"], "from": "09:00", "to": "17:30"})
    waiting = await scene.enqueue()
    assert await scene.screened() == []
    assert (await scene.row(waiting)).waits_for == "sending_window"
    scene.clock.advance(21 * 3600)
    async with scene.lane() as lane:
        assert await scene.passing(lane) == [waiting]
        await scene.sent(lane, [waiting])
    row = await scene.row(waiting)
    assert (row.status, row.waits_for) == ("sent", None)


async def test_a_retry_is_screened_like_a_first_attempt(scene: Scene) -> None:
    item = await scene.enqueue()
    later = NOON + timedelta(hours=10)
    async with scene.lane() as lane:
        again = {"progress": Progress.ANSWERED, "reason": "busy", "next_attempt_at": later}
        await scene.sent(
            lane, [item], status=ItemStatus.QUEUED, intent_status=IntentStatus.PENDING, **again
        )
    await scene.set(quietHours=NIGHT)
    scene.clock.advance(10 * 3600)
    assert await scene.screened() == []
    row = await scene.row(item)
    assert (row.waits_for, row.reason) == ("quiet_hours", "busy")
    assert row.due_at == NOON, "its contract's time goes on"


async def test_an_item_that_may_have_arrived_is_never_delayed(scene: Scene) -> None:
    silent = await scene.enqueue()
    async with scene.lane() as lane:
        again = {"progress": Progress.SENT_NO_ANSWER, "next_attempt_at": scene.clock.now()}
        await scene.sent(
            lane, [silent], status=ItemStatus.QUEUED, intent_status=IntentStatus.PENDING,
            maybe_received=True, **again,
        )  # fmt: skip
    await scene.set(quietHours={"from": "11:00", "to": "13:00"}, frequencyCap=TWO_A_DAY)
    assert await scene.screened() == [silent]


async def test_beyond_the_cap_messages_wait_until_the_oldest_is_long_enough_ago(
    scene: Scene,
) -> None:
    await scene.set(frequencyCap=TWO_A_DAY)
    first = await scene.enqueue("A@example.test")
    async with scene.lane() as lane:
        await scene.sent(lane, await scene.passing(lane))
    scene.clock.advance(3600)
    second, third = await scene.enqueue(), await scene.enqueue("a@Example.test")
    other = await scene.enqueue("b@example.test")
    urgent = await scene.enqueue(urgent=True)
    async with scene.lane() as lane:
        assert set(await scene.sent(lane, await scene.passing(lane))) == {second, other, urgent}
    row = await scene.row(third)
    assert row.waits_for == "frequency_cap"
    assert is_about(row.next_attempt_at, NOON + timedelta(hours=24))
    scene.clock.advance(23 * 3600 + 1)
    async with scene.lane() as lane:
        assert await scene.sent(lane, await scene.passing(lane)) == []
    row = await scene.row(third)
    assert is_about(row.next_attempt_at, NOON + timedelta(hours=25)), "the urgent one counts too"
    scene.clock.advance(3600)
    async with scene.lane() as lane:
        assert await scene.sent(lane, await scene.passing(lane)) == [third]
    assert (await scene.row(first)).status == "sent"


async def test_beyond_the_cap_messages_are_skipped_if_the_policy_says_so(scene: Scene) -> None:
    await scene.set(frequencyCap={"messages": 1, "perHours": 1, "whenReached": "skip"})
    heard, skipped = await scene.enqueue(), await scene.enqueue()
    rejected = {"status": ItemStatus.FAILED, "intent_status": IntentStatus.REJECTED}
    failing = await scene.enqueue("b@example.test")
    async with scene.lane() as lane:
        assert await scene.sent(lane, [heard, skipped]) == [heard]
        await scene.sent(lane, [failing], progress=Progress.ANSWERED, reason="no", **rejected)
    row = await scene.row(skipped)
    assert (row.status, row.reason, row.next_attempt_at) == ("skipped", "frequency_cap", None)
    assert row.error == "1 messages in 1 h were already sent to this address"
    another = await scene.enqueue("b@example.test")
    async with scene.lane() as lane:
        assert await scene.sent(lane, [another]) == [another], "what was refused was not heard"


async def test_an_unsendable_message_fails_fast_with_its_reason(scene: Scene) -> None:
    good = await scene.enqueue(template="proposal_email")
    reasons = {
        await scene.enqueue(kind="fax", template="fax_send"): "unsupported_kind",
        await scene.enqueue(template="sms_send"): "unsupported_template",
        await scene.enqueue(payload="[]"): "invalid_payload",
        await scene.enqueue(payload='{"subject": "no body"}'): "invalid_payload",
    }
    async with scene.lane() as lane:
        assert await scene.passing(lane) == [good]
        ending = Ending(good, "invalid_payload", "there is no artifact 'quote.pdf'")
        await scene.screener.hold_back(lane, HeldBack([], [], [ending]))
    for outbox_id, reason in reasons.items():
        row = await scene.row(outbox_id)
        assert (row.status, row.reason, row.next_attempt_at) == ("failed", reason, None)
        assert row.error
    row = await scene.row(good)
    assert (row.status, row.reason) == ("failed", "invalid_payload")
    assert row.error == "there is no artifact 'quote.pdf'"
    async with raw_sql(scene.database) as raw:
        [(told,)] = await raw.run(f"SELECT last_error FROM notification_outbox WHERE id = '{good}'")
    assert told == "invalid_payload: there is no artifact 'quote.pdf'"


async def test_a_worker_that_lost_the_lane_holds_nothing_back(scene: Scene) -> None:
    await scene.set(quietHours={"from": "11:00", "to": "13:00"})
    item = await scene.enqueue()
    async with scene.lane() as lane:
        due = await scene.due(lane)
    await claim_any(
        scene.store,
        Claimer(WorkerId("another"), scene.clock.now() + LEASE, local_reference, scene.ids),
        10,
        scene.clock.now(),
    )
    assert await scene.screener.screen(lane, due) is Hold.LOST
    row = await scene.row(item)
    assert (row.waits_for, row.next_attempt_at) == (None, NOON)


async def test_an_unknown_time_zone_is_reported_once_and_the_workspaces_own_is_used(
    scene: Scene,
) -> None:
    await scene.set(timeZone="Asia/Tokyo", quietHours=NIGHT)
    items = [await scene.enqueue(f"{name}@example.test", zone="Mars/Base") for name in ("a", "b")]
    with structlog.testing.capture_logs() as logs:
        assert await scene.screened() == []
        scene.clock.advance(12 * 3600)
        await scene.set(timeZone="UTC", quietHours={"from": "23:00", "to": "01:00"})
        assert await scene.screened() == []
    told = [each["time_zone"] for each in logs if each["event"] == "time_zone_unknown"]
    assert told == ["Mars/Base"]
    for item in items:
        row = await scene.row(item)
        assert is_about(row.next_attempt_at, datetime(2026, 6, 2, 1, tzinfo=UTC))


async def test_a_window_of_items_costs_a_few_statements_however_many_they_are(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.set(
        quietHours={"from": "11:00", "to": "13:00"}, frequencyCap=TWO_A_DAY, timeZone="UTC"
    )
    for number in range(40):
        zone = "Asia/Tokyo" if number % 2 else None
        await scene.enqueue(f"{number % 10}@example.test", zone=zone)
    asked: list[str] = []
    write, read = scene.store.write, scene.store.read

    def noted(transaction: Transaction[Any]) -> Generator[Statement, Rows, Any]:
        statement = next(transaction)
        while True:
            asked.append(statement.name)
            try:
                statement = transaction.send((yield statement))
            except StopIteration as done:
                return done.value

    async with scene.lane() as lane:
        due = await scene.due(lane)
        monkeypatch.setattr(scene.store, "write", lambda each: write(noted(each)))
        monkeypatch.setattr(scene.store, "read", lambda each: read(noted(each)))
        passed = await scene.screener.screen(lane, due)
        monkeypatch.undo()
    assert asked == ["hold_job", "defer_items"]
    assert not isinstance(passed, Hold)
    assert len(passed) == 20
