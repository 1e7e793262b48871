"""Hard and soft bounces, classified by enhanced status code (RFC 3463), never by text alone.

Hard means that this address takes no mail from any sender. A problem with the message, our
reputation, a full mailbox or the route is soft, even under 5.x.x: it does not disqualify a
recipient. Codes: https://www.iana.org/assignments/smtp-enhanced-status-codes/
"""

import re
from typing import Final, NamedTuple


class EnhancedStatus(NamedTuple):
    """`5.1.1`: class, subject, detail."""

    kind: int
    subject: int
    detail: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.subject}.{self.detail}"

    @property
    def says_little(self) -> bool:
        """`5.0.0`: an unspecified failure; a more specific code takes precedence."""
        return self.subject == 0


HARD: Final = {
    EnhancedStatus(5, 1, 1): "no such mailbox",
    EnhancedStatus(5, 1, 2): "no such domain",
    EnhancedStatus(5, 1, 3): "not a mailbox address",
    EnhancedStatus(5, 1, 6): "the mailbox has moved and left no address",
    EnhancedStatus(5, 1, 10): "the domain takes no mail (null MX, RFC 7505)",
    EnhancedStatus(5, 2, 1): "the mailbox is disabled",
    EnhancedStatus(5, 4, 4): "no host takes mail for the domain",
}
"""Everything else is soft. Among 5.x.x that is: x.1.7 and x.1.8 (our own address), x.2.2 (mailbox
full), x.2.3 (message too long for it), x.3.x (their system), x.4.x except 5.4.4 (the route), x.5.x
(protocol), x.6.x (the message's format), x.7.x (policy, spam and blocking lists)."""

_WHOLE = re.compile(r"([245])\.([0-9]{1,3})\.([0-9]{1,3})")
_WITHIN = re.compile(r"(?<![0-9.])([245])\.([0-9]{1,3})\.([0-9]{1,3})(?![0-9.]*[0-9])")
"""Not inside an IP address: diagnostics are full of them."""


def parse_status(text: str) -> EnhancedStatus | None:
    """From a Status field; a comment may follow it."""
    match = _WHOLE.match(text.strip())
    return None if match is None else EnhancedStatus(*map(int, match.groups()))


def status_in(text: str) -> EnhancedStatus | None:
    """The first one in the server's reply."""
    match = _WITHIN.search(text)
    return None if match is None else EnhancedStatus(*map(int, match.groups()))


def best_status(status: str, diagnostic: str) -> EnhancedStatus | None:
    """The Status field, unless it is unspecific and the server's own reply says more."""
    stated, quoted = parse_status(status), status_in(diagnostic)
    if stated is None or (stated.says_little and quoted is not None):
        return quoted or stated
    return stated


def is_hard(status: EnhancedStatus | None) -> bool:
    """Without a code nothing is hard: judging by text alone has cost too many good addresses."""
    return status in HARD
