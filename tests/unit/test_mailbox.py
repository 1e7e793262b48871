"""Senders as people write them."""

from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest

from outrider.domain.errors import InvalidInput
from outrider.domain.mailbox import mailbox
from outrider.gateways.helo_name import checked, literal
from outrider.gateways.smtp_message import Letterhead, compose

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("news@example.test", "", "news@example.test"),
        ("<news@example.test>", "", "news@example.test"),
        ("News <news@example.test>", "News", "news@example.test"),
        ('"Ada, of London" <ada@example.test>', "Ada, of London", "ada@example.test"),
        ("Ada, of London <ada@example.test>", "Ada, of London", "ada@example.test"),
        ('"A \\"B\\" C" <ada@example.test>', 'A "B" C', "ada@example.test"),
        ("Grüße aus Köln <gruss@example.test>", "Grüße aus Köln", "gruss@example.test"),
        ("=?utf-8?q?sly?= <ada@example.test>", "=?utf-8?q?sly?=", "ada@example.test"),
        ("日本語" * 20 + " <ada@example.test>", "日本語" * 20, "ada@example.test"),
    ],
)
def test_a_senders_name_is_in_the_header_and_not_in_the_envelope(
    text: str, name: str, address: str
) -> None:
    """F3: `from = "News <news@example.test>"` was refused, and only when it was sent."""
    letterhead = Letterhead(text, text)
    assert letterhead.address == address
    raw = compose(letterhead, "to@example.test", "Hi", "Hello", "5f" * 32, NOW)
    assert raw.split(b"\r\n\r\n")[0].isascii()
    message = message_from_bytes(raw, policy=policy.default)
    for header in ("From", "Reply-To"):
        (found,) = message[header].addresses
        # Between the pieces of a long name the library's reader puts spaces.
        shown = "".join(found.display_name.split())
        assert (shown, found.addr_spec) == ("".join(name.split()), address)


@pytest.mark.parametrize(
    "text",
    ["", "News", "News <news>", "News <a@b.test> x", "a@b.test, c@d.test", "A <a@b.test>\r\nBcc: x",
     "A\x00 <a@b.test>", "<<a@b.test>>", "x" * 201 + " <a@b.test>", "é@b.test"],
)  # fmt: skip
def test_an_invalid_mailbox_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        mailbox(text)


@pytest.mark.parametrize(
    ("address", "name"),
    [("127.0.0.1", "[127.0.0.1]"), ("::1", "[IPv6:::1]"), ("::ffff:10.0.0.1", "[10.0.0.1]")],
)
def test_without_a_full_name_an_address_is_said_at_helo(address: str, name: str) -> None:
    """A3: the bare host name was said, which servers refuse."""
    assert literal(address) == name
    assert checked(name) == name


@pytest.mark.parametrize("name", ["localhost", "", "a b.test", "[me]", "-a.test", "a..test"])
def test_a_bare_name_cannot_be_set_for_helo(name: str) -> None:
    with pytest.raises(InvalidInput):
        checked(name)
    assert checked("mail.example.test") == "mail.example.test"
