"""What is planned for an event: a route fails whole, falls back once, and is told of as it is."""

from datetime import UTC, datetime

import msgspec

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.workflows import Decision, DomainEvent, DomainEventId, RoutePlace
from outrider.kernel.workflows.event_plan import EventPlan, kept_routes
from outrider.legacy.proposal_email import ProposalEmail

MAIL, SMS = RoutePlace(Channel.EMAIL, "lead"), RoutePlace(Channel.SMS, "lead")
EVENT = DomainEvent(
    DomainEventId("1"), "event-1", "quote_sent", datetime(2026, 1, 1, tzinfo=UTC), {}, {}
)


def test_a_failed_route_says_its_first_reason_and_fails_the_event() -> None:
    plan = EventPlan(DEFAULT_SCOPE, EVENT, [])
    route = plan.add(MAIL, Decision.STEPS, None, None)
    assert (plan.problem, plan.status.value) == (None, "routed")
    route.fail("no such field 'x'", "a field is missing")
    route.fail("something later")
    assert (plan.problem, plan.logged_problem) == ("no such field 'x'", "a field is missing")
    assert plan.status.value == "failed"
    assert not route.fall_back(), "there was no sender before the rule"


def test_a_failed_rule_falls_back_to_the_sender_that_was_there_before() -> None:
    plan = EventPlan(DEFAULT_SCOPE, EVENT, [])
    route = plan.add(MAIL, Decision.STEPS, None, ProposalEmail())
    assert not route.fall_back(), "nothing has failed"
    route.fail("the database refused it")
    assert route.fall_back()
    assert (route.document()["decision"], plan.status.value) == ("legacy_fallback", "routed")


def test_successful_routes_are_kept_and_not_repeated() -> None:
    first = EventPlan(DEFAULT_SCOPE, EVENT, [])
    first.add(MAIL, Decision.STEPS, None, None)
    first.add(SMS, Decision.STEPS, None, None).fail("no target")
    again = EventPlan(DEFAULT_SCOPE, EVENT, kept_routes(first.document()))
    assert again.has(MAIL)
    assert not again.has(SMS)
    again.add(SMS, Decision.STEPS, None, None)
    told = msgspec.json.decode(again.document())
    assert [(each["channel"], each["decision"]) for each in told] == [
        ("email", "steps"),
        ("sms", "steps"),
    ]
