"""Contract 004, clause by clause: from a domain event to messages that are sent, or not."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from outrider.domain.addressees import addressees
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import SkipReason
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import WorkflowRetry
from outrider.domain.workflows import (
    Delay,
    DomainEvent,
    DomainEventId,
    RecipientConfig,
    Relative,
    RuleId,
    StepId,
    WorkflowStep,
    in_order,
)
from outrider.domain.written_workflows import WrittenStep
from outrider.kernel.transactions import domain_events
from outrider.ports.store import Result, Store, Transaction
from outrider.testing.slow_store import script_name
from tests.support.eventually import observed_for
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, SteppedClock, working
from tests.support.workflows import (
    AGENT,
    LEAD,
    PARTNER,
    TO_LEAD,
    Notification,
    Office,
    email,
    office,
    whatsapp,
)

FAILED_TO_SCHEDULE = "retry_scheduling_failed"
START = datetime(2026, 1, 1, tzinfo=UTC)
BACKOFF_MINUTES = (1, 2, 4, 8, 16)
LEASE_SECONDS = 3_600.0
LONG_LEASES = replace(
    IMPATIENT,
    # The clock is the test's: no lease may run out because a busy machine looks on for long.
    lease_seconds=LEASE_SECONDS, heartbeat_seconds=LEASE_SECONDS / 3,
    stale_lock_seconds=LEASE_SECONDS,
)  # fmt: skip


class Unclosing:
    """A store that takes everything but how a call ended."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.refusals = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, transaction: Transaction[Result]) -> Result:
        if script_name(transaction) == "close":
            self.refusals += 1
            raise StoreUnavailable("it cannot be written")
        return await self._store.write(transaction)


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    """On both stores, by the real clock."""
    async with office(database, tmp_path) as made:
        yield made


@pytest.fixture
async def stepped(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    """On both stores; time is the test's to move."""
    async with office(database, tmp_path, clock=SteppedClock(), limits=LONG_LEASES) as made:
        yield made


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Office]:
    """On SQLite alone, for what no SQL decides."""
    async with office(f"sqlite:///{tmp_path}/office.db", tmp_path) as made:
        yield made


def step(number: int, order: int, age: int, *, enabled: bool = True) -> WorkflowStep:
    return WorkflowStep(
        StepId(f"step-{number}"), RuleId("rule"), order, Channel.EMAIL, "body",
        START - timedelta(days=age), enabled,
    )  # fmt: skip


def sms() -> WrittenStep:
    return WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD)


def event(**subject: Any) -> DomainEvent:
    return DomainEvent(DomainEventId("id"), "event", "quote_sent", START, subject, {})


def pending_after(attempts: int) -> Callable[[list[Notification]], bool]:
    return lambda rows: (rows[0].status, rows[0].attempts) == ("pending", attempts)


def is_at(row: Notification, moment: datetime) -> bool:
    """The view's times are texts in SQLite."""
    found = row.run_at if isinstance(row.run_at, datetime) else datetime.fromisoformat(row.run_at)
    return abs(found - moment) < timedelta(milliseconds=1)


# Step scheduling flow


@pytest.mark.parametrize("trigger", ["lead_welcome", "quote_sent", "appointment"])
async def test_the_executor_serves_lead_welcome_quote_sent_and_appointment(
    small: Office, trigger: str
) -> None:
    await small.rule(trigger, Channel.EMAIL, email())
    (route,) = await small.routed(trigger)
    assert (route["decision"], route["items"]) == ("steps", 1)
    assert (await small.notification()).payload["body"] == "Hello Ada"


async def test_an_event_becomes_one_or_more_steps(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email(1), email(2), email(3))
    await desk.routed("lead_welcome")
    assert len(await desk.notifications()) == 3


def test_steps_are_ordered_by_step_order_ascending_then_by_created_at_ascending() -> None:
    steps = [step(1, 2, 9), step(2, 1, 1), step(3, 1, 5), step(4, 0, 0)]
    assert [each.id for each in in_order(steps)] == ["step-4", "step-3", "step-2", "step-1"]
    assert in_order(steps[::-1]) == in_order(steps)


async def test_steps_are_enqueued_and_due_in_their_order(desk: Office) -> None:
    """Written down in another order than theirs; the second and third are of one order."""
    written = [email(5, "last"), email(1, "first"), email(1, "second")]
    await desk.rule("lead_welcome", Channel.EMAIL, *written)
    await desk.routed("lead_welcome")
    bodies = [row.payload["body"] for row in await desk.notifications()]
    assert bodies == ["first", "second", "last"]


async def test_only_enabled_steps_are_enqueued(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email(1, enabled=False), email(2, "second"))
    await desk.routed("lead_welcome")
    assert (await desk.notification()).payload["body"] == "second"


async def test_subject_and_body_are_rendered_with_the_events_variables(small: Office) -> None:
    made = email(1, "{{ lead.firstName }}: {{ quote.total }}", subject="Quote {{ quote.number }}")
    await small.rule("quote_sent", Channel.EMAIL, made)
    await small.routed("quote_sent", quote={"number": "Q-7", "total": 12})
    assert (await small.notification()).payload == {"subject": "Quote Q-7", "body": "Ada: 12"}


@pytest.mark.parametrize(
    ("channel", "kind", "template"),
    [
        (Channel.WHATSAPP, "whatsapp", "whatsapp_send"),
        (Channel.EMAIL, "email", "email_send"),
        (Channel.SMS, "sms", "sms_send"),
    ],
)
async def test_outbox_records_are_created_by_channel_with_its_kind_and_template(
    small: Office, channel: Channel, kind: str, template: str
) -> None:
    subject = "News" if channel is Channel.EMAIL else None
    made = WrittenStep(1, channel, "Hi", subject=subject, recipients=TO_LEAD)
    await small.rule("lead_welcome", channel, made)
    await small.routed("lead_welcome")
    row = await small.notification()
    assert (row.kind, row.template) == (kind, template)


# Recipient matrix


MATRIX: list[tuple[RecipientConfig, Channel, list[str | None]]] = [
    (RecipientConfig(include_lead_contact=True), Channel.EMAIL, ["Ada@example.test"]),
    (RecipientConfig(include_lead_contact=True), Channel.WHATSAPP, ["+447700900123"]),
    (RecipientConfig(include_partner=True), Channel.EMAIL, ["bo@partner.test"]),
    (RecipientConfig(include_partner=True), Channel.WHATSAPP, ["+447700900456"]),
    (RecipientConfig(include_agent=True), Channel.EMAIL, ["cy@agency.test"]),
    (RecipientConfig(custom_emails=("x@y.test",)), Channel.EMAIL, ["x@y.test"]),
    (RecipientConfig(custom_emails=("x@y.test",)), Channel.WHATSAPP, []),
    (RecipientConfig(custom_phones=("+447700900999",)), Channel.WHATSAPP, ["+447700900999"]),
    (RecipientConfig(custom_phones=("+447700900999",)), Channel.EMAIL, []),
    (
        RecipientConfig(True, True, custom_emails=("x@y.test",)),
        Channel.EMAIL,
        ["Ada@example.test", "bo@partner.test", "x@y.test"],
    ),
    (RecipientConfig(), Channel.EMAIL, []),
]


@pytest.mark.parametrize(("config", "channel", "expected"), MATRIX)
def test_recipients_are_resolved_from_the_recipient_config(
    config: RecipientConfig, channel: Channel, expected: list[str | None]
) -> None:
    found = addressees(config, channel, event(lead=LEAD, partner=PARTNER, agent=AGENT))
    assert [each.address for each in found] == expected
    assert all(each.skip is None for each in found)


def test_lead_and_partner_are_included_when_they_have_an_address() -> None:
    config = RecipientConfig(include_lead_contact=True, include_partner=True)
    found = addressees(config, Channel.WHATSAPP, event(lead=LEAD, partner={"email": "a@b.test"}))
    assert [(each.address, each.skip) for each in found] == [
        ("+447700900123", None),
        (None, SkipReason.NO_ADDRESS),
    ]


def test_recipients_are_de_duplicated_case_insensitively() -> None:
    config = RecipientConfig(True, True, custom_emails=("ADA@example.TEST", "new@y.test"))
    told = event(lead=LEAD, partner={"email": "ada@EXAMPLE.test"})
    addresses = [each.address for each in addressees(config, Channel.EMAIL, told)]
    assert addresses == ["Ada@example.test", "new@y.test"]


def test_phones_are_de_duplicated_by_their_number() -> None:
    config = RecipientConfig(True, custom_phones=("+44 (7700) 900-123", "+447700900999"))
    addresses = [each.address for each in addressees(config, Channel.SMS, event(lead=LEAD))]
    assert addresses == ["+447700900123", "+447700900999"]


async def test_each_recipient_gets_the_message_once(desk: Office) -> None:
    config = RecipientConfig(True, True, custom_emails=("ADA@example.TEST",))
    await desk.rule("lead_welcome", Channel.EMAIL, email(recipients=config))
    await desk.routed("lead_welcome")
    rows = await desk.delivered()
    assert sorted(row.recipient or "" for row in rows) == ["Ada@example.test", "bo@partner.test"]
    assert desk.sandbox.received()["delivered"] == 2


# Outbox delivery flow


async def test_pending_records_are_claimed_processed_with_a_counted_attempt_and_succeed(
    stepped: Office,
) -> None:
    await stepped.rule("lead_welcome", Channel.EMAIL, email())
    await stepped.routed("lead_welcome")
    row = await stepped.notification()
    assert (row.status, row.attempts) == ("pending", 0)
    stepped.sandbox.change_faults({"latencyMs": 400})
    async with working(stepped.outrider):
        (row,) = await stepped.until(lambda rows: rows[0].status == "processing")
        assert row.attempts == 1
        (row,) = await stepped.until(lambda rows: rows[0].status != "processing")
    assert (row.status, row.attempts, row.last_error) == ("succeeded", 1, None)


# Retry and failure policy


def test_after_the_first_call_there_are_five_more_attempts_with_all_five_waits() -> None:
    """C8: with five calls the wait of sixteen minutes would never be used."""
    assert [each / 60 for each in WorkflowRetry().waits_seconds()] == [*BACKOFF_MINUTES]
    assert WorkflowRetry().patience.most_attempts == 6


def test_the_backoff_is_1_2_4_8_16_minutes_capped_at_60() -> None:
    schedule = WorkflowRetry().patience.schedule
    minutes = [schedule.delay_seconds(attempts) / 60 for attempts in range(1, 9)]
    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_transient_error_sets_it_back_to_pending_until_attempts_run_out(
    stepped: Office,
) -> None:
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.SMS, sms())
    await stepped.routed("lead_welcome")
    stepped.sandbox.change_faults({"failRate": 1.0})
    with capture_logs() as logs:
        async with working(stepped.outrider):
            for attempt, minutes in enumerate(BACKOFF_MINUTES, start=1):
                (row,) = await stepped.until(pending_after(attempt))
                waits = _moment(row) - clock.now()
                assert timedelta(minutes=minutes, seconds=-5) < waits <= timedelta(minutes=minutes)
                await clock.step(waits.total_seconds())
            (row,) = await stepped.until(lambda rows: rows[0].status == "failed")
    assert (row.attempts, stepped.sandbox.requests) == (6, 6)
    scheduled = [line for line in logs if line["event"] == "retry_scheduled"]
    assert [line["attempt"] for line in scheduled] == [1, 2, 3, 4, 5]
    assert all(line["next_retry_at"] for line in scheduled)
    (exhausted,) = [line for line in logs if line["event"] == "retries_exhausted"]
    assert (exhausted["attempt"], exhausted["ended_by"]) == (6, "max_attempts")


async def test_a_retry_that_succeeds_ends_it(stepped: Office) -> None:
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.SMS, sms())
    await stepped.routed("lead_welcome")
    stepped.sandbox.change_faults({"failRate": 1.0})
    async with working(stepped.outrider):
        await stepped.until(pending_after(1))
        stepped.sandbox.change_faults({"failRate": 0.0})
        await clock.step(61)
        (row,) = await stepped.until(lambda rows: rows[0].status == "succeeded")
    assert row.attempts == 2
    assert stepped.sandbox.received()["delivered"] == 1


async def test_a_mail_server_that_asks_to_retry_later_uses_up_no_attempt(stepped: Office) -> None:
    """However often it says so."""
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.EMAIL, email())
    await stepped.routed("lead_welcome")
    stepped.sandbox.change_faults({"throttleRate": 1.0})
    async with working(stepped.outrider):
        for refusals in range(1, 8):
            (row,) = await stepped.until(
                lambda rows, refusals=refusals: (  # type: ignore[misc]
                    stepped.sandbox.requests >= refusals and rows[0].status == "pending"
                )
            )
            assert (row.attempts, row.waits_for) == (0, "target_throttled")
            assert (row.last_error or "").startswith("target_throttled: 450 ")
            await clock.step(60)
        stepped.sandbox.change_faults({"throttleRate": 0.0})
        (row,) = await stepped.until(lambda rows: rows[0].status == "succeeded")
    assert row.attempts == 1
    assert stepped.sandbox.received()["delivered"] == 1


@pytest.mark.parametrize(
    "payload", ["[]", '{"subject": "S"}', '{"body": 5}', '{"body": "b", "attachments": [{}]}']
)
async def test_an_invalid_payload_fails_at_once(small: Office, payload: str) -> None:
    await small.rule("lead_welcome", Channel.EMAIL, email())
    await small.routed("lead_welcome")
    async with raw_sql(small.database) as raw:
        await raw.run(f"UPDATE channel_outbox SET payload = '{payload}'")
    (row,) = await small.delivered()
    assert (row.status, row.attempts) == ("failed", 0)
    assert (row.last_error or "").startswith("invalid_payload: ")
    assert small.sandbox.requests == 0


async def test_a_message_that_the_provider_calls_invalid_fails_at_once(desk: Office) -> None:
    """Whatever the target's contract would retry."""
    lead = {**LEAD, "email": "reject@example.test"}
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    await desk.routed("lead_welcome", subject={"lead": lead})
    (row,) = await desk.delivered()
    assert (row.status, row.attempts) == ("failed", 1)
    assert (row.last_error or "").startswith("invalid_recipient")


async def own_door_opens_at(office: Office) -> datetime:
    """The door of the workspace, once it is closed; that of all others opens earlier."""
    async with asyncio.timeout(60):
        while True:
            doors = (await office.outrider.target_keeper.overview()).doors
            for key, door in doors.items():
                if key.workspace_id and door.opens_at is not None:
                    return door.opens_at
            await asyncio.sleep(0.01)


async def test_retry_after_is_honoured(stepped: Office) -> None:
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.SMS, sms())
    await stepped.routed("lead_welcome")
    stepped.sandbox.change_faults({"throttleRate": 1.0, "retryAfterSeconds": 600})
    async with working(stepped.outrider):
        (row,) = await stepped.until(
            lambda rows: (rows[0].status, rows[0].waits_for) == ("pending", "target_throttled")
        )
        assert row.attempts == 0
        stepped.sandbox.change_faults({"throttleRate": 0.0})
        began = clock.now()
        opens_at = await own_door_opens_at(stepped)
        assert timedelta(seconds=590) < opens_at - began <= timedelta(seconds=600)
        for _ in range(10):
            # Whoever would call before the time does so while it is looked at.
            await clock.step((opens_at - began).total_seconds() / 10 - 1)
            await observed_for(0.05)
        assert stepped.sandbox.requests == 1
        (row,) = await stepped.until(lambda rows: rows[0].status == "succeeded")
    assert clock.now() >= opens_at
    assert (row.attempts, stepped.sandbox.requests) == (1, 2)


@pytest.mark.parametrize(
    ("policy", "terms"),
    [("one_shot", {}), ("deadline", {"maxAcceptanceSeconds": 30})],
)
async def test_the_contract_of_the_steps_submission_target_is_honoured(
    tmp_path: Path, policy: str, terms: dict[str, Any]
) -> None:
    """A retry in a minute would come too late for either of them."""
    database = f"sqlite:///{tmp_path}/office.db"
    async with office(database, tmp_path, terms={"policy": policy, **terms}) as made:
        await made.rule("lead_welcome", Channel.SMS, sms())
        await made.routed("lead_welcome")
        made.sandbox.change_faults({"failRate": 1.0})
        (row,) = await made.delivered()
    assert (row.status, row.attempts) == ("failed", 1)
    assert (row.last_error or "").startswith("provider_failure")


# Safety and observability


async def test_a_retry_that_cannot_be_scheduled_is_logged_and_nothing_is_lost(
    stepped: Office,
) -> None:
    """The attempt stays open; whoever has the lane next finds it, and the provider knows it."""
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.SMS, sms())
    await stepped.routed("lead_welcome")
    stepped.sandbox.change_faults({"failRate": 1.0})
    store = stepped.outrider.store
    unclosing = stepped.outrider.store = Unclosing(store)
    with capture_logs() as logs:
        async with stepped.outrider.worker() as worker:
            running = asyncio.create_task(worker.run())
            await stepped.until(lambda _: unclosing.refusals > 0)
            await clock.step(LONG_LEASES.close_patience_seconds)
            await stepped.until(lambda _: any(each["event"] == FAILED_TO_SCHEDULE for each in logs))
            running.cancel()
            await asyncio.wait([running])
    failed = [each for each in logs if each["event"] == FAILED_TO_SCHEDULE]
    assert failed[0]["items"] == 1
    assert (await stepped.notification()).status == "processing"

    stepped.outrider.store = store
    stepped.sandbox.change_faults({"failRate": 0.0})
    await clock.step(LEASE_SECONDS)
    async with working(stepped.outrider):
        (row,) = await stepped.until(lambda rows: rows[0].status == "succeeded")
    # S2: the same attempt, whose call was repeated.
    assert row.attempts == 1
    assert stepped.sandbox.received()["delivered"] == 1


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("kind", "fax", "unsupported_kind: 'fax' is not a known kind"),
        (
            "template",
            "email_sing",
            "unsupported_template: the kind 'email' has no template 'email_sing'",
        ),
    ],
)
async def test_an_unsupported_kind_or_template_fails_fast_with_the_reason(
    small: Office, column: str, value: str, reason: str
) -> None:
    await small.rule("lead_welcome", Channel.EMAIL, email())
    await small.routed("lead_welcome")
    async with raw_sql(small.database) as raw:
        await raw.run(f"UPDATE channel_outbox SET {column} = '{value}'")
    (row,) = await small.delivered()
    assert (row.status, row.attempts, row.last_error) == ("failed", 0, reason)
    assert small.sandbox.requests == 0


# Quote communication


LEGACY = [
    ("quote_sent", [("email", "lead", "proposal_email")]),
    (
        "quote_accepted",
        [("email", "agent", "agent_email"), ("email", "lead", "thank_you_email")],
    ),
]


@pytest.mark.parametrize(("trigger", "senders"), LEGACY)
async def test_without_a_rule_the_legacy_sender_is_used(
    desk: Office, trigger: str, senders: list[tuple[str, str, str]]
) -> None:
    routes = await desk.routed(trigger, quote={"number": "Q-1"})
    told = [(route["channel"], route["audience"], route["sender"]) for route in routes]
    assert told == senders
    assert {route["decision"] for route in routes} == {"legacy"}
    rows = await desk.delivered()
    assert {row.status for row in rows} == {"succeeded"}
    assert sorted(row.template for row in rows) == sorted(name for _, _, name in senders)


async def test_the_thank_you_carries_a_pdf(small: Office) -> None:
    await small.routed("quote_accepted", quote={"number": "Q-1"})
    (row,) = [each for each in await small.delivered() if each.template == "thank_you_email"]
    (attachment,) = row.payload["attachments"]
    assert attachment["contentType"] == "application/pdf"
    assert base64.b64decode(attachment["base64"]).startswith(b"%PDF-")


async def test_quote_rejected_without_a_rule_sends_nothing(desk: Office) -> None:
    assert await desk.routed("quote_rejected") == []
    assert await desk.notifications() == []


@pytest.mark.parametrize("channel", [Channel.EMAIL, Channel.WHATSAPP])
async def test_quote_rejected_is_driven_by_its_rules(small: Office, channel: Channel) -> None:
    made = email() if channel is Channel.EMAIL else whatsapp()
    await small.rule("quote_rejected", channel, made)
    (route,) = await small.routed("quote_rejected")
    assert (route["channel"], route["decision"]) == (channel.value, "steps")
    assert [row.status for row in await small.delivered()] == ["succeeded"]


@pytest.mark.parametrize("trigger", ["quote_sent", "quote_accepted"])
async def test_a_disabled_rule_suppresses_its_channel_and_audience_alone(
    desk: Office, trigger: str
) -> None:
    await desk.rule(trigger, Channel.EMAIL, email(), enabled=False)
    await desk.rule(trigger, Channel.WHATSAPP, whatsapp())
    routes = {
        (route["channel"], route["audience"]): route["decision"]
        for route in await desk.routed(trigger)
    }
    assert routes["email", "lead"] == "suppressed"
    assert routes["whatsapp", "lead"] == "steps"
    assert routes.get(("email", "agent"), "legacy") == "legacy"
    recipients = {row.recipient for row in await desk.delivered()}
    assert "Ada@example.test" not in recipients
    assert "+447700900123" in recipients


@pytest.mark.parametrize("trigger", ["quote_sent", "quote_accepted"])
async def test_an_enabled_rule_takes_the_place_of_the_legacy_sender(
    desk: Office, trigger: str
) -> None:
    await desk.rule(trigger, Channel.EMAIL, email(1, "by rule"))
    routes = await desk.routed(trigger)
    (route,) = [each for each in routes if each["audience"] == "lead"]
    assert route["decision"] == "steps"
    (row,) = [each for each in await desk.delivered() if each.recipient == "Ada@example.test"]
    assert (row.template, row.payload["body"]) == ("email_send", "by rule")


@pytest.mark.parametrize("audience", ["partner", "agent"])
async def test_quote_accepted_has_rules_for_partners_and_agents(
    small: Office, audience: str
) -> None:
    config = RecipientConfig(
        include_partner=audience == "partner", include_agent=audience == "agent"
    )
    await small.rule(
        "quote_accepted", Channel.EMAIL, email(1, "yes", recipients=config), audience=audience
    )
    routes = {
        (route["channel"], route["audience"]): route["decision"]
        for route in await small.routed("quote_accepted")
    }
    assert routes["email", audience] == "steps"
    expected = PARTNER if audience == "partner" else AGENT
    rows = await small.delivered()
    assert [row.recipient for row in rows if row.payload["body"] == "yes"] == [expected["email"]]


@pytest.mark.parametrize(
    ("trigger", "audience", "sender"),
    [
        ("quote_sent", "lead", "proposal_email"),
        ("quote_accepted", "lead", "thank_you_email"),
        ("quote_accepted", "agent", "agent_email"),
    ],
)
async def test_the_legacy_sender_is_used_if_enqueueing_fails(
    desk: Office, trigger: str, audience: str, sender: str
) -> None:
    """The second step names what the event does not tell: nothing of the rule is enqueued."""
    config = RecipientConfig(
        include_lead_contact=audience == "lead", include_agent=audience != "lead"
    )
    bad = email(2, "{{ nothing.like.it }}", recipients=config)
    await desk.rule(trigger, Channel.EMAIL, email(1, recipients=config), bad, audience=audience)
    routes = await desk.routed(trigger)
    (route,) = [each for each in routes if each["audience"] == audience]
    assert (route["decision"], route["sender"]) == ("legacy_fallback", sender)
    assert "nothing" in route["why"]
    rows = [row for row in await desk.delivered() if row.template != "email_send"]
    assert sender in {row.template for row in rows}
    assert len(await desk.notifications()) == len(rows)


async def test_a_failed_enqueueing_without_a_legacy_sender_is_reported_and_can_be_routed_again(
    desk: Office,
) -> None:
    await desk.rule("quote_rejected", Channel.EMAIL, email(1, "{{ quote.reason }}"))
    (route,) = await desk.routed("quote_rejected", event_id="r-1", quote={})
    assert route["decision"] == "failed"
    assert "reason" in route["why"]
    stored, _ = await desk.event("r-1")
    assert (stored.status, stored.error) == ("failed", route["why"])
    assert await desk.notifications() == []

    await desk.rule("quote_rejected", Channel.EMAIL, email(1, "A pity"))
    assert await desk.outrider.event_intake.reroute(DEFAULT_SCOPE, "r-1")
    await desk.outrider.event_router.route_due()
    stored, _ = await desk.event("r-1")
    assert (stored.status, stored.error) == ("routed", None)
    assert [row.payload["body"] for row in await desk.delivered()] == ["A pity"]


# What makes it one runtime


async def test_an_event_emitted_five_times_is_one_event_and_one_message(desk: Office) -> None:
    await desk.rule("quote_sent", Channel.EMAIL, email())
    answers = [await desk.emit("quote_sent", event_id="q-1") for _ in range(5)]
    assert [new for _, new in answers] == [True, False, False, False, False]
    await desk.outrider.event_router.route_due()
    await desk.emit("quote_sent", event_id="q-1")
    assert await desk.outrider.event_router.route_due() == 0
    await desk.delivered()
    assert desk.sandbox.received()["delivered"] == 1


async def test_a_delayed_step_waits_and_says_so(stepped: Office) -> None:
    clock = stepped.clock
    assert isinstance(clock, SteppedClock)
    await stepped.rule("lead_welcome", Channel.EMAIL, email(1, timing=Delay(3_600)))
    await stepped.routed("lead_welcome")
    row = await stepped.notification()
    assert (row.status, row.waits_for) == ("pending", "delay")
    assert is_at(row, clock.now() + timedelta(hours=1))
    async with working(stepped.outrider):
        await clock.step(3_500)
        assert (await stepped.notification()).attempts == 0
        await clock.step(101)
        await stepped.until(lambda rows: rows[0].status == "succeeded")


async def test_an_appointment_is_reminded_of_a_day_before(stepped: Office) -> None:
    clock = stepped.clock
    starts = clock.now() + timedelta(days=3)
    timing = Relative("appointment.startsAt", -86_400)
    await stepped.rule("appointment", Channel.EMAIL, email(1, timing=timing))
    await stepped.routed("appointment", appointment={"startsAt": starts.isoformat()})
    assert is_at(await stepped.notification(), starts - timedelta(days=1))


async def test_a_reminder_whose_due_time_has_passed_is_skipped_with_the_reason(
    stepped: Office,
) -> None:
    starts = stepped.clock.now() + timedelta(hours=3)
    timing = Relative("appointment.startsAt", -86_400)
    await stepped.rule("appointment", Channel.EMAIL, email(1, timing=timing))
    await stepped.routed("appointment", appointment={"startsAt": starts.isoformat()})
    row = await stepped.notification()
    assert (row.status, row.last_error) == ("failed", "moment_passed")


async def test_two_routers_route_an_event_once(desk: Office) -> None:
    await desk.rule("lead_welcome", Channel.EMAIL, email())
    event, _ = await desk.emit("lead_welcome", event_id="w-1")
    now = desk.clock.now()
    router = desk.outrider.event_router
    (claimed,) = await desk.outrider.store.write(domain_events.claim(10, now, now))
    # The lease of one ended while it was rendering: both have the event, and both route it.
    await asyncio.gather(router._route([claimed]), router._route([claimed]))
    assert len(await desk.notifications()) == 1
    assert (await desk.event(event.event_id))[0].status == "routed"


def _moment(row: Notification) -> datetime:
    return row.run_at if isinstance(row.run_at, datetime) else datetime.fromisoformat(row.run_at)
