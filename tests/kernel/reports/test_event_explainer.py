"""What is said of a domain event: its routes, its digests and its messages, in sentences."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from outrider.domain.ids import OutboxId
from outrider.domain.notification_status import NotificationStatus, notification_status
from outrider.domain.states import ItemStatus
from outrider.domain.workflows import DomainEventId, StepId
from outrider.kernel.reports.event_explainer import explain_event
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.transactions.digests import DigestId, EventDigest
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.event_stories import EventStory
from outrider.kernel.transactions.ledger_items import Item

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=8)


def event(*routes: dict[str, Any], **changes: Any) -> StoredEvent:
    stored = StoredEvent(
        DomainEventId("id"), "q-17", "quote_sent", NOON, "", "routed", 1,
        msgspec.json.encode(routes).decode(), None, NOON, NOON,
    )  # fmt: skip
    return stored._replace(**changes)


def route(decision: str, **told: Any) -> dict[str, Any]:
    return {"channel": "email", "audience": "lead", "decision": decision, **told}


def item(**changes: Any) -> Item:
    made = Item(
        OutboxId("item"), "lead-1", "ada@example.test", "email", "smtp", "mail.main", "queued",
        "PENDING", None, None, None, 0, 0, None, None, None, False, None, None, None, NOON, NOON,
        "reference", None, "lane", "News", None, "email_send", DomainEventId("id"), StepId("step"),
        "q-17", "quote_sent", 2,
    )  # fmt: skip
    return made._replace(**changes)


def digest(**changes: Any) -> EventDigest:
    made = EventDigest(
        DomainEventId("id"), DigestId("digest"), StepId("step"), "lead", "lead-1",
        "ada@example.test", LATER, None, None, None,
    )  # fmt: skip
    return made._replace(**changes)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            route("steps", ruleId="r", items=2, collected=0),
            "Email to lead: the rule's steps were enqueued and created 2 messages.",
        ),
        (
            route("steps", ruleId="r", items=0, collected=1),
            "Email to lead: the rule's steps were enqueued and created no message and 1 digest"
            " entry.",
        ),
        (
            route("suppressed", ruleId="r"),
            "Email to lead: the rule is disabled, so nothing was sent.",
        ),
        (
            route("legacy", sender="proposal_email", items=1, collected=0),
            "Email to lead: there is no rule, so the legacy sender proposal_email was used and"
            " created 1 message.",
        ),
        (
            route("legacy_fallback", sender="proposal_email", why="no x", items=1, collected=0),
            "Email to lead: the rule could not be enqueued (no x), so the legacy sender"
            " proposal_email was used and created 1 message.",
        ),
        (
            route("failed", ruleId="r", why="'quoteNumber' is undefined"),
            "Email to lead: nothing was enqueued ('quoteNumber' is undefined).",
        ),
    ],
)
def test_each_decision_is_shown(told: dict[str, Any], sentence: str) -> None:
    received, *routes = explain_event(EventStory(event(told), [], []))
    assert received == "The event q-17 (quote_sent) was received at 2026-06-01T12:00:00Z."
    assert routes == [sentence]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": "received", "routes": None}, "It is waiting to be processed."),
        (
            {"status": "received", "routes": None, "error": "no registry"},
            "It could not be processed yet and will be retried: no registry.",
        ),
        (
            {"status": "failed", "error": "'x' is not a known trigger"},
            "It could not be processed: 'x' is not a known trigger.",
        ),
        ({}, "Its trigger has neither a rule nor a legacy sender, so nothing was sent."),
    ],
)
def test_an_event_without_routes_says_why(changes: dict[str, Any], sentence: str) -> None:
    assert explain_event(EventStory(event(**changes), [], []))[1] == sentence


def test_a_failed_event_says_how_to_route_it_again() -> None:
    told = explain_event(
        EventStory(event(route("failed", why="w"), status="failed", error="w"), [], [])
    )
    assert told[-1] == "Once that is fixed, run `outrider event reroute` to process it again."


def test_an_event_that_was_published_late_says_when_it_happened() -> None:
    told = explain_event(EventStory(event(occurred_at=NOON - timedelta(days=1)), [], []))
    assert told[0].endswith("; it happened at 2026-05-31T12:00:00Z.")


def test_a_recipient_that_no_route_knows_is_reported_as_such() -> None:
    routed = event(route("suppressed"))
    told = explain_event(EventStory(routed, [], []), "bo@example.test")
    assert told[-1] == ("Nothing was planned for bo@example.test: no route includes them.")
    waiting = event(status="received", routes=None)
    told = explain_event(EventStory(waiting, [], []), "bo@example.test")
    assert told[-1] == "Nothing is planned for bo@example.test yet."


@pytest.mark.parametrize(
    ("waits_for", "why"),
    [
        ("delay", "its workflow step is not due yet"),
        ("quiet_hours", "the recipient is in quiet hours"),
        ("sending_window", "the sending window is closed"),
        ("frequency_cap", "the address has received as many messages as the frequency cap allows"),
    ],
)
def test_a_message_says_what_it_waits_for_and_until_when(waits_for: str, why: str) -> None:
    assert explain_item(item(waits_for=waits_for, next_attempt_at=LATER), []) == [
        "lead-1 (ada@example.test) is not finished yet.",
        "It was caused by the event q-17 (quote_sent), by step 2 of its rule.",
        f"It waits until 2026-06-01T20:00:00Z, because {why}.",
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"reason": "moment_passed"},
            "lead-1 (ada@example.test) was skipped before any call: its time had passed when the"
            " event arrived.",
        ),
        (
            {"reason": "no_address", "address": None},
            "lead-1 (no address) was skipped before any call: the recipient has no address for"
            " this channel.",
        ),
        (
            {"reason": "frequency_cap", "error": "3 in 24 h"},
            "lead-1 (ada@example.test) was skipped before any call: the address has received as"
            " many messages as the frequency cap allows (3 in 24 h).",
        ),
        (
            {"reason": "suppressed"},
            "lead-1 (ada@example.test) was skipped before any call: the address has opted out.",
        ),
    ],
)
def test_a_message_that_was_skipped_says_why(changes: dict[str, Any], sentence: str) -> None:
    assert explain_item(item(status="skipped", **changes), [])[0] == sentence


def test_a_message_says_what_it_followed_from() -> None:
    legacy = item(step_id=None, step_order=None, template="proposal_email")
    assert explain_item(legacy, [])[1] == (
        "It was caused by the event q-17 (quote_sent), by the legacy sender proposal_email."
    )
    gone = item(step_order=None)
    assert explain_item(gone, [])[1].endswith("by a step of its rule that has been deleted since.")
    collected = item(domain_event_id=None, event_id=None, trigger=None)
    assert explain_item(collected, [])[1] == (
        "It is a digest of the events that step 2 collected for this recipient."
    )
    single = item(template=None, domain_event_id=None, step_id=None)
    assert explain_item(single, []) == ["lead-1 is not finished yet."]


def test_a_digest_is_shown_with_its_due_time_and_then_with_its_message() -> None:
    who = "For lead-1 (ada@example.test) it"
    waiting = explain_event(EventStory(event(route("steps", items=0, collected=1)), [], [digest()]))
    assert waiting[-1] == f"{who} is being collected for a digest due at 2026-06-01T20:00:00Z."
    late = digest(error="no target")
    told = explain_event(EventStory(event(), [], [late]))[-1]
    assert told.endswith("; creating it has failed so far: no target.")
    closed = digest(closed_at=LATER, outbox_id=OutboxId("item"))
    sent = item(status="sent", domain_event_id=None, provider_message_id="m-1")
    told = "\n".join(explain_event(EventStory(event(), [(sent, [])], [closed])))
    assert f"{who} was collected for a digest that was created at 2026-06-01T20:00:00Z.\n" in told
    assert told.count("was sent by smtp as m-1") == 1
    dropped = digest(closed_at=LATER, error="the step was deleted")
    told = explain_event(EventStory(event(), [], [dropped]))[-1]
    assert told.endswith("without a message: the step was deleted.")


def test_of_many_messages_the_rest_is_counted() -> None:
    told = explain_event(EventStory(event(route("steps", items=300)), [(item(), [])], [], 299))
    assert told[-1] == "299 more messages were created; name a recipient to see theirs."


def test_the_contracts_words_for_an_item() -> None:
    said = {
        status: notification_status(status, is_open=False, in_doubt=False) for status in ItemStatus
    }
    assert said == {
        ItemStatus.QUEUED: NotificationStatus.PENDING,
        ItemStatus.SENT: NotificationStatus.SUCCEEDED,
        ItemStatus.CALLED: NotificationStatus.SUCCEEDED,
        ItemStatus.POSTED: NotificationStatus.SUCCEEDED,
        ItemStatus.FAILED: NotificationStatus.FAILED,
        ItemStatus.SKIPPED: NotificationStatus.FAILED,
    }
    queued = ItemStatus.QUEUED
    assert notification_status(queued, is_open=True, in_doubt=False) == "processing"
    assert notification_status(queued, is_open=False, in_doubt=True) == "processing"
    assert notification_status(ItemStatus.SENT, is_open=True, in_doubt=False) == "succeeded"
