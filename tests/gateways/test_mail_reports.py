"""Mail that comes back: what is believed of it, and what is not."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.return_paths import ReturnPath
from outrider.domain.webhook_signatures import signed_headers, signing_keys
from outrider.gateways.mail_reports import read_mail
from outrider.gateways.sandbox_receipts import ProviderReport, returned_mail
from outrider.gateways.smtp_receipts import MAIL_TYPE
from outrider.ports.receipts import Callback, Verified
from outrider.testing.receipt_suite import NOW
from tests.support.receipt_targets import SECRET, gateways_of
from tests.support.returned_mails import PER_MESSAGE, TOKENLESS, recipient, report

Event = ReceiptEvent
REFERENCE = "a7" * 32


@pytest.mark.parametrize(
    ("action", "status", "diagnostic", "event", "permanent"),
    [
        ("failed", "5.1.1", "smtp; 550 5.1.1 User unknown", Event.BOUNCED, True),
        ("failed", "5.0.0", "smtp; 550 5.1.1 User unknown", Event.BOUNCED, True),
        ("failed", "5.0.0", "smtp; 550 User unknown", Event.BOUNCED, False),
        ("failed", "5.2.2", "smtp; 552 5.2.2 Mailbox full", Event.BOUNCED, False),
        ("failed", "5.7.1", "smtp; 554 5.7.1 mailbox does not exist here", Event.BOUNCED, False),
        ("failed", "4.4.7", "smtp; 450 4.4.7 expired", Event.BOUNCED, False),
        ("failed", "", "", Event.BOUNCED, False),
        ("delayed", "5.1.1", "smtp; 450 later", Event.FAILED, False),
        ("delivered", "2.0.0", "", Event.DELIVERED, False),
        ("expanded", "2.0.0", "", Event.DELIVERED, False),
    ],
)
def test_hard_and_soft_bounces_are_distinguished_by_code(
    action: str, status: str, diagnostic: str, event: ReceiptEvent, permanent: bool
) -> None:
    mail = read_mail(report(PER_MESSAGE, recipient(action, status, diagnostic)))
    (receipt,) = mail.receipts
    assert (receipt.event, receipt.permanent) == (event, permanent)
    assert receipt.reference is None
    assert receipt.occurred_at == datetime(2026, 11, 17, 11, 59, tzinfo=UTC)
    if event is Event.BOUNCED:
        assert diagnostic.partition("; ")[2] in receipt.reason


def test_a_report_may_be_about_several_recipients() -> None:
    groups = (
        recipient("failed", "5.1.1", "smtp; 550 5.1.1 no", "a@example.test"),
        recipient("delayed", "4.4.1", "smtp; 450 4.4.1 later", "b@example.test"),
        recipient("relayed", "2.0.0", "", "c@example.test"),
    )
    found = read_mail(report(PER_MESSAGE, *groups)).receipts
    assert [each.event for each in found] == [Event.BOUNCED, Event.FAILED]
    assert len({each.receipt_id for each in found}) == 2


def test_a_repeated_report_has_the_same_ids_whatever_its_traces() -> None:
    mail = report(PER_MESSAGE, recipient("failed", "5.1.1", "smtp; 550 5.1.1 no"))
    traced = b"Received: from a by b\r\n" + mail
    assert read_mail(mail).receipts == read_mail(traced).receipts
    other = report(
        PER_MESSAGE, recipient("failed", "5.1.1", "smtp; 550 5.1.1 no"), message_id="<other@x>"
    )
    assert read_mail(other).receipts[0].receipt_id != read_mail(mail).receipts[0].receipt_id


@pytest.mark.parametrize(
    "returned",
    [f"X-Outrider-Reference: {REFERENCE}", f"Message-ID: <{REFERENCE}@outrider>"],
)
def test_the_returned_message_says_which_it_was(returned: str) -> None:
    group = recipient("failed", "5.1.1", "smtp; 550 5.1.1 no")
    mail = read_mail(report(PER_MESSAGE, group, returned=returned))
    assert mail.reference == REFERENCE
    assert TOKENLESS in mail.addresses
    assert [each.reference for each in mail.unproved()] == [REFERENCE]


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("abuse", Event.COMPLAINED), ("fraud", Event.COMPLAINED), ("opt-out", Event.OPTED_OUT),
        ("not-spam", None), ("virus", None), ("auth-failure", None), ("other", None),
    ],
)  # fmt: skip
def test_complaints(kind: str, event: ReceiptEvent | None) -> None:
    fields = (
        f"Feedback-Type: {kind}\nUser-Agent: Yahoo!-Mail-Feedback/2.0\nVersion: 1\n"
        "Original-Mail-From: <bounces+token@mail.example>\nOriginal-Rcpt-To: <ada@example.test>\n"
        "Arrival-Date: Tue, 17 Nov 2026 11:58:00 +0000"
    )
    returned = "X-Outrider-Return: bounces+other@mail.example"
    mail = read_mail(report(fields, kind="feedback-report", returned=returned))
    assert [each.event for each in mail.receipts] == ([] if event is None else [event])
    assert "bounces+token@mail.example" in mail.addresses
    assert "bounces+other@mail.example" in mail.addresses
    if event is not None:
        assert mail.receipts[0].sender == "ada@example.test"


def letter(*headers: str, body: str = "STOP\n\nOn Monday News wrote:\n> Offer") -> bytes:
    lines = ("From: Ada <ada@example.test>", "To: bounces@mail.example", *headers, "", body)
    return "\r\n".join(lines).encode()


def test_a_persons_answer_is_a_reply_without_what_it_quotes() -> None:
    mail = read_mail(letter(f"In-Reply-To: <{REFERENCE}@outrider>"))
    (receipt,) = mail.receipts
    assert (receipt.event, receipt.sender) == (Event.REPLIED, "ada@example.test")
    assert receipt.text == "STOP"
    assert mail.reference == REFERENCE


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: auto-replied", "Auto-Submitted: auto-generated; owner=x",
        "Precedence: bulk", "Precedence: auto_reply", "X-Auto-Response-Suppress: All",
        "X-Autoreply: yes", "Return-Path: <>",
    ],
)  # fmt: skip
def test_an_automatic_message_is_not_a_reply(header: str) -> None:
    assert read_mail(letter(header)).receipts == []
    assert len(read_mail(letter("Auto-Submitted: no")).receipts) == 1


def test_a_report_in_prose_is_not_believed() -> None:
    prose = letter("Auto-Submitted: auto-replied", body="550 5.1.1 user unknown")
    assert read_mail(prose).receipts == []


def test_a_report_within_what_is_returned_is_not_this_report() -> None:
    inner = report(PER_MESSAGE, recipient("failed", "5.1.1", "smtp; 550 5.1.1 no")).decode()
    outer = report(PER_MESSAGE, recipient("relayed", "2.0.0", ""), returned=inner)
    assert read_mail(outer).receipts == []


def test_no_bytes_make_it_raise() -> None:
    noise = random.Random(3464)
    mail = report(PER_MESSAGE, recipient("failed", "5.1.1", "smtp; 550 5.1.1 no"))
    for _ in range(300):
        broken = bytearray(mail)
        for _ in range(noise.randrange(1, 30)):
            broken[noise.randrange(len(broken))] = noise.randrange(256)
        read_mail(bytes(broken[: noise.randrange(len(broken))]))
    for raw in (b"", b"\n", b"\x00" * 100, b"Content-Type: multipart/report\n\n", b":" * 9_999):
        assert read_mail(raw).receipts == []


@pytest.mark.parametrize(
    "raw",
    [
        b"From: a@b.test\nContent-Type: text/plain; charset=idna\n\nst\xfcop\n",
        b'From: a@b.test\nContent-Type: text/plain; charset="a\x00b"\n\nstop\n',
        b"From: a@b.test\nDate: Mon, 1 Jan 99999999999999999999 00:00:00 +0000\n\nstop\n",
        b"From: a@b.test\n" + b"Content-Type: message/rfc822\n\n" * 2_000,
        b"From: a@b.test\n"
        + b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth)
            for depth in range(2_000)
        ),
    ],
    ids=["codec_without_replacing", "nul_in_charset", "year", "messages_in_messages", "parts"],
)
def test_a_crafted_mail_does_not_raise(raw: bytes) -> None:
    assert len(read_mail(raw).receipts) <= 1


def posted(raw: bytes) -> Sequence[Receipt]:
    """What a target's reader makes of a mail that its own mail server has posted, signed."""
    reader = gateways_of("smtp").receipt_reader("mine", "smtp")
    assert reader is not None
    headers = signed_headers(signing_keys(SECRET), "post-1", int(NOW.timestamp()), raw)
    asked = Callback("POST", "", {}, {**headers, "content-type": MAIL_TYPE}, raw)
    found = reader.read(asked, NOW)
    assert isinstance(found, Verified)
    return found.receipts


@pytest.mark.parametrize("proof", ["", f"In-Reply-To: <{REFERENCE}@outrider>"])
def test_a_posted_mail_without_our_token_is_not_trusted_about_the_recipient(proof: str) -> None:
    """The signature is that of the server which posts it; whose mail it is, anyone may write."""
    (receipt,) = posted(letter(*filter(None, [proof])))
    assert (receipt.event, receipt.sender) == (Event.REPLIED, None)
    assert receipt.reference == (REFERENCE if proof else None)
    complaint = returned_mail(
        ProviderReport(
            "r-1", Event.COMPLAINED, REFERENCE, "m", "victim@example.test", NOW, "x@y.test"
        )
    )
    (receipt,) = posted(complaint)
    assert (receipt.event, receipt.sender) == (Event.COMPLAINED, None)


def test_a_reply_to_one_of_our_tokens_is_trusted() -> None:
    path = ReturnPath("bounces", "mail.example")
    address = path.address(signing_keys(SECRET)[0], REFERENCE)
    (receipt,) = posted(letter(f"Delivered-To: {address}"))
    assert (receipt.reference, receipt.sender) == (REFERENCE, "ada@example.test")
