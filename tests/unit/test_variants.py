"""A/B variants: who gets which, who wins, and what a campaign document may say about them."""

import json
from collections import Counter
from typing import Any

import pytest

from outrider.documents.campaign import parse_campaign
from outrider.domain.errors import InvalidInput
from outrider.domain.rollouts import LAST_DRAW, DrawnShare, draw
from outrider.domain.variants import (
    Variant,
    VariantFigures,
    WinnerBy,
    WinnerRate,
    WinnerRule,
    assigned,
    choices,
    leader,
    parts,
)
from outrider.kernel.transactions.campaigns import definition_document, read_definition

TWO = (Variant("a", "A"), Variant("b", "B"))
RULE = WinnerRule(WinnerBy.RECEIPTS, WinnerRate.DELIVERED, 10)


def test_the_ranges_of_variants_share_all_draws_by_weight() -> None:
    weighed = (Variant("a", "A", weight=1), Variant("b", "B", weight=2), Variant("c", "C"))
    found = choices(weighed)
    assert found["a"].first_choice == 0
    assert found["b"].first_choice == found["a"].last_choice + 1
    assert found["c"].first_choice == found["b"].last_choice + 1
    assert found["c"].last_choice == LAST_DRAW
    widths = [each.last_choice - each.first_choice + 1 for each in found.values()]
    assert widths[1] == pytest.approx(2 * widths[0], abs=2)


def test_who_gets_which_variant_depends_on_the_run_the_message_and_the_recipient_alone() -> None:
    people = [f"lead-{number}" for number in range(4_000)]
    first = [assigned("run", "offer", TWO, each) for each in people]
    assert first == [assigned("run", "offer", TWO, each) for each in people]
    assert first != [assigned("another run", "offer", TWO, each) for each in people]
    assert first != [assigned("run", "reminder", TWO, each) for each in people]
    assert Counter(first)["a"] == pytest.approx(2_000, abs=150)


def test_the_first_step_of_a_rollout_has_all_variants_by_their_weights() -> None:
    """With the rollout's own draw it would have the first variant only."""
    people = sorted((f"lead-{number}" for number in range(4_000)), key=lambda who: draw("run", who))
    shares = Counter(assigned("run", "offer", TWO, each) for each in people[:800])
    assert shares["a"] == pytest.approx(400, abs=75)


def test_only_the_last_step_waits_for_a_winner_and_only_where_there_is_one() -> None:
    shares = [DrawnShare(1, 0, 9), DrawnShare(2, 10, LAST_DRAW)]
    found = [(part.share.step, part.variant, part.choice) for part in parts(TWO, shares, 2)]
    ranges = choices(TWO)
    assert found == [(1, "a", ranges["a"]), (1, "b", ranges["b"]), (2, "a", None)]
    assert all(part.choice is not None for part in parts(TWO, shares, None))
    assert [part.share.last_draw for part in parts(TWO, (), None)] == [LAST_DRAW] * 2


@pytest.mark.parametrize(
    ("a", "b", "wins"),
    [
        ((20, {"delivered": 10}), (20, {"delivered": 11}), "b"),
        ((40, {"delivered": 20}), (20, {"delivered": 12}), "b"),
        ((20, {"delivered": 5, "read": 5, "replied": 2}), (20, {"delivered": 11}), "a"),
        ((20, {"delivered": 10}), (40, {"delivered": 20}), None),
        ((20, {"delivered": 10}), (9, {"delivered": 9}), None),
        ((20, {}), (20, {}), None),
        ((20, {"complained": 20}), (20, {"delivered": 1}), "b"),
    ],
)
def test_the_highest_rate_wins_and_a_tie_or_a_small_sample_is_left_to_a_person(
    a: tuple[int, dict[str, int]], b: tuple[int, dict[str, int]], wins: str | None
) -> None:
    figures = [
        VariantFigures("offer", name, name, sent=sent, deliveries=deliveries)
        for name, (sent, deliveries) in (("a", a), ("b", b))
    ]
    found = leader(figures, RULE)
    assert (found.variant if found else None) == wins


def campaign(message: dict[str, Any], **more: Any) -> bytes:
    given = {"id": "offer", "channel": "sms", "submissionTarget": "sms.all", "body": "Hi"}
    return json.dumps({"name": "Autumn", "messages": [given | message], **more}).encode()


def parse(raw: bytes) -> Any:
    return parse_campaign(raw, check_template=lambda _: None, source_root=None).definition


VARIED = {"variants": [{"id": "a"}, {"id": "b", "body": "Hello", "weight": 3}]}
STEPS = [{"percent": 20, "holdMinutes": 10}, {"percent": 100}]


def test_a_variant_has_its_messages_text_where_it_gives_none_of_its_own() -> None:
    [message] = parse(campaign(VARIED)).messages
    assert [(text.id, text.variant, text.body) for text in message.texts] == [
        ("offer", "a", "Hi"),
        ("offer", "b", "Hello"),
    ]
    assert [variant.weight for variant in message.variants] == [1, 3]


def test_a_winner_by_receipts_has_a_rate_and_a_minimum() -> None:
    definition = parse(campaign(VARIED, rollout=STEPS, winner={"by": "receipts"}))
    assert definition.winner == WinnerRule(WinnerBy.RECEIPTS, WinnerRate.DELIVERED, 100)
    assert definition.awaiting_step == 2
    person = parse(campaign(VARIED, rollout=STEPS, winner={"by": "person"}))
    assert person.winner == WinnerRule(WinnerBy.PERSON)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (campaign({"variants": [{"id": "a"}]}), "at least 2 variants"),
        (campaign({"variants": [{"id": "a"}, {"id": "a", "body": "B"}]}), "a more than once"),
        (campaign({"variants": [{"id": "a"}, {"id": "b"}]}), "are the same text"),
        (campaign({"channel": "social", **VARIED}), "everybody sees at once"),
        (
            campaign({"variants": [{"id": "a", "scriptVersion": "1"}, {"id": "b", "body": "B"}]}),
            "only allowed for the channel voice",
        ),
        (
            campaign({"channel": "voice", "scriptVersion": "1", **VARIED}),
            "should each have a scriptVersion",
        ),
        (campaign(VARIED, winner={"by": "person"}), "at least two steps"),
        (campaign({}, rollout=STEPS, winner={"by": "person"}), "needs a message with variants"),
        (
            campaign(VARIED, rollout=STEPS, winner={"by": "person", "rate": "read"}),
            'only for {"by": "receipts"}',
        ),
        (
            campaign(VARIED, rollout=[{"percent": 9}, {"percent": 100}], winner={"by": "receipts"}),
            "needs a holdMinutes",
        ),
        (campaign({"variants": [{"id": "a"}, {"id": "b", "body": "x" * 2_100_000}]}), "together"),
    ],
)
def test_what_cannot_be_tested_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(raw)
    assert problem in str([each.message for each in refused.value.problems])


def test_a_definition_is_stored_and_read_with_its_variants_and_winner() -> None:
    definition = parse(campaign(VARIED, rollout=STEPS, winner={"by": "receipts", "rate": "read"}))
    assert read_definition(definition_document(definition)) == definition
