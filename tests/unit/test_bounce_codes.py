"""Hard and soft, by enhanced status code."""

import pytest

from outrider.domain.bounce_codes import best_status, is_hard, parse_status, status_in


@pytest.mark.parametrize(
    ("status", "hard"),
    [
        ("5.1.1", True), ("5.1.2", True), ("5.1.3", True), ("5.1.6", True), ("5.1.10", True),
        ("5.2.1", True), ("5.4.4", True),
        ("5.2.2", False), ("5.2.3", False), ("5.3.0", False), ("5.4.7", False), ("5.5.0", False),
        ("5.6.0", False), ("5.7.1", False), ("5.7.26", False), ("5.1.7", False), ("5.1.8", False),
        ("5.0.0", False), ("4.1.1", False), ("4.2.1", False), ("4.4.1", False), ("2.0.0", False),
    ],
)  # fmt: skip
def test_only_an_address_that_takes_no_mail_is_hard(status: str, hard: bool) -> None:
    assert is_hard(parse_status(status)) is hard


@pytest.mark.parametrize(
    ("status", "diagnostic", "found"),
    [
        ("5.1.1", "smtp; 550 5.7.1 blocked", "5.1.1"),
        ("5.0.0", "smtp; 550 5.1.1 no such user", "5.1.1"),
        ("5.0.0", "smtp; 550 no such user", "5.0.0"),
        ("", "smtp; 550-5.1.1 The email account does not exist", "5.1.1"),
        ("", "smtp; 550 from 5.1.1.7: blocked", None),
        ("5.1.1 (unknown user)", "", "5.1.1"),
        ("", "", None), ("no", "user unknown, mailbox does not exist", None),
    ],
)  # fmt: skip
def test_the_more_specific_code_counts(status: str, diagnostic: str, found: str | None) -> None:
    best = best_status(status, diagnostic)
    assert (None if best is None else str(best)) == found


def test_words_alone_are_never_hard() -> None:
    assert not is_hard(best_status("", "smtp; 550 user unknown"))


def test_an_ip_address_is_not_a_status() -> None:
    assert status_in("rejected by 4.2.2.1 and 192.5.1.1") is None
