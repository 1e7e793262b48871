"""Texts of e-mails: what was written is what is read, however it has to be encoded."""

from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.errors import InvalidInput
from outrider.domain.message_content import Enclosure
from outrider.gateways.mail_parts import boundary
from outrider.gateways.mail_text import LINE_MAX_BYTES, text_part
from outrider.gateways.smtp_message import Letterhead, compose

REFERENCE = "ab" * 32
NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
PDF = Enclosure("quote.pdf", "application/pdf", b"%PDF-1.4")


def read(
    body: str,
    *enclosures: Enclosure,
    html: bool = False,
    text: str | None = None,
    letterhead: Letterhead | None = None,
    unsubscribe_url: str | None = None,
) -> EmailMessage:
    raw = compose(
        letterhead or Letterhead(), "ada@example.test", "Offer", body, REFERENCE, NOW, enclosures,
        unsubscribe_url, html=html, text=text,
    )  # fmt: skip
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= LINE_MAX_BYTES
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    message = BytesParser(policy=policy.default).parsebytes(raw)
    assert isinstance(message, EmailMessage)
    assert not any(part.defects for part in message.walk())
    return message


def content(message: MIMEPart | None) -> str:
    """With line feeds; a message that is one text ends with one."""
    assert message is not None
    payload = message.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode().replace("\r\n", "\n")


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Hello\nthere", "7bit"),
        ("x" * LINE_MAX_BYTES, "7bit"),
        ("x" * (LINE_MAX_BYTES + 1), "quoted-printable"),
        ("Viele Grüße aus Köln am Rhein, sagt Zoë aus der Ferne", "quoted-printable"),
        ("日本語のメール", "base64"),
        ("🎉" * 500, "base64"),
        ("a\0b", "quoted-printable"),
        ("trailing \nspace\t", "quoted-printable"),
        ("Hello\nFrom Ada", "base64"),
        ("From Ada, é", "base64"),
        (f"--{boundary(REFERENCE)}--", "quoted-printable"),
        (".\n..\n.x", "7bit"),
        ("é\n.\n", "base64"),
        ("", "7bit"),
    ],
)
def test_a_text_is_encoded_only_where_it_must_be_and_arrives_as_it_was(
    text: str, encoding: str
) -> None:
    assert f"Content-Transfer-Encoding: {encoding}\n" in text_part(text, "plain").headers
    assert content(read(text)).removesuffix("\n") == text.removesuffix("\n")
    # In a part, even the last line end is as it was.
    assert content(read(text, PDF).get_body(("plain",))) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.booleans())
def test_any_text_arrives_as_it_was(text: str, html: bool) -> None:
    message = read(text, PDF, html=html)
    kind = "html" if html else "plain"
    assert content(message.get_body((kind,))) == lines(text)


def test_html_is_accompanied_by_its_text() -> None:
    message = read('<p>Hello <a href="https://shop.example">Zoë</a></p>', html=True)
    assert message.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert content(message.get_body(("plain",))) == "Hello Zoë (https://shop.example)"
    assert "shop.example" in content(message.get_body(("html",)))


def test_a_text_that_its_author_wrote_is_used_instead() -> None:
    message = read("<p>Hello</p>", html=True, text="Dear all,")
    assert content(message.get_body(("plain",))) == "Dear all,"


def test_html_without_any_text_is_sent_alone() -> None:
    assert read("<img src=x>", html=True).get_content_type() == "text/html"


def test_files_follow_both_forms_of_the_text() -> None:
    message = read("<p>Hello</p>", PDF, html=True)
    assert message.get_content_type() == "multipart/mixed"
    alternative, file = message.iter_parts()
    assert alternative.get_content_type() == "multipart/alternative"
    assert file.get_filename() == "quote.pdf"


def test_every_attempt_has_the_same_message_id_at_the_senders_domain() -> None:
    ours = Letterhead("News <news@müller.example>")
    for _ in range(2):
        message = read("Hi", letterhead=ours)
        assert message["Message-ID"] == f"<{REFERENCE}@xn--mller-kva.example>"
        assert message["From"].addresses[0].domain == "xn--mller-kva.example"


@pytest.mark.parametrize(
    ("given", "heard"),
    [
        ("news.shop.example", "<news.shop.example>"),
        ("<news.shop.example>", "<news.shop.example>"),
        ("Our News <news.shop.example>", "Our News <news.shop.example>"),
        ("Grüße <news.shop.example>", "Grüße <news.shop.example>"),
    ],
)
def test_a_list_has_an_id(given: str, heard: str) -> None:
    assert read("Hi", letterhead=Letterhead(list_id=given))["List-Id"] == heard


@pytest.mark.parametrize("given", ["", "news", "a b", "News <x@y.test>", "a.b\r\nBcc: c@d.test"])
def test_an_invalid_list_id_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="List-Id"):
        Letterhead(list_id=given)


def test_only_what_one_can_unsubscribe_from_is_marked_as_bulk() -> None:
    url = "https://shop.example/unsubscribe/1"
    assert read("Hi", unsubscribe_url=url)["Precedence"] == "bulk"
    assert read("Hi")["Precedence"] is None
    unmarked = Letterhead(precedence="none")
    assert read("Hi", unsubscribe_url=url, letterhead=unmarked)["Precedence"] is None
    with pytest.raises(InvalidInput, match="precedence"):
        Letterhead(precedence="urgent")
