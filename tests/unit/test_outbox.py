"""The accounting identity, as a check that can fail."""

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.outbox import Accounting, total

few = st.integers(min_value=0, max_value=1_000)
accountings = st.builds(Accounting, few, few, few, few, few, few)


@given(few, few, few, few, few)
def test_the_identity_holds_where_the_terms_add_up(
    waiting: int, in_doubt: int, sent: int, failed: int, skipped: int
) -> None:
    intended = waiting + in_doubt + sent + failed + skipped
    assert Accounting(intended, waiting, in_doubt, sent, failed, skipped).holds
    assert not Accounting(intended + 1, waiting, in_doubt, sent, failed, skipped).holds


@given(accountings)
def test_the_identity_holds_exactly_where_intended_is_what_is_accounted_for(
    accounting: Accounting,
) -> None:
    terms = accounting.as_document()
    intended = terms.pop("intended")
    assert accounting.holds == (intended == sum(terms.values()))
    assert accounting.accounted == sum(terms.values())


def test_a_negative_rest_does_not_hold_even_where_it_adds_up() -> None:
    assert not Accounting(intended=1, waiting=-1, sent=2).holds


@given(accountings)
def test_terminal_counts_what_will_not_change_again(accounting: Accounting) -> None:
    assert accounting.terminal == accounting.sent + accounting.failed + accounting.skipped


@given(st.lists(accountings, max_size=10))
def test_a_total_adds_every_term(parts: list[Accounting]) -> None:
    summed = total(parts).as_document()
    assert summed == {
        term: sum(part.as_document()[term] for part in parts) for term in Accounting().as_document()
    }
    if all(part.holds for part in parts):
        assert total(parts).holds
