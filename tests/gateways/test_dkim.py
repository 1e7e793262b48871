"""DKIM: what we sign, another implementation (dkimpy) verifies; what is changed, it does not."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.domain.call_results import Accepted
from outrider.domain.errors import InvalidInput
from outrider.domain.message_content import Enclosure
from outrider.gateways.directory import Gateways
from outrider.gateways.dkim import DkimSigner, read_key, relaxed_body, signed
from outrider.gateways.dkim_settings import DkimSigners
from outrider.gateways.family import Target
from outrider.gateways.http_client import HttpClient
from outrider.gateways.smtp_message import Letterhead, compose
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from tests.support.broken_server import reservation
from tests.support.dkim_keys import ed25519_key, rsa_key, verified
from tests.support.mail_security import Mailroom, mail_serving

REFERENCE = "ab" * 32
NOW = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
DOMAIN = "shop.example"
RSA = DkimSigner(DOMAIN, "s1", read_key(rsa_key().pem))
ED25519 = DkimSigner(DOMAIN, "e1", read_key(ed25519_key().pem))
RECORDS = {each.name: each.key.record for each in (RSA, ED25519)}
HEAD = Letterhead(
    "Grüße aus Köln <news@shop.example>", "help@shop.example", list_id="n.shop.example"
)
FILE = Enclosure("見積書.pdf", "application/pdf", bytes(range(256)) * 50)
URL = "https://shop.example/unsubscribe/" + "x" * 200


def message(body: str = "Hello\n\nAda", *files: Enclosure, subject: str = "Offer") -> bytes:
    html = body.startswith("<")
    return compose(HEAD, "ada@example.test", subject, body, REFERENCE, NOW, files, URL, html=html)


@pytest.mark.parametrize(
    "raw",
    [
        message(),
        message(""),
        message("  spaces \t and\ttabs  \n \n\n\n"),
        message("<p>Grüße 🎉</p>"),
        message("<p>" + "x" * 5_000, FILE),
        message("Hi", subject="Grüße 🎉 " * 20),
        message("Hi", subject="  a   b  "),
    ],
    ids=["plain", "empty", "spaces", "html", "file", "subject", "spaced subject"],
)  # fmt: skip
def test_another_implementation_verifies_every_signature(raw: bytes) -> None:
    both = signed(raw, (RSA, ED25519), NOW)
    assert both.endswith(raw)
    assert verified(both, RECORDS) == [True, True]
    assert max(map(len, both.removesuffix(raw).split(b"\r\n"))) <= 100


@given(body=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_text_is_signed_so_that_it_verifies(body: str) -> None:
    assert verified(signed(message(body), [ED25519], NOW), RECORDS) == [True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Hello", b"Hallo"),
        (b"Subject: Offer", b"Subject: Order"),
        (b"From: ", b"From: Eve <eve@evil.example>\r\nFrom: "),
        (b"Subject: ", b"Subject: Urgent\r\nSubject: "),
        (b"List-Unsubscribe: <https://shop", b"List-Unsubscribe: <https://evil"),
        (b"One-Click", b"Two-Click"),
        (b"\r\nAda", b"\r\n\r\nAda"),
    ],
)
def test_what_is_changed_on_the_way_no_longer_verifies(old: bytes, new: bytes) -> None:
    whole = signed(message(), (RSA, ED25519), NOW)
    head, mark, rest = whole.partition(b"From: ")
    changed = head + (mark + rest).replace(old, new, 1)
    assert changed != whole
    assert verified(changed, RECORDS) == [False, False]


def test_harmless_changes_on_the_way_are_allowed() -> None:
    whole = signed(message("Hello  Ada"), (RSA, ED25519), NOW)
    folded = whole.replace(b"Subject: Offer", b"SUBJECT:   Offer ") + b"\r\n\r\n"
    relayed = b"Received: from a by b\r\nReturn-Path: <x@y.example>\r\n" + folded
    assert verified(relayed, RECORDS) == [True, True]


def test_a_repeat_at_the_same_time_is_the_same_to_the_byte() -> None:
    assert signed(message(), (RSA, ED25519), NOW) == signed(message(), (RSA, ED25519), NOW)


def test_both_headers_of_one_click_are_covered() -> None:
    header = signed(message(), [RSA], NOW).partition(b"From:")[0]
    named = re.sub(rb"\s", b"", header).partition(b"h=")[2].partition(b";")[0].split(b":")
    assert {b"list-unsubscribe", b"list-unsubscribe-post", b"from", b"list-id"} <= set(named)
    assert named.count(b"from") == 2


@given(st.binary(max_size=100))
def test_a_relaxed_body_is_relaxed_already(body: bytes) -> None:
    body = body.replace(b"\r", b"").replace(b"\n", b"\r\n") + b"\r\n"
    assert relaxed_body(relaxed_body(body)) == relaxed_body(body)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "-----BEGIN PRIVATE KEY-----",
        "YWJj",
        pem(ec.generate_private_key(ec.SECP256R1())),
    ],
    ids=["empty", "nonsense", "cut", "short", "another kind"],
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_key(text)
    assert text == "" or text not in str(refusal.value)


def test_an_ed25519_seed_in_base64_is_a_key() -> None:
    key = read_key("A" * 43 + "=")
    assert (key.algorithm, key.kind, key.bits) == ("ed25519-sha256", "ed25519", 256)


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    (tmp_path / "rsa.pem").write_text(rsa_key().pem)
    (tmp_path / "ed25519.pem").write_text(ed25519_key().pem)
    client = HttpClient()
    both = TargetSettings(
        options={"from": "News <news@shop.example>", "dkimSelector": "s1", "dkimSelector2": "E1"},
        credentials={
            "dkimKey": f"file:{tmp_path}/rsa.pem",
            "dkimKey2": f"file:{tmp_path}/ed25519.pem",
        },
    )
    yield Target("mail", "smtp://127.0.0.1", both, client, LocalSecrets(), "a@b.test")
    await client.close()


async def test_a_target_with_two_keys_signs_twice_and_without_a_login(target: Target) -> None:
    mailroom = Mailroom()
    async with mail_serving(mailroom) as port:
        gateways = Gateways(LocalSecrets(), targets={"mail": target.settings})
        gateway = gateways.gateway("mail", "smtp", f"smtp://127.0.0.1:{port}")
        result = await gateway.call(reservation("ada@example.test", body="<p>Grüße</p>"))
        await gateways.close()
    assert isinstance(result, Accepted)
    [envelope] = mailroom.envelopes
    assert verified(envelope.original_content or b"", RECORDS) == [True, True]


async def test_a_key_is_read_again_and_a_broken_one_is_not_used(
    target: Target, tmp_path: Path
) -> None:
    seconds = 0.0
    signers = DkimSigners(target, DOMAIN, seconds=lambda: seconds)
    first = signers.signers
    (tmp_path / "rsa.pem").write_text(pem(rsa.generate_private_key(65_537, 1024)))
    assert signers.signers == first
    seconds = 61.0
    assert signers.signers[0].key.bits == 1024
    (tmp_path / "rsa.pem").write_text("half a ke")
    seconds = 122.0
    assert signers.signers[0].key.bits == 1024
    (tmp_path / "rsa.pem").write_text(rsa_key().pem)
    seconds = 183.0
    assert signers.signers[0].key.bits == 2048


@pytest.mark.parametrize(
    "given",
    [
        TargetSettings(options={"dkimSelector": "s1"}),
        TargetSettings(options={"dkimDomain": "shop.example"}),
        TargetSettings(credentials={"dkimKey": "env:DKIM_TEST_KEY"}),
        TargetSettings(
            options={"dkimSelector": "s1", "dkimSelector2": "s2"},
            credentials={"dkimKey": "env:DKIM_TEST_KEY"},
        ),
        TargetSettings(
            options={"dkimSelector": "no selector"}, credentials={"dkimKey": "env:DKIM_TEST_KEY"}
        ),
        TargetSettings(
            options={"dkimSelector": "s1", "dkimDomain": "a..b"},
            credentials={"dkimKey": "env:DKIM_TEST_KEY"},
        ),
        TargetSettings(options={"dkimSelector": "s1"}, credentials={"dkimKey": "env:DKIM_UNSET"}),
    ],
)
def test_half_a_set_up_is_refused_when_the_gateway_is_made(
    given: TargetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DKIM_TEST_KEY", rsa_key().pem)
    gateways = Gateways(LocalSecrets(), targets={"mail": given})
    with pytest.raises(InvalidInput):
        gateways.gateway("mail", "smtp", "smtp://mail.test")


def test_a_key_among_the_options_is_refused() -> None:
    with pytest.raises(ValueError, match="belongs in credentials"):
        TargetSettings(options={"dkimKey": rsa_key().pem})
