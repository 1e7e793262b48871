"""E-mails with files: what a mail program reads is what was enclosed, and nothing breaks out."""

from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.message_content import Enclosure
from outrider.gateways.mail_parts import boundary, safe_kind, safe_name
from outrider.gateways.smtp_message import Letterhead, compose

REFERENCE = "ab" * 32
NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
PDF = Enclosure("quote.pdf", "application/pdf", b"%PDF-1.4\n" + bytes(range(256)) * 40)


def composed(*enclosures: Enclosure, body: str = "Hello", subject: str = "Offer") -> bytes:
    return compose(Letterhead(), "ada@example.test", subject, body, REFERENCE, NOW, enclosures)


def parsed(message: bytes) -> EmailMessage:
    read = BytesParser(policy=policy.default).parsebytes(message)
    assert isinstance(read, EmailMessage)
    for part in read.walk():
        assert not part.defects, part.defects
    return read


def text_of(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    assert isinstance(part, EmailMessage)
    content: str = part.get_content()
    return content


def files_of(message: EmailMessage) -> list[tuple[str | None, str, bytes]]:
    return [
        (part.get_filename(), part.get_content_type(), part.get_payload(decode=True))  # type: ignore[misc]
        for part in message.iter_attachments()
    ]


def test_enclosed_files_are_what_a_mail_program_reads() -> None:
    empty = Enclosure("nothing.txt", "text/plain; charset=utf-8", b"")
    read = parsed(composed(PDF, empty, body="Grüße\nund\r\nmehr"))
    assert read.get_content_type() == "multipart/mixed"
    assert text_of(read) == "Grüße\r\nund\r\nmehr"
    assert files_of(read) == [
        ("quote.pdf", "application/pdf", PDF.content),
        ("nothing.txt", "text/plain", b""),
    ]
    assert read["To"] == "ada@example.test"
    assert read["X-Outrider-Reference"] == REFERENCE


def test_a_message_without_files_is_one_text_as_before() -> None:
    assert composed(body="Hi\nthere") == (
        b"From: outrider@localhost\r\nTo: ada@example.test\r\nSubject: Offer\r\n"
        b"Date: Mon, 02 Nov 2026 09:30:00 +0000\r\n"
        b"Message-ID: <" + REFERENCE.encode() + b"@localhost>\r\n"
        b"X-Outrider-Reference: " + REFERENCE.encode() + b"\r\n"
        b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: 7bit\r\n\r\nHi\r\nthere\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "quote 17, final (2).pdf",
        "Angebot für Zoë.pdf",
        "見積書.pdf",
        "semi;colon=equals'quote%.pdf",
        "a" * 196 + ".pdf",
        "é" * 200,
    ],
)
def test_a_name_arrives_as_it_is(name: str) -> None:
    message = composed(Enclosure(name, "application/pdf", b"x"))
    assert files_of(parsed(message)) == [(name, "application/pdf", b"x")]
    _, _, parts = message.partition(b"\r\n\r\n")
    assert max(map(len, parts.split(b"\r\n"))) <= 78


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "_._.._etc_passwd"),
        ("C:\\autoexec.bat", "C__autoexec.bat"),
        (".bashrc", "_bashrc"),
        ('say "hi".txt', "say _hi_.txt"),
        ("a\r\nBcc: eve@example.test", "a__Bcc_ eve@example.test"),
        ("fdp\u202eexe", "fdp_exe"),
        ("\ud800", "_"),
        ("", "attachment"),
        ("   ", "attachment"),
    ],
)
def test_a_name_is_no_path_no_header_and_no_hidden_file(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    read = parsed(composed(Enclosure(name, "application/pdf", b"x")))
    assert [name for name, _, _ in files_of(read)] == [safe]
    assert read["Bcc"] is None


@pytest.mark.parametrize(
    "content_type",
    [
        "application/pdf\r\nBcc: eve@example.test",
        "multipart/mixed; boundary=x",
        "Message/RFC822",
        "text/html; charset=utf-8; name=x",
        "pdf",
        "a/" + "b" * 1_000,
        "",
    ],
)
def test_an_invalid_content_type_becomes_unknown(content_type: str) -> None:
    assert safe_kind(content_type) == "application/octet-stream"
    read = parsed(composed(Enclosure("x", content_type, b"x")))
    assert files_of(read) == [("x", "application/octet-stream", b"x")]
    assert read["Bcc"] is None


def test_a_text_that_holds_the_boundary_ends_nothing() -> None:
    edge = f"--{boundary(REFERENCE)}"
    body = f"before\r\n{edge}\r\n{edge}--\r\nafter"
    hostile = Enclosure("x.txt", "text/plain", body.encode())
    read = parsed(composed(hostile, body=body))
    assert text_of(read) == body
    assert files_of(read) == [("x.txt", "text/plain", body.encode())]


@given(
    body=st.text(max_size=200),
    files=st.lists(
        st.tuples(st.text(max_size=220), st.text(max_size=30), st.binary(max_size=400)),
        min_size=1,
        max_size=3,
    ),
)
def test_whatever_is_enclosed_arrives_in_its_order_and_whole(
    body: str, files: list[tuple[str, str, bytes]]
) -> None:
    try:
        message = composed(*(Enclosure(*each) for each in files), body=body)
    except UnicodeEncodeError:
        assert any("\ud800" <= each <= "\udfff" for each in body)
        return
    read = parsed(message)
    assert message.isascii()
    assert [content for _, _, content in files_of(read)] == [content for _, _, content in files]
    assert set(read.keys()) == {
        "From", "To", "Subject", "Date", "Message-ID", "X-Outrider-Reference", "MIME-Version",
        "Content-Type",
    }  # fmt: skip
