"""How a doubt settles next, and when: receipt, else key, else look-up, else a person."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outrider.domain.evidence import (
    CheckSchedule,
    DoubtFacts,
    LookUp,
    Match,
    Receipts,
    Settles,
    TargetEvidence,
    next_step,
)
from outrider.domain.reference_memory import FOR_GOOD, ReferenceMemory
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.evidence_table import table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "gateways.md"
THEN = datetime(2026, 11, 17, 12, tzinfo=UTC)
SCHEDULE = CheckSchedule(2.0, 2.0, 300.0)
LOOK_UP = LookUp(Match.REFERENCE, 60.0, 3_600.0, "GET", "https://provider.example/docs")
FACTS = DoubtFacts(submitted_at=THEN - timedelta(seconds=10), doubted_at=THEN)


def after(seconds: float) -> datetime:
    return THEN + timedelta(seconds=seconds)


def test_the_page_shows_what_the_families_declare() -> None:
    """Run `python -m outrider.gateways.evidence_table` and replace what it has written."""
    shown = PAGE.read_text().partition("<!-- evidence -->\n")[2].partition("<!-- /evidence -->")[0]
    assert shown == table()


def test_every_look_up_has_a_source_a_delay_and_a_retention() -> None:
    for gateway in GATEWAY_TYPES.values():
        look_up = gateway.evidence.look_up
        if look_up is not None:
            assert look_up.source.startswith("https://")
            assert 0 < look_up.delay_seconds < look_up.retention_seconds
            by_content = look_up.match is Match.CONTENT
            named = {"recipient", "account"} if by_content else {"reference"}
            assert named & set(look_up.compares)


def test_a_key_is_repeated_before_anybody_is_asked() -> None:
    both = TargetEvidence(ReferenceMemory.parse("1h"), LOOK_UP, Receipts("tag"))
    assert next_step(both, FACTS, THEN, SCHEDULE) == (Settles.KEY, THEN, after(2))
    # The memory ends while it waits: from then on the provider is asked.
    asked = FACTS._replace(checks=9, checked_at=after(3_400))
    step = next_step(replace(both, look_up=None), asked, after(3_400), SCHEDULE)
    assert step == (Settles.RECEIPT, THEN, after(3_600))
    longer = replace(LOOK_UP, retention_seconds=86_400.0)
    step = next_step(replace(both, look_up=longer), asked, after(3_400), SCHEDULE)
    assert step == (Settles.LOOK_UP, THEN, after(3_700))


@pytest.mark.parametrize(
    "facts",
    [FACTS._replace(may_repeat=False), FACTS._replace(is_same_request=False)],
    ids=["worn out", "another request"],
)
def test_a_call_that_must_not_be_repeated_waits_for_the_next_evidence(facts: DoubtFacts) -> None:
    evidence = TargetEvidence(FOR_GOOD, LOOK_UP, needs_same_request=True)
    assert next_step(evidence, facts, THEN, SCHEDULE).settles is Settles.LOOK_UP
    assert next_step(replace(evidence, look_up=None), facts, THEN, SCHEDULE) == (
        Settles.PERSON,
        THEN,
        None,
    )


def test_checks_come_less_often_but_one_when_absent_becomes_evidence() -> None:
    evidence, facts, seen = TargetEvidence(look_up=LOOK_UP), FACTS, []
    while (step := next_step(evidence, facts, THEN, SCHEDULE)).settles is Settles.LOOK_UP:
        assert step.next_check_at is not None
        seen.append((step.next_check_at - THEN).total_seconds())
        facts = facts._replace(checks=facts.checks + 1, checked_at=step.next_check_at)
    assert seen[:7] == [2, 6, 14, 30, 60, 124, 252]
    # Inside the retention, which counts from the submission; then it is a person's.
    assert seen[-1] < 3_590 <= seen[-1] + 300
    ended = next_step(evidence, facts, after(7_000), SCHEDULE)
    assert ended == (Settles.PERSON, after(3_590), None)


def test_a_receipt_is_waited_for_before_a_person_is_asked() -> None:
    evidence = TargetEvidence(receipts=Receipts("tag", 600.0))
    assert next_step(evidence, FACTS, THEN, SCHEDULE) == (Settles.RECEIPT, THEN, after(600))
    assert next_step(evidence, FACTS, after(600), SCHEDULE) == (
        Settles.PERSON,
        after(600),
        None,
    )
    assert next_step(TargetEvidence(), FACTS, after(5), SCHEDULE) == (Settles.PERSON, THEN, None)


def test_a_key_is_not_repeated_in_the_last_minute_of_its_memory() -> None:
    """Between the check and the provider lie a queue, a network and two clocks."""
    day, short = ReferenceMemory.parse("24h"), ReferenceMemory.parse("30s")
    assert day.allows_repeat(THEN, after(86_400 - 61))
    assert not day.allows_repeat(THEN, after(86_400 - 60))
    assert short.allows_repeat(THEN, after(26))
    assert not short.allows_repeat(THEN, after(27))
    assert FOR_GOOD.allows_repeat(THEN, after(10**9))
    assert day.holds(THEN, after(86_400 - 1)), "an answer that comes then is still proof"


LATE = CheckSchedule(1.0, 2.0, 30.0, eager_checks=5, late_seconds=900.0)


def test_what_was_answered_again_and_again_to_no_avail_is_a_persons() -> None:
    """It is asked now and then all the same: a look-up may find it yet."""
    asked = FACTS._replace(checks=5, checked_at=after(100))
    step = next_step(TargetEvidence(look_up=LOOK_UP), asked, after(100), LATE)
    assert step == (Settles.PERSON, after(100), after(1_000))
    early = asked._replace(checks=4)
    step = next_step(TargetEvidence(look_up=LOOK_UP), early, after(100), LATE)
    assert step == (Settles.LOOK_UP, THEN, after(116))


def test_a_key_is_repeated_soon_however_often_it_was() -> None:
    """Its target's gate knows whether anybody is there, so nothing is gained by waiting longer."""
    asked = FACTS._replace(checks=500, checked_at=after(100))
    step = next_step(TargetEvidence(FOR_GOOD), asked, after(100), LATE)
    assert step == (Settles.KEY, THEN, after(130))


def test_a_call_that_cost_many_workers_is_repeated_seldom() -> None:
    """Kills in a row wear out messages that are not to blame: these settle when it is quiet."""
    calm = replace(LATE, worn_out_seconds=10.0)
    evidence = TargetEvidence(FOR_GOOD)
    due = [
        next_step(evidence, FACTS._replace(checks=3 + wear, wear=wear), THEN, calm).next_check_at
        for wear in range(4)
    ]
    assert due == [after(10), after(20), after(40), after(40)]
