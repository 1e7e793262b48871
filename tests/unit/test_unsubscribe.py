"""Unsubscribe tokens say whom they opt out, to whoever has the secret, and nothing else is one."""

import base64
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.domain.addresses import EMAIL_MAX_CHARACTERS, PUSH_TOKEN_MAX_CHARACTERS
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkspaceId
from outrider.domain.public_urls import PUBLIC_URL_MAX_CHARACTERS
from outrider.domain.states import Channel
from outrider.domain.unsubscribe import (
    SECRET_BYTES,
    TOKEN_MAX_CHARACTERS,
    UnsubscribeUrls,
    Unsubscription,
    make_token,
    read_token,
    shows_link,
    with_link,
)
from outrider.gateways.smtp_message import LINE_MAX_CHARACTERS, Letterhead
from outrider.settings import Settings

SECRET = bytes(range(SECRET_BYTES))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ADA = make_token(SECRET, DEFAULT_SCOPE, Channel.EMAIL, "ada@example.test")

scopes = st.builds(
    lambda tenant, workspace: Scope(TenantId(str(tenant)), WorkspaceId(str(workspace))),
    st.uuids(),
    st.uuids(),
)
channels = st.sampled_from(Channel)
addresses = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=254)


@given(scopes, channels, addresses)
def test_a_token_says_again_whom_it_was_made_for(
    scope: Scope, channel: Channel, address: str
) -> None:
    token = make_token(SECRET, scope, channel, address)
    assert set(token) <= set(ALPHABET)
    assert read_token(SECRET, token) == Unsubscription(scope, channel, address.lower())


FIRST_VERSION = (
    "AQAAAAAAAHAAgAAAAAAAAAEAAAAAAABwAIAAAAAAAAACZW1haWwAYWRhQGV4YW1wbGUudG"
    "VzdB0NozgczbQDPHcgd2DQpr4"
)
"""What the first version made for Ada with this secret."""


@given(scopes, channels, addresses)
def test_a_token_does_not_reveal_its_address(scope: Scope, channel: Channel, address: str) -> None:
    """X8: the address was there to be read, in base64."""
    token = make_token(SECRET, scope, channel, address)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for shown in (address.lower().encode(), UUID(scope.workspace_id).bytes):
        assert len(shown) < 4 or shown not in raw
    other = make_token(SECRET, scope, channel, f"{address}x")
    assert token[22:40] != other[22:40], "what they have in common does not show"


def test_links_of_the_first_version_still_opt_out() -> None:
    """X8: they are in mailboxes."""
    ada = Unsubscription(DEFAULT_SCOPE, Channel.EMAIL, "ada@example.test")
    assert read_token(SECRET, FIRST_VERSION) == ada
    for place in range(len(FIRST_VERSION)):
        other = "A" if FIRST_VERSION[place] != "A" else "B"
        forged = FIRST_VERSION[:place] + other + FIRST_VERSION[place + 1 :]
        assert read_token(SECRET, forged) is None


def test_however_an_address_is_spelt_its_token_is_the_same() -> None:
    assert make_token(SECRET, DEFAULT_SCOPE, Channel.EMAIL, "ADA@Example.TEST") == ADA


@given(scopes, addresses, st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))
def test_without_the_secret_nobody_can_forge_one(scope: Scope, address: str, other: bytes) -> None:
    token = make_token(other, scope, Channel.EMAIL, address)
    assert (read_token(SECRET, token) is None) is (other != SECRET)


@given(st.integers(0, len(ADA) - 1), st.sampled_from(ALPHABET))
def test_one_other_character_makes_it_worthless(place: int, character: str) -> None:
    changed = ADA[:place] + character + ADA[place + 1 :]
    assert (read_token(SECRET, changed) is None) is (changed != ADA)


@given(st.integers(1, len(ADA) - 1), st.text(ALPHABET + "=. ", min_size=1, max_size=4))
def test_one_that_was_cut_or_added_to_is_none(length: int, added: str) -> None:
    assert read_token(SECRET, ADA[:length]) is None
    assert read_token(SECRET, ADA[length:]) is None
    assert read_token(SECRET, ADA + added) is None


def test_a_part_of_one_token_does_not_fit_into_another() -> None:
    other = Scope(DEFAULT_SCOPE.tenant_id, WorkspaceId(str(UUID(int=7))))
    theirs = make_token(SECRET, other, Channel.EMAIL, "ada@example.test")
    for place in range(1, len(ADA)):
        for mixed in (ADA[:place] + theirs[place:], theirs[:place] + ADA[place:]):
            assert mixed in (ADA, theirs) or read_token(SECRET, mixed) is None


@given(st.text(max_size=400) | st.binary(max_size=400).map(lambda raw: raw.decode("latin-1")))
def test_no_text_whatever_raises(text: str) -> None:
    assert read_token(SECRET, text) is None


@pytest.mark.parametrize("text", ["", "=", "A" * 10_000_000, "é" * 40, "\ud800", "A\n", f"{ADA}\n"])
def test_an_impossible_token_is_not_a_token(text: str) -> None:
    assert read_token(SECRET, text) is None


@pytest.mark.parametrize("channel", Channel)
def test_the_longest_address_has_a_token_too(channel: Channel) -> None:
    token = make_token(SECRET, DEFAULT_SCOPE, channel, "x" * PUSH_TOKEN_MAX_CHARACTERS)
    assert len(token) <= TOKEN_MAX_CHARACTERS
    assert read_token(SECRET, token) is not None


def test_the_longest_link_fits_on_one_line_of_a_header() -> None:
    public_url = f"https://{'x' * 60}.test/".ljust(PUBLIC_URL_MAX_CHARACTERS, "p")
    urls = UnsubscribeUrls(Settings(public_url=public_url).public_url or "", SECRET)
    link = urls.url_of(DEFAULT_SCOPE, Channel.EMAIL, "x" * EMAIL_MAX_CHARACTERS)
    assert len(f"List-Unsubscribe: <{link}>") < LINE_MAX_CHARACTERS


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(UnsubscribeUrls("https://a.test", b"a secret"))


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("ada@example.test", "a•••@example.test"),
        ("a@example.test", "•••@example.test"),
        ("+447700900123", "•••23"),
        ("abcd", "•••"),
    ],
)
def test_an_address_is_shown_only_to_those_who_already_know_it(address: str, masked: str) -> None:
    assert Unsubscription(DEFAULT_SCOPE, Channel.EMAIL, address).masked_address == masked


@pytest.mark.parametrize(
    ("attributes", "merged"),
    [
        ("{}", {"unsubscribeUrl": "https://a.test/u"}),
        (" { } ", {"unsubscribeUrl": "https://a.test/u"}),
        ('{"a": {"b": 1}}', {"unsubscribeUrl": "https://a.test/u", "a": {"b": 1}}),
        ('{"unsubscribeUrl": "https://own.test"}', {"unsubscribeUrl": "https://own.test"}),
    ],
)
def test_the_link_joins_what_is_known_of_a_recipient(attributes: str, merged: object) -> None:
    assert json.loads(with_link(attributes, "https://a.test/u")) == merged


def test_only_a_text_that_names_the_link_asks_for_it() -> None:
    assert shows_link(None, "Bye: {{ unsubscribeUrl }}")
    assert shows_link("{{unsubscribeUrl}}", "")
    assert not shows_link(None, "Hi {{ firstName }}")


def test_a_messages_own_link_comes_before_its_targets() -> None:
    letterhead = Letterhead(list_unsubscribe="https://example.test/{reference}")
    assert "<https://own.test/u>" in letterhead.headers("r", "https://own.test/u")
    assert "<https://example.test/r>" in letterhead.headers("r")


@pytest.mark.parametrize(
    ("given_url", "kept"),
    [
        ("https://news.example.com", "https://news.example.com"),
        ("https://news.example.com:8443/", "https://news.example.com:8443"),
        ("https://example.com/mail/", "https://example.com/mail"),
        ("http://127.0.0.1:8400", "http://127.0.0.1:8400"),
        ("http://[::1]:8400/", "http://[::1]:8400"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_a_public_url_is_kept_without_its_last_slash(given_url: str, kept: str) -> None:
    assert Settings(public_url=given_url).public_url == kept


@pytest.mark.parametrize(
    "given_url",
    [
        "", "news.example.com", "ftp://example.com", "http://example.com", "https://",
        "https://example.com/?a=1", "https://example.com/?", "https://example.com/#a",
        "https://user:hunter2@example.com", "https://example.com/a b", "https://a.test/\r\nX: y",
        "https://example.com/>", "https://exämple.com", "https://example.com:http",
        "http://10.0.0.1", f"https://example.com/{'a' * PUBLIC_URL_MAX_CHARACTERS}",
    ],
)  # fmt: skip
def test_a_url_that_does_not_fit_in_a_header_is_not_a_public_url(given_url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(public_url=given_url)
    assert "hunter2" not in str(refused.value)
