"""Address pages: every address of a window is found where it is, whatever else is in the page."""

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.address_pages import (
    BUCKETS,
    ENTRY_BYTES,
    MIXED_ADDRESSES_MAX,
    MIXED_BUCKET,
    AddressPage,
    address_pages,
    bucket_of,
    fingerprint,
    offsets_in,
)
from outrider.domain.ids import RecipientId
from outrider.domain.recipients import Recipient, recipient
from outrider.testing.launches import people


def places(pages: list[AddressPage], key: str) -> list[int]:
    mark = fingerprint(key)
    return [
        offset
        for page in pages
        if page.bucket in (MIXED_BUCKET, bucket_of(mark))
        for offset in offsets_in(page.entries, mark)
    ]


def test_every_address_of_a_large_window_is_in_the_page_of_its_bucket() -> None:
    window = people(1_000)
    pages = address_pages(window)
    assert len(pages) == BUCKETS
    assert sum(len(page.entries) for page in pages) == 3_000 * ENTRY_BYTES
    for offset, each in enumerate(window):
        for address in (each.email, each.phone, each.push_token):
            assert offset in places(pages, address or "")
    assert places(pages, "nobody@example.test") == []


def test_a_small_window_has_one_page_and_one_without_addresses_none() -> None:
    (page,) = address_pages(people(MIXED_ADDRESSES_MAX // 3))
    assert page.bucket == MIXED_BUCKET
    assert address_pages([None, recipient("lead-1")]) == []


def test_spellings_of_one_email_address_have_one_fingerprint_and_push_tokens_have_not() -> None:
    pages = address_pages(
        [recipient("a", email="Ada@Example.test"), None, recipient("b", push_token="Token")]
    )
    assert places(pages, "ada@example.test") == [0]
    assert places(pages, "Token") == [2]
    assert places(pages, "token") == []


@given(st.lists(st.one_of(st.none(), st.text(min_size=1, max_size=4)), max_size=200))
def test_positions_without_a_recipient_move_nobody(phones: list[str | None]) -> None:
    window = [
        phone and Recipient(RecipientId(f"lead-{n}"), phone=phone) for n, phone in enumerate(phones)
    ]
    pages = address_pages([each or None for each in window])
    for phone in filter(None, phones):
        assert places(pages, phone.lower()) == [
            offset for offset, each in enumerate(phones) if each and each.lower() == phone.lower()
        ]
