"""What a mail server's reply means: a table by step and code, and what each is about.

A 2xx after the message has taken it; any 4xx or 5xx means that the command was not carried out (RFC
5321, 4.2.1), so nothing was taken; anything else proves neither. Enhanced codes (RFC 3463) take
precedence over the three digits, because 550 is used for mailboxes, senders and blocklists alike.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from outrider.domain.blame import Party
from outrider.domain.call_results import (
    INVALID_ANSWER,
    UNAUTHORIZED,
    Accepted,
    AttemptError,
    CallResult,
    Closes,
    Held,
    Progress,
    Rejected,
    Throttled,
)
from outrider.gateways.smtp_suspicions import Suspicion, Suspicions
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS

START_INPUT, CLOSING = 354, 421
MESSAGE_REFUSED, RECIPIENT_REFUSED = "message_refused", "invalid_recipient"
CONNECTION_REJECTED, HELO_REFUSED = "connection_rejected", "helo_refused"
SENDER_REFUSED, BLOCKED = "sender_refused", "blocked"
PROTOCOL_REFUSED, TARGET_FAILS = "protocol_refused", "target_fails"
TLS_FAILURE = "tls_failure"

ENHANCED_CODE: Final = re.compile(r"[245]\.(\d{1,3}\.\d{1,3})\b")


class Step(StrEnum):
    GREETING = "greeting"
    HELLO = "EHLO"
    TLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL FROM"
    RCPT = "RCPT TO"
    DATA = "DATA"
    END = "end of data"


BEFORE_THE_RECIPIENT: Final = frozenset({Step.GREETING, Step.HELLO, Step.TLS, Step.AUTH, Step.MAIL})
"""A refusal here applies to everyone: the next message would get the same."""
WITH_THE_RECIPIENT: Final = frozenset({Step.RCPT, Step.DATA, Step.END})
WITH_THE_MESSAGE: Final = frozenset({Step.DATA, Step.END})
EVERYWHERE: Final = frozenset(Step)

_OF_THE_HELO = re.compile(r"\b(?:helo|ehlo)\b", re.IGNORECASE)
_OF_THE_SENDER = re.compile(r"\bsender\b|\bmail from\b|\benvelope.from\b", re.IGNORECASE)
_OF_OUR_STANDING = re.compile(
    r"block|\blist(?:ed|ing)\b|blacklist|\bspam|\brelay|\bdenied\b|\bpolicy\b|reputation|\bSPF\b"
    r"|\bDKIM\b|\bDMARC\b|\bPTR\b|reverse|\bauthenticat|\bunauthenticat|\bIP\b|not allowed"
    r"|not permitted",
    re.IGNORECASE,
)


class AnswerRule(NamedTuple):
    """For replies of one kind (4 or 5) at these steps: what they are about, and their name.

    `enhanced` is the rest of the code after its first digit; "" is a reply without one.
    """

    steps: frozenset[Step]
    kind: int
    about: Party
    reason: str
    codes: frozenset[int] = frozenset()
    enhanced: tuple[str, ...] = ()
    words: re.Pattern[str] | None = None
    source: str = "RFC 5321, 4.2"

    def is_met_by(self, step: Step, code: int, enhanced: str, text: str) -> bool:
        return (
            step in self.steps
            and code // 100 == self.kind
            and (not self.codes or code in self.codes)
            and (not self.enhanced or _begins(enhanced, self.enhanced))
            and (self.words is None or self.words.search(text) is not None)
        )


def _begins(enhanced: str, wanted: tuple[str, ...]) -> bool:
    return any(enhanced.startswith(each) if each else not enhanced for each in wanted)


_CREDENTIALS = frozenset({530, 534, 535, 538})
_MAILBOX = frozenset({500, 501, 550, 551, 552, 553})
_TOO_BIG = ("2.3", "3.4")

RULES: Final[tuple[AnswerRule, ...]] = (
    # "Later". When the recipient is named it is about that recipient (a greylist, a full mailbox);
    # the system's own problems affect everyone.
    AnswerRule(EVERYWHERE, 4, Party.TARGET, "", frozenset({CLOSING}), source="RFC 5321, 3.8"),
    AnswerRule(frozenset({Step.RCPT}), 4, Party.TARGET, "", enhanced=("3.", "4.", "5."),
               source="RFC 3463, 3.4-3.6"),
    AnswerRule(frozenset({Step.RCPT}), 4, Party.ITEM, "", source="RFC 6647, 2"),
    AnswerRule(WITH_THE_MESSAGE, 4, Party.ITEM, "", enhanced=("1.", "2."),
               source="RFC 3463, 3.2-3.3"),
    AnswerRule(EVERYWHERE, 4, Party.TARGET, ""),
    # Permanent refusals before any recipient is named.
    AnswerRule(frozenset({Step.GREETING}), 5, Party.US, CONNECTION_REJECTED,
               source="RFC 5321, 3.1"),
    AnswerRule(frozenset({Step.HELLO}), 5, Party.US, HELO_REFUSED, source="RFC 5321, 4.1.4"),
    AnswerRule(frozenset({Step.TLS}), 5, Party.US, TLS_FAILURE, source="RFC 3207, 4"),
    AnswerRule(frozenset({Step.AUTH}), 5, Party.US, UNAUTHORIZED, source="RFC 4954, 6"),
    AnswerRule(EVERYWHERE, 5, Party.US, UNAUTHORIZED, _CREDENTIALS, source="RFC 4954, 6"),
    AnswerRule(frozenset({Step.MAIL}), 5, Party.ITEM, MESSAGE_REFUSED, frozenset({552}),
               source="RFC 1870, 6.1"),
    AnswerRule(frozenset({Step.MAIL}), 5, Party.ITEM, MESSAGE_REFUSED, enhanced=_TOO_BIG,
               source="RFC 3463, 3.3-3.4"),
    AnswerRule(frozenset({Step.MAIL}), 5, Party.US, SENDER_REFUSED, source="RFC 5321, 3.3"),
    # Many servers defer their objections to HELO and sender until the recipient is named.
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, SENDER_REFUSED, enhanced=("1.7", "1.8"),
               source="RFC 3463, 3.2"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, HELO_REFUSED, enhanced=("5.", "7.", ""),
               words=_OF_THE_HELO, source="Postfix, smtpd_delay_reject"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, SENDER_REFUSED, enhanced=("5.", "7.", ""),
               words=_OF_THE_SENDER, source="Postfix, smtpd_delay_reject"),
    # About this recipient, or this message.
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.ITEM, MESSAGE_REFUSED, enhanced=_TOO_BIG,
               source="RFC 3463, 3.3-3.4"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.ITEM, RECIPIENT_REFUSED, enhanced=("1.", "2."),
               source="RFC 3463, 3.2-3.3"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.ITEM, MESSAGE_REFUSED, enhanced=("6.",),
               source="RFC 3463, 3.7"),
    AnswerRule(WITH_THE_MESSAGE, 5, Party.ITEM, MESSAGE_REFUSED, frozenset({500, 501, 552}), ("",)),
    # About the system there, or about us.
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.TARGET, TARGET_FAILS, enhanced=("3.", "4."),
               source="RFC 3463, 3.4-3.5"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, PROTOCOL_REFUSED, enhanced=("5.",),
               source="RFC 3463, 3.6"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, BLOCKED, enhanced=("7.",), source="RFC 3463, 3.8"),
    # Only three digits: at RCPT the mailbox codes are about the mailbox, unless the text mentions
    # our reputation.
    AnswerRule(frozenset({Step.RCPT}), 5, Party.US, BLOCKED, _MAILBOX, words=_OF_OUR_STANDING),
    AnswerRule(frozenset({Step.RCPT}), 5, Party.ITEM, RECIPIENT_REFUSED, _MAILBOX,
               source="RFC 5321, 4.2.3"),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, BLOCKED, frozenset({550, 554})),
    AnswerRule(WITH_THE_RECIPIENT, 5, Party.US, PROTOCOL_REFUSED),
)  # fmt: skip
"""The first match decides."""


def rule_for(step: Step, code: int, text: str) -> AnswerRule | None:
    """None: no rule, so the reply is not an answer."""
    found = ENHANCED_CODE.match(text)
    enhanced = found[1] if found else ""
    return next(_met(step, code, enhanced, text), None)


def _met(step: Step, code: int, enhanced: str, text: str) -> Iterator[AnswerRule]:
    return (rule for rule in RULES if rule.is_met_by(step, code, enhanced, text))


def judged(
    step: Step, code: int, text: str, reference: str, suspicions: Suspicions, *, body_left: bool
) -> CallResult:
    """What the reply means for a message; `reference` is the message's."""
    detail = f"{code} {text}"[:ERROR_DETAIL_MAX_CHARACTERS]
    if code // 100 == 2 and body_left:
        suspicions.taken()
        return Accepted(text[:ERROR_DETAIL_MAX_CHARACTERS] or None)
    rule = rule_for(step, code, text)
    if rule is None:
        # Such a reply does not say what happened to the message.
        progress = Progress.SENT_NO_ANSWER if body_left else Progress.NOT_SENT
        return AttemptError(progress, INVALID_ANSWER, detail)
    if rule.kind == 4:
        about_the_item = rule.about is Party.ITEM
        return Throttled(detail, closes=Closes.THE_ITEM if about_the_item else Closes.THE_DOOR)
    if rule.about is Party.ITEM:
        return Rejected(rule.reason, detail)
    if step in BEFORE_THE_RECIPIENT:
        return Held(rule.reason, detail)
    return _suspected(rule, detail, suspicions.refused(reference))


def _suspected(rule: AnswerRule, detail: str, suspicion: Suspicion) -> CallResult:
    """A refusal that names us, but came after a recipient was named: one alone proves nothing."""
    match suspicion:
        case Suspicion.US:
            return Held(rule.reason, detail, Closes.THE_ITEM)
        case Suspicion.THE_ITEM:
            return Rejected(MESSAGE_REFUSED, detail)
        case Suspicion.UNDECIDED:
            return Throttled(detail, closes=Closes.THE_ITEM, reason=rule.reason)
