"""Workflows at their edges: routes that fail alone, moments in other zones, workers that die."""

import asyncio
import threading
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from outrider.domain.call_results import Rejected
from outrider.domain.ids import DEFAULT_SCOPE, WorkerId
from outrider.domain.states import Channel, ItemStatus
from outrider.domain.submission import AttemptFacts, Contract, MaxAttempts, judge
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.domain.workflow_retry import WorkflowRetry
from outrider.domain.workflows import DomainEvent, RecipientConfig, Relative, RoutePlace
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.engines.local import local_reference
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.transactions.claims import ClaimedLane, Claimer
from outrider.kernel.workflows.event_plan import EventPlan
from outrider.ports.legacy import Composition
from outrider.testing.claims import claim_any
from outrider.testing.clock import FakeClock
from tests.support.eventually import observed_for
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, working
from tests.support.workflows import TO_LEAD, Office, email, office, whatsapp

LEASE = timedelta(seconds=30)
SMS = WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD)
BAD = "{{ nothing.like.it }}"
MEMORY_BYTES = 120_000_000
MANY = RecipientConfig(custom_emails=tuple(f"a{number}@example.test" for number in range(100)))


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


# Routing


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_rule_is_enqueued_whole_or_not_at_all(desk: Office, place: int) -> None:
    steps = [email(order, BAD if order == place else f"step {order}") for order in range(3)]
    await desk.rule("lead_welcome", Channel.EMAIL, *steps)
    await desk.rule("quote_sent", Channel.EMAIL, *steps)
    (route,) = await desk.routed("lead_welcome")
    assert route["decision"] == "failed"
    await desk.routed("quote_sent")
    assert [row.template for row in await desk.notifications()] == ["proposal_email"]


class Raising:
    name, trigger = "raising", "quote_accepted"
    place = RoutePlace(Channel.EMAIL, "agent")

    def compose(self, event: DomainEvent) -> Composition:
        raise RuntimeError(f"a bug that {event.trigger} met")


async def test_a_sender_that_raises_fails_its_own_route_and_no_other(tmp_path: Path) -> None:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        built_in = made.outrider.legacy_senders["quote_accepted"]
        made.outrider.legacy_senders = {"quote_accepted": {**built_in, Raising.place: Raising()}}
        routes = await made.routed("quote_accepted", event_id="e")
        assert {route["audience"]: route["decision"] for route in routes} == {
            "agent": "failed",
            "lead": "legacy",
        }
        assert "RuntimeError: a bug" in ((await made.event("e"))[0].error or "")
        assert [row.template for row in await made.notifications()] == ["thank_you_email"]


class Odd:
    name, trigger = "odd", "quote_accepted"
    place = RoutePlace(Channel.EMAIL, "agent")

    def __init__(self, **composed: Any) -> None:
        self._composed = {"subject": "S", "body": "B", "recipients": TO_LEAD, **composed}

    def compose(self, _event: DomainEvent) -> Composition:
        return Composition(**self._composed)


@pytest.mark.parametrize(
    "composed",
    [{"variables": {"a": object()}}, {"body": None}, {"attachments": ["x"]}, {"body": "\ud800"}],
)
async def test_a_composition_that_cannot_be_kept_fails_alone(
    tmp_path: Path, composed: dict[str, Any]
) -> None:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        built_in = made.outrider.legacy_senders["quote_accepted"]
        made.outrider.legacy_senders = {"quote_accepted": {**built_in, Odd.place: Odd(**composed)}}
        routes = await made.routed("quote_accepted")
        assert {route["audience"]: route["decision"] for route in routes} == {
            "agent": "failed",
            "lead": "legacy",
        }


async def test_error_messages_stay_out_of_the_log(tmp_path: Path) -> None:
    """It may quote an address; its kind and its place say enough."""
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        made.outrider.legacy_senders = {"quote_accepted": {Raising.place: Raising()}}
        with capture_logs() as logs:
            await made.routed("quote_accepted")
    (line,) = [each for each in logs if each["event"] == "legacy_sender_failed"]
    assert "builtins.RuntimeError" in line["errors"][0]
    assert "a bug that" not in str(logs)


class Slow:
    name, trigger = "slow", "visit_booked"
    place = RoutePlace(Channel.SMS, "lead")

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def compose(self, _event: DomainEvent) -> Composition:
        self.begun.set()
        assert self.released.wait(10), "nobody else could go on meanwhile"
        return Composition(None, "Hi", TO_LEAD)


async def test_a_slow_sender_does_not_hold_up_others(tmp_path: Path) -> None:
    """CM: a PDF in letters of their own font takes half a second, and the loop goes on."""
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        sender = Slow()
        made.outrider.legacy_senders = {Slow.trigger: {Slow.place: sender}}
        routing = asyncio.create_task(made.routed("visit_booked"))
        await asyncio.to_thread(sender.begun.wait, 10)
        sender.released.set()
        (route,) = await routing
    assert route["decision"] == "legacy"


class VisitSms:
    name, trigger = "visit_sms", "visit_booked"
    place = RoutePlace(Channel.SMS, "lead")

    def compose(self, _event: DomainEvent) -> Composition:
        return Composition(None, "See you on {{ day }}!", TO_LEAD)


async def test_a_custom_sender_may_be_for_any_channel(tmp_path: Path) -> None:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        made.outrider.legacy_senders = {VisitSms.trigger: {VisitSms.place: VisitSms()}}
        await made.routed("visit_booked", day="Monday")
        (row,) = await made.delivered()
    assert (row.kind, row.template, row.status) == ("sms", "visit_sms", "succeeded")


async def test_an_abandoned_event_keeps_its_reason_and_can_be_routed_again(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    await desk.emit("lead_welcome", event_id="e")
    router = desk.outrider.event_router
    with monkeypatch.context() as patched:

        async def broken(orders: list[object], _: object) -> list[object]:
            if orders:
                raise RuntimeError("the disk is full")
            return []

        patched.setattr(router._planner._executor, "render", broken)
        for _ in range(8):
            await router.route_due()
            clock_of(desk).advance(400)
    stored, _ = await desk.event("e")
    assert stored.status == "failed"
    assert stored.error == "given up after 5 attempts: RuntimeError('the disk is full')"
    assert await desk.outrider.event_intake.reroute(DEFAULT_SCOPE, "e")
    await router.route_due()
    assert (await desk.event("e"))[0].status == "routed"


async def test_an_unreadable_event_ends_and_holds_up_no_other(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    await desk.emit("lead_welcome", event_id="good")
    async with raw_sql(desk.database) as raw:
        await raw.run(
            "INSERT INTO domain_events SELECT '00000000-0000-7000-8000-000000000001', tenant_id,"
            " workspace_id, 'odd', trigger_name, occurred_at, '{\"a\":1e400}', variables,"
            " fingerprint, trace_parent, status, attempts, route_at, routes, error, created_at,"
            " updated_at FROM domain_events"
        )
    for _ in range(8):
        await desk.outrider.event_router.route_due()
        clock_of(desk).advance(400)
    assert (await desk.event("good"))[0].status == "routed"
    odd, _ = await desk.event("odd")
    assert (odd.status, odd.attempts) == ("failed", 6)


async def test_a_postponed_event_is_not_held_by_the_router_that_continues(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    for event_id in ("bad", "slow"):
        await desk.emit("lead_welcome", event_id=event_id)
    router, real = desk.outrider.event_router, desk.outrider.event_router._planner.render
    go, waiting = asyncio.Event(), asyncio.Event()

    async def render(
        plans: Sequence[EventPlan], urls: UnsubscribeUrls | None, now: datetime
    ) -> None:
        if "bad" in {plan.event.event_id for plan in plans}:
            raise RuntimeError("no")
        waiting.set()
        await go.wait()
        await real(plans, urls, now)

    monkeypatch.setattr(router._planner, "render", render)
    routing = asyncio.create_task(router.route_due())
    await waiting.wait()
    assert len(router._kept) == 1
    go.set()
    await routing
    assert (await desk.event("slow"))[0].status == "routed"


@pytest.mark.parametrize("hours", [-8, 5])
async def test_a_time_in_another_zone_is_the_same_time(
    database: str, tmp_path: Path, hours: int
) -> None:
    async with office(database, tmp_path, clock=SteppedClock()) as made:
        await made.rule("appointment", Channel.EMAIL, email(1, timing=Relative("at", 0)))
        due = made.clock.now() + timedelta(hours=12)
        there = timezone(timedelta(hours=hours))
        await made.routed("appointment", at=due.astimezone(there).isoformat())
        async with working(made.outrider):
            await clock_of(made).step(11 * 3_600)
            await observed_for(0.2)
            assert (await made.notification()).attempts == 0
            await clock_of(made).step(3_600)
            await made.until(lambda rows: rows[0].status == "succeeded")


@pytest.mark.parametrize(
    "moment",
    ["9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00"],
)
async def test_a_due_time_at_the_end_of_time_is_routed_at_the_first_attempt(
    database: str, tmp_path: Path, moment: str
) -> None:
    async with office(database, tmp_path) as made:
        steps = email(1), email(2, timing=Relative("at", 0))
        await made.rule("quote_sent", Channel.EMAIL, *steps)
        await made.routed("quote_sent", event_id="e", at=moment)
        stored, _ = await made.event("e")
        assert (stored.status, stored.attempts) == ("routed", 1)


# Memory


async def test_large_events_for_many_are_routed_a_few_at_a_time(tmp_path: Path) -> None:
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        await made.rule("lead_welcome", Channel.EMAIL, email(1, "{{ big }}", recipients=MANY))
        for _ in range(5):
            await made.emit("lead_welcome", big="x" * 200_000)
        await made.rule("appointment", Channel.EMAIL, email(1, recipients=MANY, digest_seconds=60))
        for _ in range(5):
            await made.emit("appointment", big="x" * 200_000)
        for _ in range(10):
            await made.emit("quote_rejected", big=[{"a": 1}] * 25_000)
        tracemalloc.start()
        await made.outrider.event_router.route_due()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(await made.notifications()) == 500
    assert peak < MEMORY_BYTES


# Digests


async def test_a_disabled_rule_sends_no_digest_of_what_it_collected(desk: Office) -> None:
    step = email(1, digest_seconds=60)
    await desk.rule("lead_welcome", Channel.EMAIL, step)
    await desk.routed("lead_welcome")
    await desk.rule("lead_welcome", Channel.EMAIL, step, enabled=False)
    clock_of(desk).advance(61)
    assert await desk.outrider.digester.digest_due() == 1
    assert await desk.notifications() == []
    assert await desk.outrider.digester.digest_due() == 0


async def test_an_event_that_an_older_digest_has_leaves_no_empty_one_behind(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email(1, digest_seconds=60))
    await desk.rule("lead_welcome", Channel.WHATSAPP, whatsapp(1, BAD))
    await desk.routed("lead_welcome", event_id="e")
    clock_of(desk).advance(61)
    await desk.outrider.digester.digest_due()
    keeper = desk.outrider.rule_keeper
    found = await keeper.rules_page(DEFAULT_SCOPE, ("", "", ""), 10)
    [moved] = [each.rule.id for each in found if each.rule.channel is Channel.EMAIL]
    there = WrittenRule("lead_welcome", Channel.EMAIL, "partner")
    await keeper.put_rule(DEFAULT_SCOPE, there, "test", moved)
    await desk.outrider.event_intake.reroute(DEFAULT_SCOPE, "e")
    await desk.outrider.event_router.route_due()
    clock_of(desk).advance(61)
    await desk.outrider.digester.digest_due()
    async with raw_sql(desk.database) as raw:
        assert await raw.run("SELECT error FROM digests WHERE closed_at IS NULL") == []
    assert len(await desk.notifications()) == 1


# Verdicts


WORKFLOW_PATIENCE = WorkflowRetry().patience


def verdict_on(gateway_type: str, reason: str, *, maybe_received: bool) -> tuple[ItemStatus, bool]:
    now = FakeClock().now()
    contract = Contract("t", gateway_type, "u", "realtime", MaxAttempts(50), frozenset())
    facts = AttemptFacts(
        2, now, now, maybe_received, WORKFLOW_PATIENCE.most_attempts,
        WORKFLOW_PATIENCE.final_reasons,
    )  # fmt: skip
    made = judge(contract, GATEWAY_TYPES[gateway_type], facts, Rejected(reason), lambda *_: 60.0)
    return made.status, made.in_doubt


def test_a_refused_credential_after_a_silence_says_nothing_of_the_silence() -> None:
    assert verdict_on("resend", "unauthorized", maybe_received=True) == (ItemStatus.QUEUED, True)
    assert verdict_on("resend", "unauthorized", maybe_received=False) == (ItemStatus.FAILED, False)


@pytest.mark.parametrize("gateway_type", ["twilio_sms", "whatsapp_cloud"])
def test_whom_a_provider_calls_opted_out_is_not_tried_again(gateway_type: str) -> None:
    assert verdict_on(gateway_type, "suppressed", maybe_received=False) == (
        ItemStatus.FAILED,
        False,
    )
