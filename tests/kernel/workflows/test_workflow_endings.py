"""How workflow messages end, and who gets none: C6, C7, C8 and two lines of CM."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.screen_policies import ScreenPolicies
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import WorkflowRetry
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenStep
from tests.contracts.test_workflow_runtime import LONG_LEASES, pending_after
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import SteppedClock, working
from tests.support.workflows import LEAD, TO_LEAD, Office, email, office


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path) as made:
        yield made


def sms() -> WrittenStep:
    return WrittenStep(1, Channel.SMS, "Hi", recipients=TO_LEAD)


def moment(given: Any) -> datetime:
    return given if isinstance(given, datetime) else datetime.fromisoformat(given)


async def test_a_party_without_an_address_makes_no_record_and_explain_says_why(
    desk: Office,
) -> None:
    """C6: parties are included when they are available."""
    both = RecipientConfig(include_lead_contact=True, include_partner=True)
    await desk.rule("lead_welcome", Channel.EMAIL, email(recipients=both))
    subject = {"lead": LEAD, "partner": {"id": "partner-1", "phone": "+447700900456"}}
    [route] = await desk.routed("lead_welcome", subject=subject)
    assert (route["items"], route["withoutAddress"]) == (1, ["partner-1"])
    [row] = await desk.notifications()
    assert row.recipient == "Ada@example.test"
    explain = desk.outrider.event_explainer.explain
    told = await explain(DEFAULT_SCOPE, "event-1")
    assert (
        "Email to lead: the event has no email address of partner-1, so no message was created for"
        " them." in told
    )
    told = await explain(DEFAULT_SCOPE, "event-1", "partner-1")
    assert told[-1] == "Nothing was planned for partner-1: the event has no address for them."


async def test_a_legacy_mail_to_a_lead_without_an_address_makes_no_record(desk: Office) -> None:
    """C6"""
    [route] = await desk.routed("quote_sent", subject={"lead": {"id": "lead-1"}})
    assert (route["decision"], route["items"]) == ("legacy", 0)
    assert route["withoutAddress"] == ["lead-1"]
    assert await desk.notifications() == []


async def test_an_enabled_rule_without_steps_does_not_replace_the_legacy_email(
    desk: Office,
) -> None:
    """CM: nothing could be enqueued, so the sender that was there before is used."""
    await desk.rule("quote_sent", Channel.EMAIL, email(enabled=False))
    await desk.rule("lead_welcome", Channel.EMAIL)
    [route] = await desk.routed("quote_sent")
    assert (route["decision"], route["sender"]) == ("legacy_fallback", "proposal_email")
    assert route["why"] == "the rule has no enabled step"
    assert len(await desk.notifications()) == 1
    [route] = await desk.routed("lead_welcome")
    assert (route["decision"], route["why"]) == ("steps", "the rule has no enabled step")
    told = await desk.outrider.event_explainer.explain(DEFAULT_SCOPE, "event-2")
    assert told[-1] == ("Email to lead: the rule has no enabled step, so nothing was sent.")


async def test_the_legacy_sender_is_used_if_the_database_refuses_to_enqueue(
    desk: Office, database: str
) -> None:
    """CM: the one route that is refused falls back, and the other keeps its rule's steps."""
    to_agent = RecipientConfig(include_agent=True)
    await desk.rule("quote_accepted", Channel.EMAIL, email(1, "refuse me"))
    agents = email(1, "to the agent", recipients=to_agent)
    await desk.rule("quote_accepted", Channel.EMAIL, agents, audience="agent")
    await desk.rule("quote_rejected", Channel.EMAIL, email(1, "refuse me"))
    async with refusing(database, "refuse me"):
        routes = await desk.routed("quote_accepted")
        told = {route["audience"]: route for route in routes}
        assert told["lead"]["decision"] == "legacy_fallback"
        assert told["lead"]["sender"] == "thank_you_email"
        assert "the database refused the statement" in told["lead"]["why"]
        assert told["agent"]["decision"] == "steps"
        rows = await desk.notifications()
        assert sorted(row.template for row in rows) == ["email_send", "thank_you_email"]
        # There was no sender before: it waits, and is told, as before.
        await desk.emit("quote_rejected", event_id="r-1")
        await desk.outrider.event_router.route_due()
        stored, _ = await desk.event("r-1")
        assert (stored.status, "refused" in str(stored.error)) == ("received", True)
    assert len(await desk.notifications()) == 2


@asynccontextmanager
async def refusing(database: str, body: str) -> AsyncIterator[None]:
    """The ledger takes no row whose payload says this."""
    when = f"NEW.payload LIKE '%{body}%'"
    async with raw_sql(database) as raw:
        if database.startswith("sqlite"):
            await raw.run(
                f"CREATE TRIGGER refused BEFORE INSERT ON channel_outbox WHEN {when}"
                " BEGIN SELECT RAISE(ABORT, 'no such mails today'); END"
            )
        else:
            await raw.run(
                "CREATE TRIGGER refused BEFORE INSERT ON channel_outbox FOR EACH ROW"
                f" WHEN ({when.replace('payload', 'payload::text')})"
                " EXECUTE FUNCTION outrider_refuse('no such mails today')"
            )
        yield
        on = "" if database.startswith("sqlite") else " ON channel_outbox"
        await raw.run(f"DROP TRIGGER refused{on}")


ENDINGS = [
    ({"policy": "one_shot"}, 1, "one_shot"),
    ({"policy": "deadline", "maxAcceptanceSeconds": 90}, 2, "deadline_exceeded"),
    ({"maxAttempts": 2}, 2, "max_attempts"),
]


@pytest.mark.parametrize(("terms", "calls", "ended_by"), ENDINGS, ids=[e[2] for e in ENDINGS])
async def test_every_way_in_which_retries_end_is_logged_and_run_at_stays(
    database: str, tmp_path: Path, terms: dict[str, Any], calls: int, ended_by: str
) -> None:
    """C7; and CM: the `run_at` of a failed record does not jump back to where it began."""
    clock = SteppedClock()
    async with office(database, tmp_path, clock=clock, limits=LONG_LEASES, terms=terms) as made:
        await made.rule("lead_welcome", Channel.SMS, sms())
        await made.routed("lead_welcome")
        made.sandbox.change_faults({"failRate": 1.0})
        began = clock.now()
        with capture_logs() as logs:
            async with working(made.outrider):
                if calls > 1:
                    await made.until(lambda rows: rows[0].attempts == 1)
                    await made.until(lambda rows: rows[0].status == "pending")
                    await clock.step(61)
                [row] = await made.until(lambda rows: rows[0].status == "failed")
        [exhausted] = [line for line in logs if line["event"] == "retries_exhausted"]
        assert (exhausted["attempt"], exhausted["ended_by"]) == (calls, ended_by)
        expected = timedelta(seconds=61 if calls > 1 else 0)
        assert moment(row.run_at) - began >= expected


async def test_a_deadline_that_passes_while_a_target_is_closed_is_logged(
    database: str, tmp_path: Path
) -> None:
    """C7: the clock ends it, and no call does."""
    clock = SteppedClock()
    terms = {"policy": "deadline", "maxAcceptanceSeconds": 30}
    async with office(database, tmp_path, clock=clock, limits=LONG_LEASES, terms=terms) as made:
        await made.rule("lead_welcome", Channel.SMS, sms())
        await made.routed("lead_welcome")
        await clock.step(31)
        with capture_logs() as logs:
            assert await made.outrider.deadline_expirer.expire() == 1
        [row] = await made.notifications()
        [exhausted] = [line for line in logs if line["event"] == "retries_exhausted"]
        assert (exhausted["outbox_id"], exhausted["attempt"]) == (row.id, 0)
        assert exhausted["ended_by"] == "deadline_exceeded"
        assert moment(row.run_at) >= clock.now() - timedelta(seconds=1)


async def test_a_workspace_decides_how_often_its_messages_are_tried(
    database: str, tmp_path: Path
) -> None:
    """C8: attempts, first wait, factor and cap are the workspace's."""
    clock = SteppedClock()
    async with office(database, tmp_path, clock=clock, limits=LONG_LEASES) as made:
        retry = WorkflowRetry(attempts=3, first_seconds=10, factor=4, cap_seconds=25)
        await made.outrider.policy_keeper.put(DEFAULT_SCOPE, ScreenPolicies(retry=retry), "test")
        assert (await made.outrider.policy_keeper.get(DEFAULT_SCOPE)).retry == retry
        await made.rule("lead_welcome", Channel.SMS, sms())
        await made.routed("lead_welcome")
        made.sandbox.change_faults({"failRate": 1.0})
        async with working(made.outrider):
            for attempt, seconds in ((1, 10), (2, 25)):
                [row] = await made.until(pending_after(attempt))
                waits = (moment(row.run_at) - clock.now()).total_seconds()
                assert seconds - 5 < waits <= seconds
                await clock.step(waits + 0.01)
            [row] = await made.until(lambda rows: rows[0].status == "failed")
        assert (row.attempts, made.sandbox.requests) == (3, 3)


def test_a_retry_policy_is_described_in_words() -> None:
    assert WorkflowRetry().in_words().endswith("gives up after 31 minutes")
    assert WorkflowRetry(attempts=1).in_words() == "one call, no retries"
