"""Recipients: addresses normalised once, bad ones flagged and harmless, screening by flags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.addresses import (
    EMAIL_MAX_CHARACTERS,
    normalise_email,
    normalise_phone,
    normalise_push_token,
)
from outrider.domain.recipients import AddressKind, SkipReason, address_kind, recipient, screen
from outrider.domain.states import Channel

SMUGGLED = ["\r", "\n", "\r\n", "\0", "\u2028", "\x85", "\x7f"]
places = st.integers(min_value=0, max_value=40)
labels = st.from_regex(r"[a-zA-Z0-9]{1,10}", fullmatch=True)
emails = st.builds("{}@{}.{}".format, labels, labels, labels)
phones = st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True)


def _with(text: str, place: int, smuggled: str) -> str:
    return text[: place % (len(text) + 1)] + smuggled + text[place % (len(text) + 1) :]


@pytest.mark.parametrize("smuggled", SMUGGLED)
@given(email=emails, phone=phones, token=labels, place=places)
def test_a_control_character_anywhere_makes_an_address_invalid(
    smuggled: str, email: str, phone: str, token: str, place: int
) -> None:
    assert normalise_email(_with(email, place, smuggled)) is None
    assert normalise_phone(_with(phone, place, smuggled)) is None
    assert normalise_push_token(_with(token, place, smuggled)) is None


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_a_stored_address_never_has_a_line_break(email: str, phone: str, token: str) -> None:
    made = recipient("lead", email=email, phone=phone, push_token=token)
    for kept in (made.email, made.phone, made.push_token):
        assert kept is None or kept.isprintable()
    # A mailbox may be named in any script; numbers and tokens are ASCII.
    assert (made.phone or "").isascii()
    assert (made.push_token or "").isascii()


@given(st.text(max_size=300))
def test_an_address_is_either_normal_already_or_flagged(given_text: str) -> None:
    made = recipient("lead", email=given_text)
    if not given_text:
        assert made.email is None
        assert made.invalid is AddressKind.NONE
    elif made.invalid:
        assert made.invalid is AddressKind.EMAIL
        assert normalise_email(given_text) is None
    else:
        assert made.email == normalise_email(given_text)


@given(emails)
def test_normalising_an_email_twice_changes_nothing(email: str) -> None:
    once = normalise_email(email)
    assert once is not None
    assert normalise_email(once) == once


@pytest.mark.parametrize(
    ("given_text", "normal"),
    [
        ("Ada@Example.ORG", "Ada@example.org"),
        ("  ada@example.org ", "ada@example.org"),
        ("a.b+c@example.org", "a.b+c@example.org"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
        ("ada@localhost", None),
        ("ada", None),
        ("@example.org", None),
        ("ada@", None),
        ("ada@-a.org", None),
        ("ada@a..org", None),
        (".ada@example.org", None),
        ("ada @example.org", None),
        ("<ada@example.org>", None),
        ("ada@example.org,bob@example.org", None),
        ("a" * 65 + "@example.org", None),
        ("a@" + "b" * 60 + ("." + "b" * 60) * 4, None),
    ],
)
def test_an_email_is_normalised_or_refused(given_text: str, normal: str | None) -> None:
    assert normalise_email(given_text) == normal


@pytest.mark.parametrize(
    ("given_text", "normal"),
    [
        ("+44 7700 900123", "+447700900123"),
        ("+1 (415) 555-0132", "+14155550132"),
        ("07700 900123", None),
        ("+0770090012", None),
        ("+44", None),
        ("+" + "4" * 16, None),
        ("+4477009001٢٣", None),
    ],
)
def test_a_phone_is_e164_or_refused(given_text: str, normal: str | None) -> None:
    assert normalise_phone(given_text) == normal


def test_a_bad_address_is_kept_escaped_for_the_record() -> None:
    made = recipient("lead", email="ada@example.org\r\nRCPT TO:<eve@example.org>")
    assert made.invalid == AddressKind.EMAIL
    assert made.email == "ada@example.org\\r\\nRCPT TO:<eve@example.org>"


def test_a_bad_address_is_cut_to_a_bounded_length() -> None:
    kept = recipient("lead", email="x" * 10_000).email
    assert kept is not None
    assert len(kept) == EMAIL_MAX_CHARACTERS


def test_each_bad_address_is_flagged_on_its_own() -> None:
    made = recipient("lead", email="no", phone="+447700900123", push_token="a b")
    assert made.invalid == AddressKind.EMAIL | AddressKind.PUSH_TOKEN
    assert made.phone == "+447700900123"


@pytest.mark.parametrize(
    ("channel", "kind"),
    [
        (Channel.EMAIL, AddressKind.EMAIL),
        (Channel.SMS, AddressKind.PHONE),
        (Channel.WHATSAPP, AddressKind.PHONE),
        (Channel.VOICE, AddressKind.PHONE),
        (Channel.PUSH, AddressKind.PUSH_TOKEN),
        (Channel.SOCIAL, AddressKind.NONE),
    ],
)
def test_each_channel_has_its_kind_of_address(channel: Channel, kind: AddressKind) -> None:
    assert address_kind(channel) is kind


flags = st.integers(min_value=0, max_value=7)


@given(
    st.sampled_from([AddressKind.EMAIL, AddressKind.PHONE, AddressKind.PUSH_TOKEN]), flags, flags
)
def test_screening_looks_at_the_flags_of_its_own_kind_only(
    kind: AddressKind, invalid: int, duplicate: int
) -> None:
    reason = screen(kind, "somewhere", invalid, duplicate)
    if invalid & kind:
        assert reason == SkipReason.INVALID_ADDRESS
    elif duplicate & kind:
        assert reason == SkipReason.DUPLICATE_ADDRESS
    else:
        assert reason is None


@given(flags, flags)
def test_a_recipient_without_an_address_is_skipped_unless_the_channel_needs_none(
    invalid: int, duplicate: int
) -> None:
    assert screen(AddressKind.EMAIL, None, invalid, duplicate) == SkipReason.NO_ADDRESS
    assert screen(AddressKind.NONE, None, invalid, duplicate) is None
