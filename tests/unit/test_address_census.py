"""The census says that nothing came twice only where that is so."""

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.address_census import AddressCensus
from outrider.domain.recipients import Recipient, recipient

addresses = st.one_of(st.none(), st.sampled_from(["a@x.test", "A@x.test", "b@x.test"]))
phones = st.one_of(st.none(), st.sampled_from(["+447700900001", "+447700900002"]))
people = st.lists(st.builds(lambda email, phone: (email, phone), addresses, phones), max_size=6)


def made(given_people: list[tuple[str | None, str | None]]) -> list[Recipient]:
    return [
        recipient(f"lead-{number}", email=email, phone=phone)
        for number, (email, phone) in enumerate(given_people)
    ]


@given(people, people)
def test_duplicates_within_or_across_windows_may_repeat(
    first: list[tuple[str | None, str | None]], second: list[tuple[str | None, str | None]]
) -> None:
    census = AddressCensus(100)
    census.take(made(first))
    census.take(made(second))
    emails = [email.lower() for email, _ in first + second if email]
    numbers = [phone for _, phone in first + second if phone]
    twice = len(set(emails)) < len(emails) or len(set(numbers)) < len(numbers)
    assert census.may_repeat == twice


def test_more_addresses_than_it_remembers_may_repeat() -> None:
    census = AddressCensus(3)
    census.take(made([("a@x.test", "+447700900001"), ("b@x.test", None)]))
    assert not census.may_repeat
    census.take(made([("c@x.test", None)]))
    assert census.may_repeat
