"""The table of mail servers' replies: whom each is about."""

import pytest

from outrider.domain.blame import Party
from outrider.domain.call_results import Accepted, AttemptError, Closes, Held, Rejected, Throttled
from outrider.gateways.smtp_answers import RULES, Step, judged, rule_for
from outrider.gateways.smtp_suspicions import Suspicion, Suspicions
from outrider.limits.gateways import SMTP_SUSPECTS_MAX

AT_RCPT = [
    ("550 5.1.1 <ada@example.test>: Recipient address rejected: User unknown", "item"),
    ("550 5.1.10 RESOLVER.ADR.RecipientNotFound", "item"),
    ("552 5.2.2 mailbox full", "item"),
    ("550 5.2.1 The account is disabled", "item"),
    ("550 no such user", "item"),
    ("553 mailbox name not allowed here", "us"),
    ("501 bad address syntax", "item"),
    ("550 5.1.8 Sender address rejected: Domain not found", "us"),
    ("553 5.1.7 bad sender's mailbox address syntax", "us"),
    ("504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname", "us"),
    ("554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org", "us"),
    ("550 5.7.1 <news@example.test>: Sender address rejected: Access denied", "us"),
    ("554 5.7.1 <ada@example.test>: Relay access denied", "us"),
    ("550 blocked by our policy", "us"),
    ("550 5.7.26 unauthenticated mail is not accepted", "us"),
    ("530 5.7.0 Authentication required", "us"),
    ("503 5.5.1 MAIL first", "us"),
    ("554 5.3.0 out of order", "target"),
    ("550 5.4.1 Access denied", "target"),
    ("450 4.2.0 <ada@example.test>: Greylisted", "item"),
    ("452 4.2.2 mailbox full", "item"),
    ("451 4.3.0 local error", "target"),
    ("421 4.7.0 too many connections", "target"),
]


@pytest.mark.parametrize(("reply", "about"), AT_RCPT)
def test_enhanced_codes_say_whom_a_reply_to_a_recipient_is_about(reply: str, about: str) -> None:
    """A3: any 5xx at RCPT was an invalid recipient."""
    rule = rule_for(Step.RCPT, int(reply[:3]), reply[4:])
    assert rule is not None
    assert rule.about == about


@pytest.mark.parametrize(
    ("step", "reply", "reason"),
    [
        (Step.GREETING, "554 5.7.1 you are on a list", "connection_rejected"),
        (Step.HELLO, "550 5.7.1 need a full name", "helo_refused"),
        (Step.TLS, "501 no", "tls_failure"),
        (Step.AUTH, "535 5.7.8", "unauthorized"),
        (Step.MAIL, "553 5.7.1 not your address", "sender_refused"),
        (Step.MAIL, "530 5.7.0 log in first", "unauthorized"),
    ],
)
def test_a_refusal_before_the_recipient_is_named_holds_the_target(
    step: Step, reply: str, reason: str
) -> None:
    """A3: a HELO that was refused made 100 of 100 people invalid."""
    result = judged(step, int(reply[:3]), reply[4:], "a", Suspicions(), body_left=False)
    assert result == Held(reason, reply, Closes.THE_DOOR)


def test_every_rule_has_a_source_and_can_be_met() -> None:
    for rule in RULES:
        assert rule.source.startswith(("RFC ", "Postfix"))
        assert rule.kind in (4, 5)
        assert rule.about is not Party.ITEM or rule.kind == 4 or rule.reason
    for step in Step:
        for code in (421, 450, 550, 554):
            assert rule_for(step, code, "") is not None


@pytest.mark.parametrize("code", [250, 354, 199, 600])
def test_an_answer_without_a_rule_proves_nothing(code: int) -> None:
    result = judged(Step.RCPT, code, "?", "a", Suspicions(), body_left=False)
    assert isinstance(result, AttemptError)


def refused(suspicions: Suspicions, reference: str) -> object:
    return judged(Step.RCPT, 554, "5.7.1 denied", reference, suspicions, body_left=False)


def test_one_refusal_that_could_be_about_us_waits_alone() -> None:
    result = refused(Suspicions(), "a")
    assert isinstance(result, Throttled)
    assert (result.closes, result.reason) == (Closes.THE_ITEM, "blocked")


def test_the_same_refusal_for_many_in_a_row_is_about_us() -> None:
    """A3: a blocklist answers everybody so."""
    suspicions = Suspicions()
    results = [refused(suspicions, str(number)) for number in range(SMTP_SUSPECTS_MAX + 2)]
    held = [isinstance(result, Held) for result in results]
    assert held == [False] * (SMTP_SUSPECTS_MAX - 1) + [True] * 3
    assert results[-1] == Held("blocked", "554 5.7.1 denied", Closes.THE_ITEM)


def test_a_message_refused_again_while_others_are_accepted_is_itself_at_fault() -> None:
    suspicions = Suspicions()
    assert isinstance(refused(suspicions, "a"), Throttled)
    assert isinstance(refused(suspicions, "a"), Throttled), "nobody else was taken meanwhile"
    taken = judged(Step.END, 250, "queued", "b", suspicions, body_left=True)
    assert taken == Accepted("queued")
    for _ in range(2):
        assert refused(suspicions, "a") == Rejected("message_refused", "554 5.7.1 denied")


def test_a_message_refused_while_we_were_blocked_is_not_blamed_afterwards() -> None:
    suspicions = Suspicions()
    for number in range(10):
        refused(suspicions, str(number))
    suspicions.taken()
    assert suspicions.refused("late") is Suspicion.UNDECIDED
