"""Single messages under a cap: which may exceed it, and how the others are held back."""

from datetime import UTC, datetime, timedelta
from typing import Any

from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.screen_policies import FrequencyCap, ScreenPolicies, WhenReached
from outrider.domain.states import Channel
from outrider.kernel.delivery.capped_lanes import capped_window
from outrider.kernel.transactions.submissions import DueItem

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=24)


def item(number: int, **given: Any) -> DueItem:
    whole = DueItem(
        OutboxId(f"item-{number}"), "r", IdempotencyKey("k"), 1, "{}", 0, None, None,
        maybe_received=False, is_open=False, created_at=NOW, origin="intent", channel="sms",
        address="+447700900123", kind=None, template=None, urgent=False, uncounted_calls=0,
        expires_at=NOW + timedelta(seconds=30), repeats=0,
    )  # fmt: skip
    return whole._replace(**given)


def test_without_a_cap_for_the_channel_nothing_is_counted() -> None:
    cap = FrequencyCap(1, 24, channels=frozenset({Channel.EMAIL}))
    assert capped_window(ScreenPolicies(), [item(1)]) is None
    assert capped_window(ScreenPolicies(frequency_cap=cap), [item(1)]) is None
    assert capped_window(ScreenPolicies(frequency_cap=cap), []) is None


def test_urgent_exempt_and_silent_messages_may_exceed_the_cap() -> None:
    policies = ScreenPolicies(frequency_cap=FrequencyCap(1, 24), exempt=frozenset({"receipt"}))
    rows = [
        item(1),
        item(2, urgent=True),
        item(3, maybe_received=True),
        item(4, is_open=True),
        item(5, topic="receipt", transactional=True),
        item(6, topic="receipt"),
    ]
    capped = capped_window(policies, rows)
    assert capped is not None
    assert [each.may_exceed for each in capped.items] == [False, True, True, True, True, False]


def test_messages_beyond_the_cap_wait_in_their_order_with_their_deadline() -> None:
    capped = capped_window(ScreenPolicies(frequency_cap=FrequencyCap(1, 24)), [item(1), item(2)])
    assert capped is not None
    held = capped.held_back({OutboxId("item-1"): LATER, OutboxId("item-2"): LATER})
    assert [each.until - LATER for each in held.deferred] == [
        timedelta(0), timedelta(microseconds=1),
    ]  # fmt: skip
    assert held.deferred[0].expires_at == LATER + timedelta(seconds=30)


def test_messages_beyond_the_cap_are_skipped_if_the_cap_says_so() -> None:
    cap = FrequencyCap(2, 24, WhenReached.SKIP)
    capped = capped_window(ScreenPolicies(frequency_cap=cap), [item(1)])
    assert capped is not None
    [ending] = capped.held_back({OutboxId("item-1"): LATER}).skipped
    assert (ending.reason, ending.error) == (
        "frequency_cap", "2 messages in 24 h were already sent to this address",
    )  # fmt: skip
