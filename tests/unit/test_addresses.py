"""The address layer (C4): real spellings, and the two promises about all others."""

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.addressees import addressees
from outrider.domain.addresses import needs_smtputf8, normalise_email, normalise_phone
from outrider.domain.recipients import recipient
from outrider.domain.states import Channel
from outrider.domain.workflows import DomainEvent, DomainEventId, RecipientConfig

EMAILS = [
    # IDNA 2008: ß, ς and joiners are letters of their own, and belong to other owners than ss.
    ("a@straße.example", "a@xn--strae-oqa.example"),
    ("a@STRASSE.example", "a@strasse.example"),
    ("a@Bücher.Example", "a@xn--bcher-kva.example"),
    ("a@βόλος.example", "a@xn--nxasmm1c.example"),
    ("a@例え.テスト", "a@xn--r8jz45g.xn--zckzah"),
    ("a@ｅｘａｍｐｌｅ。com", "a@example.com"),
    ("a@☃.example", None),
    ("a@\u202eexample.com", None),
    ("a@bücher..example", None),
    # SMTPUTF8
    ("δοκιμή@παράδειγμα.δοκιμή", "δοκιμή@xn--hxajbheg2az3al.xn--jxalpdlp"),
    ("用户@例子.example", "用户@xn--fsqu00a.example"),
    ("JOSÉ.Ruiz@example.com", "JOSé.Ruiz@example.com"),
    ("jose\u0301@example.com", "josé@example.com"),
    ("jo\u200bse@example.com", None),
    ("josé @example.com", None),
    ("josé\u202e@example.com", None),
    ("josé\u0085@example.com", None),
    ("é" * 33 + "@example.com", None),
    # Quoted local parts
    ('"john smith"@example.com', '"john smith"@example.com'),
    ('"john.smith"@Example.com', "john.smith@example.com"),
    ('"j\\ohn"@example.com', "john@example.com"),
    ('"a@b"@example.com', '"a@b"@example.com'),
    ('"a\\"b"@example.com', '"a\\"b"@example.com'),
    ('"a"b"@example.com', None),
    ('"a\nb"@example.com', None),
    ('""@example.com', None),
]


@pytest.mark.parametrize(("written", "normal"), EMAILS)
def test_an_email_reaches_its_owner_or_no_one(written: str, normal: str | None) -> None:
    assert normalise_email(written) == normal


PHONES = [
    ("+44 (0)7700 900123", "+447700900123"),
    ("+44(0) 7700-900-123", "+447700900123"),
    ("+49 (0) 30 / 1234567", "+49301234567"),
    ("+44 07700 900123", "+447700900123"),
    ("+44\u00a07700\u202f900\u2011123", "+447700900123"),
    ("\u202a+44 7700 900123\u202c", "+447700900123"),
    ("+1 (415) 555-0132", "+14155550132"),
    # In these countries the zero is part of the number.
    ("+39 (0)6 12345678", "+390612345678"),
    ("+39 06 12345678", "+390612345678"),
    ("+225 07 01 02 03 04", "+2250701020304"),
    # Nobody can tell what these mean.
    ("+44 (0)0 7700 900123", None),
    ("+44 007700 900123", None),
    ("+44 7700 (0) 900123", None),
    ("(0)7700 900123", None),
    ("0044 7700 900123", None),
    ("+44 7700 900123 x5", None),
]


@pytest.mark.parametrize(("written", "normal"), PHONES)
def test_a_number_is_dialled_as_it_is_dialled_from_abroad(written: str, normal: str | None) -> None:
    assert normalise_phone(written) == normal


letters = st.characters(codec="utf-8", exclude_characters="@")
locals_ = st.text(letters, min_size=1, max_size=12)
domains = st.lists(st.text(letters, min_size=1, max_size=8), min_size=2, max_size=3).map(".".join)
written_emails = st.builds(
    "{}@{}".format, locals_ | locals_.map('"{}"'.format), domains | st.just("example.com")
)


@given(written_emails)
def test_normalising_any_email_twice_changes_nothing(written: str) -> None:
    normal = normalise_email(written)
    if normal is not None:
        assert normalise_email(normal) == normal
        assert normal.isprintable()
        assert normal.rpartition("@")[2].isascii()


@given(locals_)
def test_a_mailbox_never_becomes_another_one(local: str) -> None:
    """Spelling may change in case and composition only."""

    def told_apart(text: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.strip(" ")).lower())

    normal = normalise_email(f"{local}@example.com")
    if normal is not None and '"' not in local:
        kept = normal.rpartition("@")[0]
        assert told_apart(kept).replace("σ", "ς") == told_apart(local).replace("σ", "ς")


@given(st.text("abcxyz", min_size=1, max_size=5), st.sampled_from([("ß", "ss"), ("ς", "σ")]))
def test_a_letter_of_an_alphabet_is_never_mapped_to_others(
    rest: str, letters_of_2003: tuple[str, str]
) -> None:
    own, folded = letters_of_2003
    start = "βόλο" if own == "ς" else rest
    kept = normalise_email(f"a@{start}{own}.example")
    assert kept is not None
    assert kept != normalise_email(f"a@{start}{folded}.example")


phone_pieces = st.lists(
    st.sampled_from(["+", "44", "49", "39", "1", "(0)", "0", "7", " ", "-", "(", ")", "/", "123"]),
    max_size=14,
)


@given(phone_pieces.map("".join))
def test_normalising_any_number_twice_changes_nothing(written: str) -> None:
    normal = normalise_phone(written)
    if normal is not None:
        assert normalise_phone(normal) == normal
        digits = [each for each in written if each.isdigit()]
        # At most one digit is left out, and it is a zero.
        assert len(digits) - len(normal[1:]) in (0, 1)
        assert sorted(digits) in (sorted(normal[1:]), sorted(normal[1:] + "0"))


@pytest.mark.parametrize(("written", "normal"), [each for each in EMAILS if each[1]])
def test_campaigns_and_workflows_agree_on_an_address(written: str, normal: str) -> None:
    happened = datetime(2026, 11, 1, tzinfo=UTC)
    event = DomainEvent(
        DomainEventId("1"), "e", "quote_sent", happened, {"lead": {"email": written}}, {}
    )
    [of_workflow] = addressees(RecipientConfig(include_lead_contact=True), Channel.EMAIL, event)
    assert of_workflow.address == recipient("lead", email=written).email == normal


def test_only_an_address_beyond_ascii_needs_smtputf8() -> None:
    assert needs_smtputf8("josé@example.com")
    assert not needs_smtputf8("a@xn--strae-oqa.example")
